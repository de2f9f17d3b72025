"""Live pages: one reader per watched run, however many pages watch it, and none without watchers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fairlane.errors import FairlaneError
from fairlane.web.catalogue import Entry
from fairlane.web.follow import Follower, Gone
from fairlane.web.pages import Busy
from fairlane.web.updates import State


@dataclass(frozen=True)
class Shown:
    """State of a run at one moment, rendered for its page."""

    version: int
    """Rises with every change."""
    state: State | None
    """The run's state; None: an error, or nothing read yet."""
    error: FairlaneError | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    """Name of a part of the page -> its HTML."""

    @property
    def last(self) -> bool:
        """Whether the state is final: the run has ended, is damaged or gone."""
        return self.error is not None or (self.state is not None and self.state.phase == "complete")

    @property
    def gone(self) -> bool:
        return isinstance(self.error, Gone)


NOTHING = Shown(0, None)
Render = Callable[[State | None, FairlaneError | None], Mapping[str, str]]


@dataclass(frozen=True)
class Limits:
    """Limits of concurrent pages and runs, and intervals in seconds."""

    watchers: int = 64
    runs: int = 8
    every: float = 1.0
    heartbeat: float = 15.0
    linger: float = 45.0
    """Seconds for which a run is still read after its last watcher left: pages without JavaScript reload."""
    patience: float = 5.0
    """Seconds for which a page waits for the first state; after that it is sent empty, and events fill it."""


class Feed:
    """One run, read by a task until it ends or has had no request for ``Limits.linger`` seconds."""

    def __init__(self, entry: Entry, hub: "Hub") -> None:
        self.entry = entry
        self.shown = NOTHING
        self.watchers = 0
        self._hub = hub
        self._changed = asyncio.Condition()
        self._renewed = asyncio.get_running_loop().time()
        self._follower: Follower | None = None
        self.task = asyncio.get_running_loop().create_task(self._run())

    def renew(self) -> None:
        """Restart the time after which the feed stops without watchers."""
        self._renewed = asyncio.get_running_loop().time()

    async def after(self, version: int, seconds: float) -> Shown | None:
        """The newest state once it is newer than ``version``; None after ``seconds`` or when the hub closes."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.shown.version > version or self._hub.closing)
        except TimeoutError:
            return None
        return self.shown if self.shown.version > version else None

    async def wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not self._hub.closing and (self.watchers or loop.time() - self._renewed < self._hub.limits.linger):
                if not self.shown.last:
                    self.shown = await loop.run_in_executor(self._hub.readers, self._poll)
                    await self.wake()
                await asyncio.sleep(self._hub.limits.every)
        finally:
            self._hub.forget(self)

    def _poll(self) -> Shown:
        """Read the run, and render it if it changed; runs in a thread."""
        state = error = None
        try:
            if self._follower is None:
                self._follower = Follower(self.entry.folder)
            state = self._follower.poll()
        except FairlaneError as raised:
            error = raised
        except OSError as raised:
            error = FairlaneError("unreadable", f"cannot be read: {raised.strerror}", where=str(self.entry.folder))
        if state is not None and state == self.shown.state:
            return self.shown
        return Shown(self.shown.version + 1, state, error, self._hub.render(state, error))


class Hub:
    """All feeds. Used from one event loop."""

    def __init__(self, render: Render, limits: Limits | None = None) -> None:
        self.render = render
        self.limits = limits or Limits()
        self.closing = False
        self.readers = ThreadPoolExecutor(2, "follow")
        self._feeds: dict[str, Feed] = {}

    @property
    def watchers(self) -> int:
        return sum(feed.watchers for feed in self._feeds.values())

    async def now(self, entry: Entry) -> Shown:
        """The run's state; ``NOTHING`` if not known within ``Limits.patience``. Raises Busy."""
        feed = self._feed(entry)
        if feed.shown is NOTHING:
            await feed.after(0, self.limits.patience)
        return feed.shown

    def stream(self, entry: Entry) -> AsyncIterator[str]:
        """Server-sent events: the whole state first and whenever it changes; ``end`` after the last. Raises Busy."""
        if self.watchers >= self.limits.watchers:
            raise Busy("viewer-busy", "too many pages are watching runs", hint="close some of them")
        return self._stream(self._feed(entry))

    async def _stream(self, feed: Feed) -> AsyncIterator[str]:
        feed.watchers += 1
        version = -1 if feed.shown is not NOTHING else 0
        try:
            yield "retry: 3000\n\n"
            while not self.closing:
                shown = await feed.after(version, self.limits.heartbeat)
                if shown is None:
                    yield ": still here\n\n"
                    continue
                version = shown.version
                yield _event("state", shown.parts, version)
                if shown.last:
                    yield _event("end", {}, version)
                    return
        finally:
            feed.watchers -= 1
            feed.renew()

    def _feed(self, entry: Entry) -> Feed:
        feed = self._feeds.get(entry.name)
        if feed and feed.shown.last and feed.entry.stamp != entry.stamp:  # mended, resumed, or another run by now
            self._feeds.pop(entry.name).task.cancel()
            feed = None
        if feed is None or feed.task.done():
            if len(self._feeds) >= self.limits.runs:
                idle = next((name for name, f in self._feeds.items() if not f.watchers), None)
                if idle is None:
                    raise Busy(
                        "viewer-busy",
                        f"{len(self._feeds)} runs are being watched",
                        hint="close the page of one of them",
                    )
                self._feeds.pop(idle).task.cancel()
            feed = self._feeds[entry.name] = Feed(entry, self)
        feed.renew()
        return feed

    def forget(self, feed: Feed) -> None:
        if self._feeds.get(feed.entry.name) is feed:
            del self._feeds[feed.entry.name]

    async def close(self) -> None:
        """Ends every stream."""
        self.closing = True
        for feed in list(self._feeds.values()):
            await feed.wake()
            feed.task.cancel()
            with suppress(asyncio.CancelledError):
                await feed.task
        self.readers.shutdown(wait=False, cancel_futures=True)


def _event(kind: str, data: Mapping[str, Any], number: int) -> str:
    """A server-sent event; JSON has no line feeds, so one ``data`` line holds it."""
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
