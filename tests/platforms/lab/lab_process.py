"""``fairlane`` as a process of its own, every process that comes from it, and what its runs must be."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from lab_study import TRIALS

from fairlane.errors import Exit
from fairlane.platforms.lab import qemu
from fairlane.runs import journal

_MARK = "FAIRLANE_TEST_MARK"
_PATIENCE = 600.0
"""Seconds after which something counts as hung; a busy machine may take a good part of them."""
T = TypeVar("T")


class Fairlane:
    """One command line. Its environment carries a mark, which children inherit: orphans are found as well.

    A session of its own, as a shell gives each job a process group: Ctrl-C reaches the group, not fairlane alone. It
    heeds SIGINT, as a job in the foreground does: tests that a script has started with ``&`` ignore it, and so would
    everything that they start.
    """

    def __init__(self, *args: str, env: Mapping[str, str] | None = None, under: tuple[str, ...] = ()) -> None:
        self._mark = f"{_MARK}={uuid.uuid4().hex}"
        key, value = self._mark.split("=")
        self.process = subprocess.Popen(
            ["/usr/bin/env", "--default-signal=INT", *under, sys.executable, "-m", "fairlane", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NO_COLOR": "1", **(env or {}), key: value},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def end(self, timeout: float = _PATIENCE) -> tuple[int, str, str]:
        """Exit code, stdout and stderr, once it and everything it started are gone."""
        out, err = self.process.communicate(timeout=timeout)
        assert "Traceback" not in err, err
        self.nothing_is_left()
        return self.process.returncode, out, err

    def kill(self) -> None:
        """kill -9 of fairlane, and of nothing else."""
        self.process.kill()
        self.process.communicate()

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

    def nothing_is_left(self) -> None:
        deadline = time.monotonic() + _PATIENCE / 5  # some have 500 MiB of temporary files to remove
        while left := self.family():
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.05)

    def wait_for(self, what: Callable[[], T], text: str) -> T:
        """What ``what`` gives once that is true."""
        deadline = time.monotonic() + _PATIENCE
        while not (found := what()):
            assert self.process.poll() is None, f"it ended before {text}: {self.process.communicate()[1]}"
            assert time.monotonic() < deadline, f"no {text}"
            time.sleep(0.005)
        return found


def trials(folder: Path) -> dict[tuple[str, int, str], str]:
    """(cell, block, lane) -> SHA-256 of the raw file, as journaled."""
    events = journal.read(folder) if folder.exists() else ()
    return {(e["cell"], e["block"], e["lane"]): e["sha256"] for e in events if e["type"] == "trial"}


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
    events = journal.read(run)
    assert sum(e["type"] == "trial" for e in events) == len(trials(run)) == TRIALS
    assert kept.items() <= trials(run).items()
    assert not [e for e in events if e["type"] == "mismatch" or e.get("changed")]
    same(run, undisturbed)
