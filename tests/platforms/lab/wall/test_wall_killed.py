"""Whatever dies, the run goes on or is resumed, says so, and nothing stays behind: processes, mounts, folders."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.platforms.lab import scratch

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

STUDY = """
name: killed
platform: {kind: lab, clock: wall, memory: 512m, medium: {size: 256m}, accel: tcg, array: {memory: 512m}}
baseline: one
lanes:
  one: {transport: LANE}
  two: {transport: LANE}
workloads:
  main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s, prefill: false}
design: {looks: [BLOCKS]}
"""


class Run:
    """``fairlane run`` as a process of its own, and what its lab consists of."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.folder = folder / "run"
        with (folder / "stderr").open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlane", "run", *args, "--out", str(self.folder)],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

    def events(self, kind: str) -> list[dict[str, object]]:
        path = self.folder / "journal.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in found if event["type"] == kind]

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.process.poll() is None, (self.folder.parent / "stderr").read_text()[-2000:]
            time.sleep(0.1)

    def trials(self) -> int:
        return len(self.events("trial"))


def machines(name: str) -> list[int]:
    """Pids of the QEMUs of this user's temporary folder whose machine is called ``name``."""
    needle = f"{os.environ['TMPDIR']}/"
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            inside = str((entry / "cwd").readlink())
            program = (entry / "comm").read_text()
        except OSError:
            continue
        if inside.startswith(needle) and inside.endswith(f"/{name}") and program.startswith("qemu"):
            found.append(int(entry.name))
    return found


def on_guest(command: str) -> None:
    """Runs ``command`` on the guest, over the run's own connection."""
    [socket] = Path(os.environ["TMPDIR"]).glob("fairlane-*/guest0.ssh")
    subprocess.run(["ssh", "-S", str(socket), "x", command], capture_output=True, check=False, timeout=300)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    temporary = Path(tempfile.mkdtemp(prefix="flk", dir="/tmp"))  # short: sockets are in it
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield tmp_path
    assert scratch.abandoned() == []
    temporary.rmdir()  # is empty


@pytest.fixture
def begin(here: Path) -> Iterator[Callable[..., Run]]:
    """Starts a run in the test's folder; one that a failed test leaves behind is killed."""
    started: list[Run] = []

    def one(*args: str) -> Run:
        started.append(Run(here, *args))
        return started[-1]

    yield one
    for going in started:
        going.process.kill()
        going.process.wait()


def study(folder: Path, lane: str, blocks: int) -> None:
    (folder / "s.yaml").write_text(STUDY.replace("LANE", lane).replace("BLOCKS", str(blocks)))


def test_guest_sshd_and_fairlane_killed(
    here: Path, begin: Callable[..., Run], capsys: pytest.CaptureFixture[str]
) -> None:
    study(here, "local, initiator: hypervisor", 8)  # more than a busy machine gets through before we kill it
    going = begin("s.yaml")
    going.until(lambda: going.trials() >= 1)
    os.kill(machines("guest0")[0], signal.SIGKILL)
    going.until(lambda: len(going.events("block-failed")) == 1 and going.trials() >= 3)
    [failed] = going.events("block-failed")
    assert (failed["error"], "guest0" in str(failed["reason"])) == ("machine-lost", True)

    on_guest("pkill -9 sshd")
    going.until(lambda: len(going.events("block-failed")) == 2 and going.trials() >= 5)

    going.process.kill()
    going.process.wait()
    [folder] = scratch.abandoned()
    deadline = time.monotonic() + 300
    while len(scratch.leftovers(folder)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [left.kind for left in scratch.leftovers(folder)] == ["folder"]  # all else ended with us
    assert machines("guest0") == []
    assert run(["lab", "clean", "--states"]) == 0
    assert str(folder) in capsys.readouterr().err
    assert scratch.abandoned() == []

    before = going.trials()
    again = subprocess.run(
        [sys.executable, "-m", "fairlane", "run", "--resume", str(going.folder)], capture_output=True, text=True,
        check=False, timeout=3000,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr[-2000:]
    assert (before, going.trials(), len(going.events("resume"))) == (before, 16, 1)
    report = (going.folder / "report.md").read_text()
    assert "Emulated" in report


def test_array_killed_network_cut_and_interrupted(here: Path, begin: Callable[..., Run]) -> None:
    study(here, "nvme_tcp", 8)
    going = begin("s.yaml")
    going.until(lambda: going.trials() >= 1)
    os.kill(machines("array")[0], signal.SIGKILL)
    going.until(lambda: len(going.events("block-failed")) == 1 and going.trials() >= 2)
    [failed] = going.events("block-failed")
    assert (failed["error"], "array" in str(failed["reason"])) == ("machine-lost", True)

    on_guest("ip link set path0 down")  # I/O waits for a path for longer than a trial may take
    before = going.trials()
    going.until(lambda: len(going.events("block-failed")) == 2 and going.trials() > before)
    assert going.events("block-failed")[1]["error"] == "timeout"

    going.process.send_signal(signal.SIGINT)
    assert going.process.wait(600) == 130
    assert machines("array") == machines("guest0") == []
