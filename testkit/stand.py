"""A played cluster beside a synchronous test: it has its own thread and event loop."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fairlane.machines.child import signal_group
from testkit.play.controller import Play

T = TypeVar("T")


class Stand:
    """``with Stand(Play(...)) as stand``: ``stand.play`` works until the end."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Stand":
        self._thread.start()
        self.call(self.play.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        try:
            self.call(self.play.__aexit__(kind, error, trace))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, T], timeout: float = 300) -> T:
        """The result of ``work``, run in the play's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)


class Program:
    """``fairlane`` as a child process; in a ``with`` statement, none outlives a test that failed."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        """``folder``: working directory, and place of runs."""
        self.folder = folder
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "COLUMNS": "100", "NO_COLOR": "1"}
        self.begun: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Starts it; ``said`` holds both outputs at the end."""
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlane", *words], cwd=self.folder, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.begun.append(process)
        return process

    def run(self, *words: str, timeout: float = 900) -> tuple[int, str]:
        """Exit code and all output."""
        process = self.begin(*words)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            end(process)
            output, _ = process.communicate()
            raise AssertionError(f"fairlane {' '.join(words)} did not end:\n{output}") from None
        return process.returncode, output

    def close(self) -> None:
        """Ends what still runs."""
        for process in self.begun:
            end(process)
            process.wait()
            if process.stdout:
                process.stdout.close()


def end(process: subprocess.Popen[str], how: signal.Signals = signal.SIGKILL) -> None:
    """Ends a program and its children."""
    if process.poll() is None:
        signal_group(process.pid, how)


def words(text: str) -> Sequence[str]:
    """A user's command line, without the program's name."""
    return text.split()[1:]
