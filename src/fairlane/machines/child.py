"""Child processes that end with us, however we end."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

WITH_US = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ $PPID = "$0" ] && exec "$@"')
"""Before our pid and a command: runs it and kills it when we end; also if we ended before that was asked for."""

_LOOK = 0.01
"""Seconds from one look whether a process is gone to the next."""


async def end(process: asyncio.subprocess.Process) -> None:
    """Kills a process that leads its group, and the group; returns once it is gone.

    Not by ``process.wait()``, which also waits until nobody holds its pipes: the master of an SSH connection holds
    those of a killed session as long as the session's command runs on the other side.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    while process.returncode is None:
        await asyncio.sleep(_LOOK)


async def uninterrupted(closing: Coroutine[Any, Any, None]) -> None:
    """Awaits ``closing`` to its end also when cancelled meanwhile, and passes the cancellation on after it."""
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
