"""The block device's counters from a real lab trial, and from a device of this machine."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlane.probes.disk import PLUGIN
from fairlane.records import Figures

DATA = Path(__file__).parent / "data"
BEFORE, AFTER = ((DATA / f"4k-qd8.iscsi.disk.{when}").read_text() for when in ("before", "after"))


def disk(before: str, after: str) -> object:
    return PLUGIN.observe(before, after, Figures()).context.get("disk")


def test_a_trial_by_hand() -> None:
    assert disk(BEFORE, AFTER) == {
        "reads": 231 - 1, "read_merges": 0, "read_bytes": (1848 - 8) * 512,
        "writes": 0, "write_merges": 0, "write_bytes": 0,
    }  # fmt: skip


def test_writes_and_merges_by_hand() -> None:
    assert disk("1 2 16 9 5 6 80 9 0", "11 22 96 9 50 66 880 9 0") == {
        "reads": 10, "read_merges": 20, "read_bytes": 80 * 512,
        "writes": 45, "write_merges": 60, "write_bytes": 800 * 512,
    }  # fmt: skip


def test_a_device_made_anew_tells_nothing() -> None:
    assert disk(AFTER, BEFORE) is None


@pytest.mark.skipif(not list(Path("/sys/class/block").glob("*/stat")), reason="no block device here")
def test_the_shell_reads_a_device_of_this_machine() -> None:
    name = next(Path("/sys/class/block").glob("*/stat")).parent.name
    command = ["sh", "-eu", "-c", PLUGIN.capture]
    told = subprocess.run(command, env=os.environ | {"DEVICE": name}, capture_output=True, text=True, check=True)
    counted = disk(told.stdout, told.stdout)
    assert isinstance(counted, dict)
    assert set(counted.values()) == {0}


def test_a_missing_device_is_no_error_to_the_block() -> None:
    command = ["sh", "-u", "-c", f"( {PLUGIN.capture}\n) > /dev/null 2> /dev/null\necho on"]
    told = subprocess.run(command, env=os.environ | {"DEVICE": "none"}, capture_output=True, text=True, check=True)
    assert told.stdout == "on\n"


line = st.lists(st.integers(-5, 10**25).map(str) | st.sampled_from(["", "x", "9" * 6000, "٣"]), max_size=9)


@given(*[st.text(max_size=60) | line.map(" ".join)] * 2)
@example(BEFORE, AFTER[:20])
def test_no_snapshot_makes_it_raise(before: str, after: str) -> None:
    for seen in (disk(before, after), disk(BEFORE, after), disk(before, AFTER)):
        assert seen is None or (isinstance(seen, dict) and min(seen.values()) >= 0)
