"""Objects kept current by one list and a watch that survives server errors, without polling."""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast

import orjson

from fairlane.errors import RunFailed
from fairlane.platforms.kubevirt.api import Api, Object
from fairlane.platforms.kubevirt.api_errors import Answer, ApiError
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.transport import Pauses

T = TypeVar("T")
Change = Literal["ADDED", "MODIFIED", "DELETED"]

_SHORTEST_SECONDS, _LONGEST_SECONDS = 240, 290
"""Length of a watch: the server ends it then, and the next one continues."""
_STEADY_SECONDS = 5.0
"""After a watch at least this long, the next opens without a pause."""
_LONGEST_LINE = 32 << 20


class WatchEvent(NamedTuple):
    """A change of an object, with times of this machine's clock: the API's stamps are whole seconds."""

    type: Change
    object: Object
    """The object without ``managedFields``. For DELETED: its last state."""
    time: float
    """``time.time()`` when the event arrived."""
    monotonic: float
    listed: bool
    """Whether the change came with a list, or late after a cut: it happened some time before."""


class Gap(NamedTuple):
    """A cut of the watch at ``time``; changes before its continuation came late, and are marked ``listed``."""

    time: float
    reason: str
    silent: bool = False
    """The connection was dead without an error."""


class _Cut(Exception):  # noqa: N818 - reads as what happened
    """The watch ended early. ``expired``: the server can no longer continue it."""

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        super().__init__(reason)
        self.expired = expired


@dataclass(eq=False)
class _Waiting(Generic[T]):
    """A call of ``until``: waits until ``condition`` returns a value."""

    condition: Callable[[Mapping[str, Object]], T | None]
    answer: "asyncio.Future[T]"

    def look(self, items: Mapping[str, Object]) -> None:
        if self.answer.done():
            return
        try:
            value = self.condition(items)
        except Exception as error:
            self.answer.set_exception(error)
        else:
            if value is not None:
                self.answer.set_result(value)


class _Silent(_Cut):
    """No data for a while: nothing changed (a quiet etcd sends no bookmarks), or the connection is dead."""


class Watcher:
    """Objects of one kind in one namespace (empty: all), kept current within ``async with``. The watch is open from the
    start, so changes made inside arrive at once.

    A permanent failure (a withdrawn permission, a server away for longer than the API's patience, a listener that
    raises) is raised by every later ``until``, and at the end of ``async with``.
    """

    def __init__(self, api: Api, kind: Kind, namespace: str = "", labels: str = "") -> None:
        self.at = 0.0
        """``time.time()`` of the last event, or of the last check that nothing changed."""
        self.gaps: list[Gap] = []
        """Cuts of the watch, with reasons."""
        self._api, self._kind, self._namespace, self._labels = api, kind, namespace, labels
        self._items: dict[str, Object] = {}
        self._shown: Mapping[str, Object] = MappingProxyType(self._items)
        self._version = ""
        self._late = 0
        self._silent_since = 0.0
        """When the watch was reopened after silence; 0: it was not."""
        self._listeners: list[Callable[[WatchEvent], None]] = []
        self._waiting: list[_Waiting[Any]] = []
        self._task: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None
        self._standing = asyncio.Event()
        """Set once the first watch is open or has failed for good."""

    @property
    def ended(self) -> bool:
        """Whether the watch has failed for good: ``items`` are outdated."""
        return self._broken is not None

    @property
    def items(self) -> Mapping[str, Object]:
        """The objects by name, or by NAMESPACE/NAME if all namespaces are watched. Read only."""
        return self._shown

    def listen(self, callback: Callable[[WatchEvent], None]) -> None:
        """Call ``callback`` with each change; existing objects come first (ADDED, ``listed``)."""
        self._listeners.append(callback)
        now, clock = time.time(), time.monotonic()
        for item in self._items.values():
            callback(WatchEvent("ADDED", item, now, clock, listed=True))

    async def until(self, condition: Callable[[Mapping[str, Object]], T | None], timeout: float, what: str) -> T:
        """The first value of ``condition(items)`` that is not None, tested now and after each change, so that no state
        is missed. After ``timeout`` seconds raises RunFailed with ``what`` as its text."""
        if self._broken:
            raise self._broken
        waiting: _Waiting[T] = _Waiting(condition, asyncio.get_running_loop().create_future())
        waiting.look(self._shown)
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(timeout):
                return await waiting.answer
        except TimeoutError:
            if waiting.answer.done() and not waiting.answer.cancelled():
                raise  # the condition raised it
            raise RunFailed("timeout", f"{what} (waited {timeout:.0f} s)") from None
        finally:
            self._waiting.remove(waiting)

    async def __aenter__(self) -> Self:
        await self._list()
        self._task = asyncio.create_task(self._follow())
        self._task.add_done_callback(self._over)
        try:
            await self._standing.wait()
        except BaseException:
            self._task.cancel()
            raise
        if self._broken:
            raise self._broken
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task  # noqa: S101 - it was entered
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._broken and error is None:
            raise self._broken

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._standing.set()
        if task.cancelled() or not (error := task.exception()):
            return
        self._broken = error
        for waiting in self._waiting:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)

    async def _follow(self) -> None:
        """Opens one watch after the other until a permanent failure."""
        pauses = Pauses(math.inf)
        while True:
            began = time.monotonic()
            try:
                await self._watch()
            except _Silent:
                self._silent_since = self._silent_since or self.at
            except _Cut as cut:
                self.gaps.append(Gap(time.time(), str(cut)))
                if time.monotonic() - began > _STEADY_SECONDS:
                    pauses = Pauses(math.inf)
                elif len(self.gaps) > 1:
                    await pauses.again()
                if cut.expired:
                    await self._list()

    async def _list(self) -> None:
        """Lists all objects again: missing ones are deleted, other versions modified."""
        items, self._version = await self._api.listing(self._kind, self._namespace, self._labels)
        now, clock = self._now()
        fresh = {self._key(item): item for item in items}
        for key in [key for key, item in self._items.items() if _uid(fresh.get(key)) != _uid(item)]:
            self._publish(WatchEvent("DELETED", self._items[key], now, clock, listed=True))
        for key, item in fresh.items():
            known = self._items.get(key)
            if known is None or _version(known) != _version(item):
                self._publish(WatchEvent("MODIFIED" if known else "ADDED", item, now, clock, listed=True))

    async def _watch(self) -> None:
        """One watch until its regular end. Raises _Cut if it ends early, ApiError if it cannot be opened."""
        import aiohttp  # noqa: PLC0415 - 150 ms

        seconds = random.randint(_SHORTEST_SECONDS, _LONGEST_SECONDS)  # noqa: S311 - so that not all end together
        query = {
            "resourceVersion": self._version, "labelSelector": self._labels, "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }  # fmt: skip
        rest = b""
        try:
            async with self._api.watch(self._kind, self._namespace, query) as response:
                opened = time.monotonic()
                # Changes older than the open watch arrive through it too, but late.
                self._late = await self._current()
                self._standing.set()
                self.at = time.time()
                async for chunk in response.content.iter_any():
                    now, clock = self._now()
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._take(line, now, clock)
                    if len(rest) > _LONGEST_LINE:
                        raise _Cut(f"a line of more than {_LONGEST_LINE >> 20} MiB")
        except ApiError as error:
            if error.status == 410 or "Too large resource version" in error.message:
                raise _Cut(error.message, expired=True) from None
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise _Silent("the server stopped answering") from error
            raise _Cut(f"the connection was lost: {error}") from error
        if rest.strip() or time.monotonic() - opened < seconds - 1:
            raise _Cut("the server ended the watch before its time")

    def _take(self, line: bytes, now: float, clock: float) -> None:
        if not line.strip():
            return
        try:
            event = orjson.loads(line)
            change, item = event["type"], event["object"]
            if change == "ERROR":
                answer = Answer.of(item)
                raise _Cut(f"{answer.reason}: {answer.message}", expired=answer.status == 410)
            version = _version(item)
            if change in {"ADDED", "MODIFIED", "DELETED"}:
                late = version.isdigit() and int(version) <= self._late
                if late and self._silent_since:
                    self.gaps.append(Gap(self._silent_since, "the connection was dead", silent=True))
                self._silent_since = 0.0
                self._publish(WatchEvent(cast(Change, change), item, now, clock, listed=late))
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise _Cut("the server sent an invalid event") from error
        self._version = version

    async def _current(self) -> int:
        """The server's newest version; 0 if its versions are no numbers (etcd's are)."""
        version = await self._api.version(self._kind, self._namespace)
        return int(version) if version.isdigit() else 0

    def _publish(self, event: WatchEvent) -> None:
        """Updates the items, then calls listeners and waiting conditions."""
        event.object["metadata"].pop("managedFields", None)
        if event.type == "DELETED":
            self._items.pop(self._key(event.object), None)
        else:
            self._items[self._key(event.object)] = event.object
        for callback in self._listeners:
            callback(event)
        for waiting in self._waiting:
            waiting.look(self._shown)

    def _now(self) -> tuple[float, float]:
        self.at = time.time()
        return self.at, time.monotonic()

    def _key(self, item: Object) -> str:
        meta = item["metadata"]
        alone = self._namespace or not self._kind.namespaced
        return str(meta["name"]) if alone else f"{meta['namespace']}/{meta['name']}"


def _uid(item: Object | None) -> str:
    return str(item["metadata"]["uid"]) if item else ""


def _version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])
