"""A long-lived shell on a machine: each command over its open connection takes one round trip.

It is bash, which reads the time and waits for an instant without starting a program; starting one takes 50 ms on an
emulated processor.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from shlex import quote
from typing import Protocol

from fairlane.errors import RunFailed
from fairlane.machines import child

_END = b"\n@@END\n"
_CHUNK = 1 << 16
_LOOP = """
LC_ALL=C
exec 2> /dev/null
{functions}
while read -r command; do eval "$command"; printf '\\n@@END\\n'; done
"""


class Startable(Protocol):
    """A machine on which a command can be started."""

    name: str

    async def start(self, words: Sequence[str]) -> asyncio.subprocess.Process: ...

    async def lost(self, script: str, stderr: str = "") -> RunFailed: ...


Lost = Callable[[str], Awaitable[RunFailed]]
"""The error of a connection that broke while a command ran."""


class Session:
    """One shell on one machine. After a failure, or a command that was cancelled, it is closed for good."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, lost: Lost) -> None:
        self.name = name
        self._process = process
        self._lost = lost
        self._buffer = bytearray()
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, guest: Startable, functions: str) -> "Session":
        """Starts the shell. ``functions``: shell functions that commands may call. Raises RunFailed."""
        process = await guest.start(("bash", "-c", quote(_LOOP.format(functions=functions))))
        session = cls(guest.name, process, guest.lost)
        await session.ask(":")
        return session

    async def ask(self, command: str, timeout: float = 60) -> str:
        """Runs ``command`` (one line) and returns its stdout. Raises RunFailed."""
        async with self._turn:
            try:
                return await asyncio.wait_for(self._ask(command), timeout)
            except TimeoutError:
                await self.close()
                raise RunFailed("timeout", f"{self.name} did not answer within {timeout:.0f} s") from None
            except EOFError:
                await self.close()
                raise await self._lost(command) from None
            except BaseException:
                await self.close()
                raise

    async def _ask(self, command: str) -> str:
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018 - opened as pipes
        with suppress(ConnectionError):
            self._process.stdin.write(f"{command}\n".encode())
            await self._process.stdin.drain()
        while not self._buffer.endswith(_END):
            data = await self._process.stdout.read(_CHUNK)
            if not data:
                raise EOFError
            self._buffer += data
        answer = self._buffer.removesuffix(_END).decode(errors="replace")
        self._buffer.clear()
        return answer

    async def close(self) -> None:
        """Ends the shell; never raises."""
        await child.end(self._process)
