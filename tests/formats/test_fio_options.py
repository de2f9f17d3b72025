"""fio's job options as parameters. Values marked *fio* were checked against fio 3.33 on a null device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.formats.fio_options import devices, duration, flag, integer, parameters

DEFAULTS = {"rw": "read", "bs": 4096, "iodepth": 1, "engine": "psync", "direct": False, "mem": "malloc", "ramp": 0}


@pytest.mark.parametrize(
    ("text", "base", "value"),
    [
        ("4k", 1024, 4096),  # fio
        ("4KB", 1024, 4096),  # fio
        ("4ki", 1024, 4096),  # fio: its manual says 4000
        ("4kib", 1024, 4000),  # fio
        ("0x1000", 1024, 4096),  # fio
        ("4k", 1000, 4000),
        ("4KiB", 1000, 4096),
        ("10g", 1024, 10 * 2**30),
        ("1T", 1024, 2**40),
        ("512b", 1024, 512),
    ],
)
def test_numbers(text: str, base: int, value: int) -> None:
    assert integer(text, base) == value


@pytest.mark.parametrize("text", ["", "k", "4 k", "-1", "4x", "50%", "1.5k", "٤k", "9" * 31, "0x", "1e3"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        integer(text)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1", 10**9), ("500ms", 5 * 10**8), ("1000000us", 10**9),  # fio
        ("5m", 300 * 10**9), ("2h", 7200 * 10**9), ("9S", 9 * 10**9),
    ],
)  # fmt: skip
def test_times(text: str, ns: int) -> None:
    assert duration(text) == ns


@pytest.mark.parametrize("text", ["", "0.5", "5 minutes", "-1s", "1e3"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        duration(text)


def test_flags() -> None:
    assert flag("")
    assert flag("1")
    assert not flag("0")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, {}),
        ({"readwrite": "randrw", "blocksize": "8k"}, {"rw": "randrw", "bs": 8192, "rwmixread": 50}),
        ({"rw": "readwrite", "rwmixwrite": "30"}, {"rw": "rw", "rwmixread": 70}),
        ({"rw": "randread", "bs": "4k,64k"}, {"rw": "randread", "bs": 4096}),
        ({"rw": "randwrite", "bs": "4k,64k"}, {"rw": "randwrite", "bs": 65536}),
        ({"rw": "randrw", "bs": "4k,64k"}, {"rw": "randrw", "rwmixread": 50, "bs": None}),
        ({"rw": "randrw", "bs": "4k,4k,64k"}, {"rw": "randrw", "rwmixread": 50}),
        ({"bsrange": "4k-64k", "bs": "4k"}, {"bs": None, "bsrange": "4k-64k"}),
        ({"bssplit": "4k/50:64k/50"}, {"bs": None, "bssplit": "4k/50:64k/50"}),
        ({"rw": "read:8"}, {"rw": "read:8"}),
        ({"rw": "randread", "rate_iops": "500"}, {"rw": "randread", "rate_iops": 500}),
        ({"rw": "randrw", "rate_iops": "500"}, {"rw": "randrw", "rwmixread": 50, "rate_iops": 1000}),
        ({"rw": "randrw", "rate_iops": "350,150"}, {"rw": "randrw", "rwmixread": 50, "rate_iops": 500}),
        ({"rw": "randrw", "rate_iops": ",150"}, {"rw": "randrw", "rwmixread": 50}),
        ({"ioengine": "libaio", "buffered": "0"}, {"engine": "libaio", "direct": True}),
        ({"size": "10g"}, {"size": 10 * 2**30}),
        ({"size": "100%"}, {}),
        ({"size": "1g", "offset_increment": "1g"}, {}),
        ({"bs": "4k", "kb_base": "1000"}, {"bs": 4000}),
        ({"bs": "what"}, {"bs": None}),
        ({"ramp_time": "10"}, {"ramp": 10**10}),
        ({"zero_buffers": "", "hugepage-size": "2m"}, {"zero_buffers": "1", "hugepage_size": "2m"}),
        ({"zero_buffers": "0", "invalidate": "1", "norandommap": "", "randseed": "7", "write_lat_log": "x"}, {}),
        ({"new_in_fio_9": "fast", "log_new": "1", "Bad Name": "1"}, {"new_in_fio_9": "fast"}),
        ({"copies": "3", "prefill": "1", "date": "2026-01-01"}, {}),  # no options of fio's, and no way to claim these
        ({"fsync": "1", "thinktime": "100", "iomem": "mmap"}, {"fsync": 1, "thinktime": 100_000, "mem": "mmap"}),
    ],
)
def test_parameters(options: dict[str, str], told: dict[str, object]) -> None:
    expected = {name: value for name, value in (DEFAULTS | told).items() if value is not None}
    assert parameters(options) == expected


def test_devices_are_told_from_files_and_from_each_other() -> None:
    path = "/dev/disk/by-path/pci-0000\\:00\\:04.0"
    assert devices({"filename": f"/dev/sdb:/dev/sdc:{path}:file"}) == (
        "/dev/sdb",
        "/dev/sdc",
        "/dev/disk/by-path/pci-0000:00:04.0",
    )
    assert devices({}) == ()


def test_no_file_brings_any_number_of_parameters() -> None:
    assert len(parameters({f"option{n}": "1" for n in range(1000)})) < 70


NAMES = st.sampled_from([
    "rw", "bs", "blocksize", "iodepth", "rate_iops", "size", "direct", "buffered", "kb_base", "ramp_time", "rwmixread",
    "rwmixwrite", "bssplit", "ioengine",
])  # fmt: skip


@given(st.dictionaries(NAMES, st.text(max_size=40) | st.sampled_from(["randrw", "0", "9" * 40, "1k,2k,3k,4k", ",,"])))
def test_any_options_give_scalars(options: dict[str, str]) -> None:
    assert all(isinstance(value, str | int) for value in parameters(options).values())
    devices(options)
