"""``fairlane`` as a process of its own beside a test, and the journal that it writes. No wait here ends by the clock:
pytest-timeout ends a test that hangs."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from fairlane.runs import journal

PROGRAM = ("-m", "fairlane")


class Fairlane:
    """``fairlane WORDS``. ``with`` kills it at the end, if it is alive then.

    It obeys SIGINT, as a job in the foreground does: tests that a script has started with ``&`` ignore it, and so would
    everything that they start.
    """

    def __init__(
        self,
        *words: object,
        env: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
        program: Sequence[str] = PROGRAM,
        stdout: int = subprocess.PIPE,
        pass_fds: Sequence[int] = (),
        start_new_session: bool = False,
    ) -> None:
        """``env``: added to the environment. ``under``: a command that starts the program, such as ``prlimit``.
        ``program``: arguments of Python in place of ``-m fairlane``."""
        command = ["/usr/bin/env", "--default-signal=INT", *under, sys.executable, *program, *map(str, words)]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **(env or {})},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
            start_new_session=start_new_session,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Exit code, and what it has printed to stdout and stderr since they were last read, once it has ended."""
        out, err = self.process.communicate()
        assert "Traceback" not in err, err
        return self.process.returncode, out, err

    def kill(self) -> None:
        """``kill -9``, if it is alive."""
        if self.running:
            self.process.kill()
        if self.process.stderr and not self.process.stderr.closed:
            self.process.communicate()


def events(run: Path, kind: str) -> list[journal.Event]:
    """The journaled events of a kind; none before the run has a journal."""
    return [event for event in journal.read(run) if event["type"] == kind]


def judged(run: Path) -> dict[tuple[str, int, str], journal.Event]:
    """(cell, block, lane) -> the journaled trial, of those whose block was not begun anew after them."""
    trials: dict[tuple[str, int, str], journal.Event] = {}
    for event in journal.read(run):
        if event["type"] == "trial":
            trials[event["cell"], event["block"], event["lane"]] = event
        elif event["type"] == "retry":
            for lane in event["unjudged"]:
                del trials[event["cell"], event["block"], lane]
    return trials
