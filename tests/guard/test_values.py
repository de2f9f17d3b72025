"""What people and tools write is read into one value each; what cannot be read is said, and nothing is guessed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.guard.parameters import PARAMETERS, parameter
from fairlane.guard.values import NONE

WRITTEN = [
    ("disk_size", "150GiB", 150 * 2**30),
    ("disk_size", 4096, 4096),
    ("vm_memory", "8g", 8 * 2**30),
    ("ramp", "10s", 10**10),
    ("ramp", 0, 0),
    ("runtime", "5m", 3 * 10**11),
    ("link_speed", "25gbit", 25 * 10**9),
    ("prefill", "yes", True),
    ("prefill", "off", False),
    ("direct", 1, True),
    ("direct", "0", False),
    ("iodepth", "32", 32),
    ("iodepth", 32.0, 32),
    ("copies", "3", 3),
    ("copies", "4 + 2", "4+2"),
    ("io_threads", "none", NONE),
    ("io_threads", " N/A ", NONE),
    ("queues", "one per CPU", "one per CPU"),
    ("tool_version", "fio-3.33", "3.33"),
    ("tool_version", "v4.9", "4.9"),
    ("guest_kernel", "6.12.117+deb12-cloud-amd64", "6.12.117+deb12-cloud-amd64"),
    ("rwmixread", "70 %", 70),
    ("rwmixread", "70/30", 70),
    ("flush", False, "no"),
    ("size", "whole disk", "whole disk"),
    ("size", "4GiB", 4 * 2**30),
    ("date", "1970-01-11", 10.0),
    ("date", "1970-01-02T12:00:00+12:00", 1.0),
]

REFUSED = [
    ("disk_size", 150, "150"),
    ("disk_size", "150", "16GiB"),
    ("ramp", 10, "10"),
    ("ramp", True, ""),
    ("prefill", "mostly", ""),
    ("iodepth", True, ""),
    ("iodepth", "deep", ""),
    ("iodepth", -1, ""),
    ("vm_cpus", 1.5, ""),
    ("tool_version", 6.1, '"6.1"'),
    ("rwmixread", "70/40", "70/30"),
    ("rwmixread", 101, "100"),
    ("date", "yesterday", "2026-01-31"),
    ("date", 20260131, "2026-01-31"),
    ("date", 1769817600, "2026-01-31"),
    ("bus", "  ", ""),
    ("copies", math.nan, ""),
    ("rate_iops", "many", ""),
]


@pytest.mark.parametrize(("name", "written", "value"), WRITTEN)
def test_what_is_written_is_read(name, written, value):
    read = parameter(name).read(written)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(("name", "written", "token"), REFUSED)
def test_what_cannot_be_meant_is_refused_with_the_reason(name, written, token):
    with pytest.raises(ValueError, match=r"\w") as raised:
        parameter(name).read(written)
    assert token in str(raised.value)


SCALARS = st.one_of(
    st.text(max_size=30), st.integers(), st.floats(), st.booleans(), st.sampled_from(WRITTEN).map(lambda w: w[1])
)


@given(st.sampled_from([*PARAMETERS, "of_a_plugin"]), SCALARS)
def test_reading_raises_nothing_but_value_errors_and_reads_its_own_values_as_themselves(name, written):
    about = parameter(name)
    try:
        value = about.read(written)
    except (ValueError, OverflowError):
        return
    assert about.read(value) == value
    assert about.match(value, value)
    assert about.shown(value)


@given(st.sampled_from([*PARAMETERS, "of_a_plugin"]), SCALARS, SCALARS)
def test_matching_is_symmetric_and_showing_never_fails(name, a, b):
    about = parameter(name)
    assert about.match(a, b) == about.match(b, a)
    assert isinstance(about.shown(a), str)


@pytest.mark.parametrize("name", ["prefill", "iodepth", "of_a_plugin"])
def test_true_is_not_one(name):
    assert not parameter(name).match(True, 1)
    assert not parameter(name).match(False, 0)
    assert not parameter(name).match("1", 1)


def test_dates_match_within_seven_days_and_versions_as_text():
    date, version = parameter("date"), parameter("tool_version")
    assert date.match(date.read("2026-01-01"), date.read("2026-01-08"))
    assert not date.match(date.read("2026-01-01"), date.read("2026-01-09"))
    assert not version.match("3.3", "3.30")
    assert parameter("volume_mode").match("Block", "block")


def test_a_link_that_is_not_there_follows_from_the_path_but_a_missing_io_thread_does_not():
    assert parameter("link_speed").match(NONE, 25 * 10**9)
    assert not parameter("io_threads").match(NONE, 4)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("disk_size", 150 * 2**30, "150g"), ("prefill", True, "yes"), ("date", 10.0, "1970-01-11"),
     ("date", 1e300, "1e+300"),
     ("rwmixread", 70, "70 %"), ("ramp", "odd", "odd"), ("copies", None, "unknown"), ("link_speed", 10**10, "10gbit")],
)  # fmt: skip
def test_values_are_shown_in_their_unit(name, value, shown):
    assert parameter(name).shown(value) == shown
