"""A journal of 200 MB is read in bounded memory: peak RSS of a process of its own."""

import subprocess
import sys

import pytest

from tests.web.conftest import cut

MIB = 2**20
READ = """
import re, sys
from pathlib import Path
from fairlane.web.follow import Follower
from fairlane.web.reading import load
{what}
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""
"""VmHWM: ru_maxrss begins with that of the process that started this one."""
READINGS = {
    "follow": "assert Follower(Path(sys.argv[1])).poll().done == 24",
    "report": "assert len(load(Path(sys.argv[1])).observations) == 24",
}


def peak(run, what):
    """Peak RSS in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", READ.format(what=READINGS[what]), str(run)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("what", READINGS)
def test_a_long_journal_takes_no_more_memory_than_a_short_one(root, what):
    """The trials of a run, journalled over and over as after endless repairs. Before: 540 MiB and more."""
    run = root / "done"
    journal = run / "journal.jsonl"
    before = peak(run, what)
    first, *rest = journal.read_bytes().splitlines(keepends=True)
    trials = b"".join(line for line in rest if b'"type": "trial"' in line)
    with journal.open("wb") as file:
        file.write(first)
        for _ in range(200 * 10**6 // len(trials) + 1):
            file.write(trials)
        file.writelines(line for line in rest if b'"type": "trial"' not in line)
    assert journal.stat().st_size > 200 * 10**6
    assert peak(run, what) < before + 60


def test_a_line_without_end_is_refused_before_it_fills_memory(root):
    run = root / "done"
    cut(run, 3)
    with (run / "journal.jsonl").open("ab") as file:
        for _ in range(200):
            file.write(b"x" * MIB)
    done = subprocess.run(
        [sys.executable, "-c", READ.format(what="try: load(Path(sys.argv[1]))\nexcept Exception as e: print(e)"), run],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told, rss = done.stdout.splitlines()
    assert "journal.jsonl:4: " in told
    assert "16 MiB" in told
    assert int(rss) < 250


def test_events_without_number_are_refused(root):
    run = root / "done"
    with (run / "journal.jsonl").open("ab") as file:
        for _ in range(60):
            file.write(b'{"type": "block-failed", "cell": "c", "block": 1, "reason": "x"}\n' * 1000)
    done = subprocess.run(
        [sys.executable, "-c", READ.format(what="try: load(Path(sys.argv[1]))\nexcept Exception as e: print(e)"), run],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "50,000" in done.stdout.splitlines()[0]
