"""Child processes that the kernel kills when Fairlane ends, whatever ended it."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

WITH_US = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ $PPID = "$0" ] && exec "$@"')
"""Put before Fairlane's pid and a command: runs the command and kills it when Fairlane ends, even if it ended first."""

_LOOK = 0.01
"""Seconds between two checks whether a process has ended."""


def signal_group(leader: int, number: int) -> None:
    """Sends a signal to the process group of ``leader``, the pid of a child that leads it; the child may have ended.

    A child that has ended may have left its pid to a stranger: asyncio waits for children in a thread and says so
    later, and a busy machine hands out all 32,768 pids in minutes. Only a child of this process gets the signal, or
    what an ended child has left in its group, which keeps the kernel from giving the pid away.
    """
    if _parent(leader) in (os.getpid(), None):
        with suppress(ProcessLookupError):
            os.killpg(leader, number)


def _parent(pid: int) -> int | None:
    """The pid of a process's parent; None: there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(b")")[2].split()[1])  # the name before it may hold anything


async def end(process: asyncio.subprocess.Process) -> None:
    """Kills a process that leads its group, and the group; returns once it is gone and its pipes are closed: what was
    not read from them is lost.

    Polls instead of calling ``process.wait()``, which also waits until all holders of its pipes close them: the master
    of an SSH connection holds those of a killed session as long as the session's command runs on the other side.
    """
    if process.returncode is None:
        signal_group(process.pid, signal.SIGKILL)
    while process.returncode is None:
        await asyncio.sleep(_LOOK)
    # asyncio closes pipes at their end, which other holders put off, and has no public function for it
    process._transport.close()  # type: ignore[attr-defined]
    await asyncio.sleep(0)  # the event loop closes them


async def ends(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether ``process`` has ended, or does within ``seconds``."""
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), seconds)
    return process.returncode is not None


async def uninterrupted(closing: Coroutine[Any, Any, None]) -> None:
    """Awaits ``closing`` to its end even when cancelled meanwhile, then raises the cancellation."""
    task = asyncio.ensure_future(closing)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled:
        raise cancelled
