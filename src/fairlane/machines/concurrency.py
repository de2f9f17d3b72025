"""Run coroutines concurrently: on the first failure cancel the rest, or let them finish."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from fairlane.errors import MachineLost, RunFailed

Result = TypeVar("Result")


async def together(*work: Awaitable[Result]) -> list[Result]:
    """The results of ``work``, in order. The first failure cancels the rest and is raised when all have ended."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def finish_all(*work: Awaitable[object]) -> None:
    """Awaits all of ``work`` at once. Raises the first failure, when all have ended."""
    for error in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


async def unless(work: Coroutine[Any, Any, Any], ended: Coroutine[Any, Any, str | RunFailed]) -> None:
    """Awaits ``work``; if ``ended`` returns first, raises the error that it returns, or MachineLost with its reason."""
    doing, watching = asyncio.ensure_future(work), asyncio.ensure_future(ended)
    try:
        await asyncio.wait([doing, watching], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            reason = await watching
            raise reason if isinstance(reason, RunFailed) else MachineLost(reason)
        await doing
    finally:
        for task in (doing, watching):
            task.cancel()
        await asyncio.gather(doing, watching, return_exceptions=True)
