"""A run of the platform ``fake`` that a test holds still: trials wait until the test lets them pass.

    with HeldRun("run", "study.yaml", "--out", "out", "--jobs", "2", workers=2) as run:
        run.let(3)  # three trials are in the journal now, and each worker waits before its next one
        run.kill()

Study and run directory are as without it, so that any ``fairlane`` resumes the run. Test and run are connected by a
socket: trials no longer wait once the test releases them or is killed, and a run that ends too early fails the test.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fairlane import registry
from fairlane.platforms import fake
from fairlane.platforms.base import RawTrial
from fairlane.records import Block
from fairlane.study.spec import Study
from testkit.process import Fairlane

_HELD = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from testkit.held import hold_trials
hold_trials(int(sys.argv.pop(1)))
"""
_ENTRY = "from fairlane.cli.main import entry; entry()"


class HeldRun(Fairlane):
    """The process of such a run; entering it waits until all its workers are before a trial."""

    def __init__(
        self, *words: object, workers: int = 1, code: str = _ENTRY, env: Mapping[str, str] | None = None
    ) -> None:
        """``workers``: as many as the run has (``--jobs``). ``code``: Python in place of the command line."""
        self._workers = workers
        self._socket, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            super().__init__(number, *words, env=env, program=("-c", _HELD + code), pass_fds=(number,))

    def __enter__(self) -> Self:
        for _ in range(self._workers):
            self._arrived()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.release()

    def let(self, trials: int) -> None:
        """Lets so many trials pass, and waits until they are journaled. The worker of each must have another trial
        before the next interim analysis."""
        for _ in range(trials):
            with suppress(ConnectionError):  # the run has ended: so it says below
                self._socket.sendall(b".")
            self._arrived()

    def release(self) -> None:
        """Lets all trials pass from now on."""
        self._socket.close()

    def _arrived(self) -> None:
        """Waits until a worker is before a trial: what it did before is journaled."""
        arrived = b""
        with suppress(ConnectionError):
            arrived = self._socket.recv(1)
        if not arrived:
            self.release()
            raise AssertionError(f"the run has ended: {self.process.communicate()}")


def hold_trials(number: int) -> None:
    """Makes the trials of ``fake`` in this process wait for the test at the other end of socket ``number``. Has to
    come before plugins are loaded."""
    test = socket.socket(fileno=number)
    test.setblocking(False)

    class Held(fake.Fake):
        def __init__(self, study: Study) -> None:
            super().__init__(study)
            self._turn = asyncio.Lock()

        async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
            async for trial in super().run_block(block):
                with suppress(ConnectionError):  # the test has released the run, or is gone
                    await self._wait()
                yield trial

        async def _wait(self) -> None:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(test, b".")
            async with self._turn:
                await loop.sock_recv(test, 1)  # nothing, at once, when the test is gone

    fake.PLUGIN = Held
    assert registry.load("platforms", "fake") is Held
