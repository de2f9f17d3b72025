"""Whatever dies, the run goes on or is resumed, says so, and nothing stays behind: processes, mounts, folders."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.machines import scratch
from fairlane.runs.journal import Event, read
from testkit.process import Fairlane, events, judged

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


class Run(Fairlane):
    """A run in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"
        super().__init__("run", folder / "s.yaml", "--out", self.folder)

    def events(self, kind: str) -> list[Event]:
        return events(self.folder, kind)

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self.running, self.end()
            time.sleep(0.1)

    def has_trial(self, *, failures: int = 0) -> bool:
        """Whether a trial is journaled after at least so many blocks have failed."""
        types = (event["type"] for event in read(self.folder))
        return all("block-failed" in types for _ in range(failures)) and "trial" in types


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


def told(going: Run, machine: str) -> str:
    """How ``machine`` ended, by the journal; its console has been kept, and the first line says what it did."""
    [failed] = going.events("block-failed")
    first = str(failed["reason"]).partition("\n")[0]
    match = re.fullmatch(rf"{machine} ended while (.+): (QEMU .+)", first)
    assert match, failed["reason"]
    assert re.search(r"\btrial \S+|\blane (one|two)\b|^it ran '", match[1]), first
    assert (failed["error"], failed["kept"]) == ("machine-lost", [f"lost/000-{machine}.console"])
    assert "FAIRLANE-UP" in (going.folder / f"lost/000-{machine}.console").read_text()
    return match[2]


def on_guest(command: str) -> None:
    """Runs ``command`` on the guest, over the run's own connection."""
    [socket] = Path(os.environ["TMPDIR"]).glob("fairlane-*/guest0.ssh")
    subprocess.run(["ssh", "-S", str(socket), "x", command], capture_output=True, check=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    temporary = Path(tempfile.mkdtemp(prefix="flk", dir="/tmp"))  # short: sockets are in it
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    yield tmp_path
    assert scratch.abandoned() == []
    temporary.rmdir()  # is empty


@pytest.fixture
def begin(here: Path) -> Iterator[Callable[[], Run]]:
    """Starts a run in the test's folder; one that a failed test leaves behind is killed."""
    with ExitStack() as started:
        yield lambda: started.enter_context(Run(here))


def study(folder: Path, lane: str, blocks: int) -> None:
    (folder / "s.yaml").write_text(STUDY.replace("LANE", lane).replace("BLOCKS", str(blocks)))


def test_guest_sshd_and_fairlane_killed(
    here: Path, begin: Callable[[], Run], capsys: pytest.CaptureFixture[str]
) -> None:
    study(here, "local, initiator: hypervisor", 8)  # more than a busy machine gets through before we kill it
    going = begin()
    going.until(going.has_trial)
    os.kill(machines("guest0")[0], signal.SIGKILL)
    going.until(lambda: going.has_trial(failures=1))
    assert told(going, "guest0") == "QEMU was killed by signal 9 (SIGKILL)"

    on_guest("pkill -9 sshd")
    going.until(lambda: going.has_trial(failures=2))

    going.kill()
    [folder] = scratch.abandoned()
    while len(scratch.leftovers(folder)) > 1:
        time.sleep(0.1)
    assert [left.kind for left in scratch.leftovers(folder)] == ["folder"]  # all else ended with us
    assert machines("guest0") == []
    assert run(["lab", "clean", "--states"]) == 0
    assert str(folder) in capsys.readouterr().err
    assert scratch.abandoned() == []

    [retried] = going.events("retry")
    assert retried["lane"] == going.events("block-failed")[0]["lane"]
    before = going.events("trial")
    with Fairlane("run", "--resume", going.folder) as again:
        code, _, err = again.end()
    assert code == 0, err
    after = going.events("trial")
    assert after[: len(before)] == before  # none of what was done is lost, or done once more
    assert len(before) < len(after)
    assert len(judged(going.folder)) == 16
    assert len(going.events("resume")) == 1
    report = (going.folder / "report.md").read_text()
    assert "Emulated" in report


def test_array_killed_network_cut_and_interrupted(here: Path, begin: Callable[[], Run]) -> None:
    study(here, "nvme_tcp", 8)
    going = begin()
    going.until(going.has_trial)
    os.kill(machines("array")[0], signal.SIGKILL)
    going.until(lambda: going.has_trial(failures=1))
    assert told(going, "array") == "QEMU was killed by signal 9 (SIGKILL)"

    on_guest("ip link set path0 down")  # I/O waits for a path for longer than a trial may take
    going.until(lambda: going.has_trial(failures=2))
    assert going.events("block-failed")[1]["error"] == "timeout"

    going.send(signal.SIGINT)
    assert going.end()[0] == 130
    assert machines("array") == machines("guest0") == []
