"""Child processes that the kernel kills when Fairlane ends, whatever ended it."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

WITH_US = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ $PPID = "$0" ] && exec "$@"')
"""Put before Fairlane's pid and a command: runs the command and kills it when Fairlane ends, even if it ended first."""

_LOOK = 0.01
"""Seconds between two checks whether a process has ended."""


async def end(process: asyncio.subprocess.Process) -> None:
    """Kills a process that leads its group, and the group; returns once it is gone.

    Polls instead of calling ``process.wait()``, which also waits until all holders of its pipes close them: the master
    of an SSH connection holds those of a killed session as long as the session's command runs on the other side.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    while process.returncode is None:
        await asyncio.sleep(_LOOK)


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
