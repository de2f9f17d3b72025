"""Counters of all disks, by hand and from this machine."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.probes.host_disks import PLUGIN
from fairlane.records import Figures

BEFORE = """ 259       0 nvme0n1 100 5 800 10 200 6 1600 20 0 1000 30 0 0 0 0 7 70
 8 0 sda 1 0 8 0 0 0 0 0 0 0 0
 8 16 sdb 9 0 72 0 0 0 0 0 0 0 0
uptime 100.50 190.00
"""
AFTER = """ 259       0 nvme0n1 150 5 1200 10 300 6 3600 20 0 1500 30 0 0 0 0 17 75
 8 0 sda 1 0 8 0 0 0 0 0 0 0 0
 8 16 sdb 3 0 24 0 0 0 0 0 0 0 0
 8 32 sdc 3 0 24 0 0 0 0 0 0 0 0
uptime 101.50 191.00
"""


def disks(before: str, after: str) -> object:
    return PLUGIN.observe(before, after, Figures()).context.get("host_disks")


def test_two_snapshots_by_hand() -> None:
    """sda is idle, sdb was made anew, sdc is new."""
    assert disks(BEFORE, AFTER) == {
        "nvme0n1": {
            "reads": 50, "read_bytes": 400 * 512, "writes": 100, "write_bytes": 2000 * 512, "flushes": 10,
            "flush_ms": 5, "busy": pytest.approx(0.5),
        }
    }  # fmt: skip


def test_an_old_kernel_counts_no_flushes() -> None:
    seen = disks("8 0 sda 1 0 8 0 0 0 0 0 0 0 0\n", "8 0 sda 2 0 16 0 0 0 0 0 0 9 0\n")
    assert seen == {"sda": {"reads": 1, "read_bytes": 8 * 512, "writes": 0, "write_bytes": 0}}


def test_nothing_moved_is_not_nothing_known() -> None:
    assert disks(BEFORE, BEFORE) == {}
    assert disks("", AFTER) is None


@pytest.mark.skipif(not Path("/proc/diskstats").exists(), reason="needs Linux")
def test_the_shell_sees_a_flushed_write_on_this_machine(tmp_path: Path) -> None:
    def uptime() -> str:
        return Path("/proc/uptime").read_text().split()[0]

    def snapshot() -> str:
        return subprocess.run(["sh", "-euc", PLUGIN.capture], capture_output=True, text=True, check=True).stdout

    before = snapshot()
    begun = uptime()
    with (tmp_path / "file").open("wb") as file:
        file.write(os.urandom(2**20))
        file.flush()
        os.fsync(file.fileno())
    while uptime() == begun:  # its step of 10 ms is what `busy` is a share of
        pass
    seen = disks(before, snapshot())
    assert isinstance(seen, dict)
    if not any(disk["write_bytes"] for disk in seen.values()):
        pytest.skip("the temporary folder is on no disk that is seen")
    assert sum(disk["write_bytes"] for disk in seen.values()) >= 2**20
    assert sum(disk["flushes"] for disk in seen.values()) >= 1
    assert all(0 <= disk["busy"] <= 1 for disk in seen.values())


@given(st.lists(st.text(max_size=60) | st.sampled_from(BEFORE.splitlines() + AFTER.splitlines()), max_size=6))
def test_no_snapshot_makes_it_raise(lines: list[str]) -> None:
    text = "\n".join(lines)
    for seen in (disks(text, AFTER), disks(BEFORE, text)):
        assert seen is None or isinstance(seen, dict)
