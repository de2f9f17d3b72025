"""The bench of planted truth: its counting, and its quick form with real delays."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairlane.records import Verdict

ROOT = Path(__file__).parents[2]

with pytest.MonkeyPatch.context() as beside:
    beside.syspath_prepend(str(ROOT / "bench"))
    planted = importlib.import_module("planted")

LACKING = [name for name in ("fio", "nbdkit", "nbdfuse", "chrt") if not shutil.which(name)]


def verdict(word: str, low: float | None, high: float | None) -> Verdict:
    """Of the other path's latency against the baseline's."""
    empty = Verdict.__new__(Verdict)
    for key, value in {"verdict": word, "low": low, "high": high}.items():
        object.__setattr__(empty, key, value)
    return empty


def test_an_interval_holds_the_truth_with_what_the_system_adds() -> None:
    truth = planted.Truth(130, verdicts=[verdict("faster", 1 / 1.31, 1 / 1.295), verdict("inconclusive", None, None)])
    assert truth.ratio(0.0) == 1.3
    assert (truth.held(0.0), truth.held(100.0)) == (1, 0)


def test_words_that_must_not_be_are_counted() -> None:
    words = ("tie", "faster", "slower", "different-but-small", "inconclusive")
    said = [verdict(word, 0.9, 1.1) for word in words]
    wrong = {delay: planted.Truth(delay, verdicts=said).wrong() for delay in planted.DELAYS}
    assert wrong == {100: 2, 102: 0, 112: 2, 130: 2}


@pytest.mark.slow
@pytest.mark.xdist_group("versus")
@pytest.mark.skipif(bool(LACKING), reason=f"needs {', '.join(LACKING)}")
@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and FUSE")
def test_versus_finds_the_delays_that_were_planted() -> None:
    command = ["chrt", "-r", "1", sys.executable, "bench/planted.py", "--setting", "delay", "--repeats", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True,
                          text=True, check=False, timeout=1200)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
