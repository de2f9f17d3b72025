import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.stats.steady import ROUNDS, steadiness


@pytest.mark.parametrize("rates", [[], [100.0] * 4, [0.0] * 5])
def test_too_little_is_not_judged(rates: list[float]) -> None:
    assert steadiness(rates) is None


def test_what_stays_is_steady() -> None:
    found = steadiness([100, 104, 98, 101, 97])
    assert found
    assert found.steady
    assert math.isclose(found.range, 7 / 100)


def test_a_slope_within_the_range_is_not_steady() -> None:
    found = steadiness([94, 97, 100, 103, 106])  # range 12 %, slope 12 %
    assert found
    assert math.isclose(found.slope, 0.12)
    assert math.isclose(found.range, 0.12)
    assert not found.steady


def test_a_range_without_slope_is_not_steady() -> None:
    found = steadiness([115, 90, 90, 90, 115])
    assert found
    assert abs(found.slope) < 1e-9
    assert not found.steady


def test_only_the_last_five_count() -> None:
    found = steadiness([1000, 500, 250, *[100.0] * ROUNDS])
    assert found
    assert found.steady


@given(st.lists(st.floats(1, 1e6), min_size=ROUNDS, max_size=20), st.floats(0.01, 100))
def test_the_unit_does_not_matter(rates: list[float], factor: float) -> None:
    one, other = steadiness(rates), steadiness([r * factor for r in rates])
    assert one
    assert other
    assert math.isclose(one.range, other.range, rel_tol=1e-6, abs_tol=1e-9)
    assert math.isclose(one.slope, other.slope, rel_tol=1e-6, abs_tol=1e-9)
