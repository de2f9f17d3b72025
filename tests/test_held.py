"""A held run: trials pass one by one, and neither side waits for one that has ended."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlane.errors import Exit
from testkit.held import HeldRun
from testkit.process import events

STUDY = """\
name: small
baseline: iscsi
platform: {kind: fake}
lanes:
  iscsi: {transport: iscsi}
  nvme-tcp: {transport: nvme_tcp}
workloads:
  main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}
design: {looks: [3]}
"""
TRIALS = 12


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(STUDY)
    return tmp_path


@pytest.mark.parametrize("workers", [1, 3])
def test_as_many_trials_pass_as_are_let(workers: int) -> None:
    with HeldRun("run", "study.yaml", "--out", "out", "--jobs", workers, workers=workers) as run:
        assert events(Path("out"), "trial") == []
        for done in 1, 2, 3:
            run.let(1)
            assert len(events(Path("out"), "trial")) == done
        run.release()
        assert run.end()[0] == Exit.OK
    assert len(events(Path("out"), "trial")) == TRIALS


def test_a_run_that_ends_fails_the_test() -> None:
    with pytest.raises(AssertionError, match=r"absent\.yaml"), HeldRun("run", "absent.yaml"):
        pass
    with HeldRun("run", "study.yaml", "--out", "out", "--jobs", "1") as run:
        run.send(signal.SIGKILL)
        with pytest.raises(AssertionError, match="has ended"):
            run.let(1)


TEST = """
from testkit.held import HeldRun
with HeldRun("run", "study.yaml", "--out", "out", "--jobs", "1") as run:
    print(run.process.pid, flush=True)
    input()
"""


def test_a_run_ends_whose_test_is_killed() -> None:
    root = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", TEST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": root},
    ) as test:  # fmt: skip
        assert test.stdout
        run = os.pidfd_open(int(test.stdout.readline()))
        test.kill()
    ended = select.poll()
    ended.register(run, select.POLLIN)
    assert ended.poll()  # without a limit
    os.close(run)
