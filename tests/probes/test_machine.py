"""How busy a machine was, from a real lab trial, by hand, and from this machine."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlane.probes.machine import PLUGIN
from fairlane.records import Figures

DATA = Path(__file__).parent / "data"
BEFORE, AFTER = ((DATA / f"4k-qd8.iscsi.machine.{when}").read_text() for when in ("before", "after"))


def machine(before: str, after: str) -> object:
    return PLUGIN.observe(before, after, Figures()).context.get("machine")


def test_a_trial_by_hand() -> None:
    user, system, idle, iowait, softirq = 23 - 15, 390 - 385, 340 - 325, 12 - 7, 20 - 19
    total = user + system + idle + iowait + softirq
    assert machine(BEFORE, AFTER) == pytest.approx(
        {
            "busy": (user + system + softirq) / total,
            "steal": 0.0,
            "iowait": iowait / total,
            "cpus": 1,
            "window_ms": 10 * total,
        }
    )


def test_steal_and_two_cpus_by_hand() -> None:
    """guest time (the last two) is in user and nice already."""
    before = "cpu  10 0 10 100 5 1 1 2 7 0\ncpu0 1 0 1 1 1 1 1 1 0 0\ncpu1 1 0 1 1 1 1 1 1 0 0\n"
    after = "cpu  60 0 20 130 4 1 2 11 57 0\ncpu0 1 0 1 1 1 1 1 1 0 0\ncpu1 1 0 1 1 1 1 1 1 0 0\n"
    busy, idle, steal = 50 + 10 + 1, 30, 9  # iowait fell: it is an estimate
    assert machine(before, after) == pytest.approx(
        {
            "busy": busy / (busy + idle + steal),
            "steal": steal / (busy + idle + steal),
            "iowait": 0.0,
            "cpus": 2,
            "window_ms": (busy + idle + steal) * 10 / 2,
        }
    )


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux")
def test_the_shell_reads_this_machine() -> None:
    command = ["sh", "-eu", "-c", f"{PLUGIN.capture}; sleep 0.2; echo; echo then; {PLUGIN.capture}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    before, _, after = told.partition("then\n")
    seen = machine(before, after)
    assert isinstance(seen, dict)
    assert 0 <= seen["busy"] <= 1
    assert seen["cpus"] == sum(line.startswith("processor") for line in Path("/proc/cpuinfo").read_text().splitlines())
    assert all(line.startswith("cpu") for line in after.split("\n") if line)


line = st.lists(st.integers(-5, 10**25).map(str) | st.sampled_from(["cpu", "cpu0", "", "x", "9" * 6000]), max_size=12)


@given(*[st.text(max_size=60) | st.lists(line.map(" ".join), max_size=4).map("\n".join)] * 2)
@example(BEFORE, AFTER[:20])
@example(AFTER, BEFORE)
def test_no_snapshot_makes_it_raise(before: str, after: str) -> None:
    for seen in (machine(before, after), machine(BEFORE, after), machine(before, AFTER)):
        assert seen is None or (isinstance(seen, dict) and min(seen.values()) >= 0 and seen["busy"] <= 1)
