"""``fairlane`` as a process of its own, every process that comes from it, and what its runs must be."""

import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lab_study import TRIALS

from fairlane.errors import Exit
from fairlane.platforms.lab import qemu
from fairlane.runs import journal
from testkit import process

T = TypeVar("T")


class Fairlane(process.Fairlane):
    """One command line. Its environment carries a mark, which children inherit: orphans are found as well.

    A session of its own, as a shell gives each job a process group: Ctrl-C reaches the group, not fairlane alone.
    """

    def __init__(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        key, value = "FAIRLANE_TEST_MARK", uuid.uuid4().hex
        self._mark = f"{key}={value}"
        super().__init__(*words, env={**(env or {}), key: value}, start_new_session=True)

    def end(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr, once it and everything it started are gone."""
        ended = super().end()
        self.nothing_is_left()
        return ended

    def interrupt(self) -> None:
        """Ctrl-C on a terminal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def family(self) -> dict[int, str]:
        """pid -> command line of every living process that bears the mark, fairlane itself excepted."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.process.pid:
                continue
            with suppress(OSError):  # it ended while we looked; a zombie has neither file
                if self._mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def qemus(self) -> set[int]:
        """Pids of its virtual machines: not yet those that have only just been forked, nor ``--version``."""
        return {pid for pid, line in self.family().items() if line.startswith(qemu.BINARY) and " -mon " in line}

    def hold_vm(self) -> int:
        """Waits for a virtual machine and stops it, so that what it does stays undone. Returns its pid."""
        pid = min(self.wait_for(self.qemus, "VM"))
        os.kill(pid, signal.SIGSTOP)
        return pid

    def nothing_is_left(self) -> None:
        """Waits until all that it started has ended; some have 500 MiB of temporary files to remove."""
        while self.family():
            time.sleep(0.05)

    def wait_for(self, what: Callable[[], T], text: str) -> T:
        """What ``what`` gives once that is true."""
        while not (found := what()):
            assert self.running, f"it ended before {text}: {self.process.communicate()[1]}"
            time.sleep(0.005)
        return found


def trials(folder: Path) -> dict[tuple[str, int, str], str]:
    """(cell, block, lane) -> SHA-256 of the raw file, as journaled."""
    return {key: event["sha256"] for key, event in process.judged(folder).items()}


def carried_out(*args: str, code: int = Exit.OK, env: Mapping[str, str] | None = None) -> tuple[str, str]:
    """stdout and stderr of a command line that ends as expected and leaves nothing running."""
    with Fairlane(*args, env=env) as fairlane:
        got, out, err = fairlane.end()
    assert got == code, err
    return out, err


def same(one: Path, other: Path) -> None:
    """Equal results, byte for byte; raw files too."""
    for name in ("observations.jsonl", "verdicts.json", "schedule.jsonl", "study.yaml"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    files = [{p.name: p.read_bytes() for p in (run / "raw").iterdir()} for run in (one, other)]
    assert files[0] == files[1]


def finishes(run: Path, undisturbed: Path, *, env: Mapping[str, str] | None = None) -> None:
    """``--resume`` brings ``run`` to the undisturbed end. Every trial is journaled once, what was done before stayed,
    and what was repeated was equal."""
    kept = trials(run)
    carried_out("run", "--resume", str(run), env=env)
    assert len(process.events(run, "trial")) == len(trials(run)) == TRIALS
    assert kept.items() <= trials(run).items()
    assert not [e for e in journal.read(run) if e["type"] == "mismatch" or e.get("changed")]
    same(run, undisturbed)
