"""Quantities: what is read, what is refused, and that what is written is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane import units


@pytest.mark.parametrize(
    ("text", "ns"),
    [("80us", 80_000), ("80 µs", 80_000), ("500ms", 5 * 10**8), ("1.5s", 15 * 10**8), ("5m", 3 * 10**11),
     ("5min", 3 * 10**11), ("2h", 72 * 10**11), ("0s", 0)],
)  # fmt: skip
def test_durations(text: str, ns: int) -> None:
    assert units.parse_duration(text) == ns


@pytest.mark.parametrize(
    ("text", "size"),
    [("4k", 4096), ("4K", 4096), ("4KiB", 4096), ("1m", 2**20), ("16GiB", 2**34), ("512b", 512), ("1t", 2**40)],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert units.parse_size(text) == size


def test_link_rates_are_powers_of_1000() -> None:
    assert units.parse_bitrate("25gbit") == 25 * 10**9
    assert units.parse_bitrate("2.5Gbit") == 25 * 10**8


@pytest.mark.parametrize(("value", "share"), [("5%", 0.05), (0.05, 0.05), ("0.05", 0.05), ("150%", 1.5), (1, 1.0)])
def test_shares(value: object, share: float) -> None:
    assert units.parse_share(value) == pytest.approx(share)


@pytest.mark.parametrize("value", ["5", 5, "0.5", "", "s", "5 parsecs", "-5s", "1e3s", True, None, [5], "5s5s"])
def test_what_is_not_a_duration(value: object) -> None:
    with pytest.raises(ValueError, match="500ms"):
        units.parse_duration(value)


@pytest.mark.parametrize("value", ["5", 7, True, None, "x%", "-5%"])
def test_what_is_not_a_share(value: object) -> None:
    with pytest.raises(ValueError, match="5%"):
        units.parse_share(value)


@given(st.integers(0, 10**18))
def test_what_is_written_is_read_back(number: int) -> None:
    assert units.parse_duration(units.format_duration(number)) == number
    assert units.parse_size(units.format_size(number)) == number
    assert units.parse_bitrate(units.format_bitrate(number)) == number
