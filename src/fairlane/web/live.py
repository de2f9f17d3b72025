"""States of running studies, read when a page asks: each run at most once a second, however many pages ask."""

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from fairlane.errors import FairlaneError
from fairlane.web import views
from fairlane.web.catalogue import Entry
from fairlane.web.follow import Follower
from fairlane.web.pages import Busy
from fairlane.web.reading import Gone
from fairlane.web.updates import State


@dataclass(frozen=True)
class Limits:
    """Limits of runs that are followed, and times in seconds."""

    runs: int = 8
    every: float = 1.0
    """Between two readings of a run."""
    linger: float = 45.0
    """For which a run that nobody asks about is kept in memory."""
    patience: float = 5.0
    """For which a page waits for a reading; after that it gets the state before, at first an empty one, and asks
    again."""


@dataclass(frozen=True)
class Shown:
    """State of a run at one moment, rendered for its page and as JSON."""

    state: State | None = None
    """None: an error, or nothing read yet."""
    error: FairlaneError | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    """Name of a part of the page -> its HTML."""
    json: bytes = b""

    @property
    def last(self) -> bool:
        """Whether the state is final: the run has ended, is damaged or gone."""
        return self.error is not None or (self.state is not None and self.state.phase == "complete")

    @property
    def gone(self) -> bool:
        return isinstance(self.error, Gone)


class _Followed:
    """One run, and what was last read of it."""

    def __init__(self, entry: Entry, readers: ThreadPoolExecutor, limits: Limits) -> None:
        self.entry = entry
        self.shown = _rendered(Shown())
        self.asked = asyncio.get_running_loop().time()
        self._readers, self._limits = readers, limits
        self._follower: Follower | None = None
        self._reading: asyncio.Future[Shown] | None = None
        self._read = float("-inf")

    async def now(self) -> Shown:
        """The state, read now if the last reading is older than ``Limits.every``."""
        loop = asyncio.get_running_loop()
        self.asked = loop.time()
        if self._reading is None and not self.shown.last and self.asked - self._read >= self._limits.every:
            self._reading = loop.run_in_executor(self._readers, self._poll)
            self._reading.add_done_callback(self._done)
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=self._limits.patience)
        return self.shown

    def _done(self, reading: "asyncio.Future[Shown]") -> None:
        self._reading = None
        self._read = asyncio.get_running_loop().time()
        if not reading.cancelled():
            self.shown = reading.result()

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
        return _rendered(Shown(state, error, views.parts(state, error)))


class Live:
    """All runs that are followed. Used from one event loop."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._readers = ThreadPoolExecutor(2, "follow")
        self._runs: dict[str, _Followed] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> int:
        """Runs in memory."""
        return len(self._runs)

    async def now(self, entry: Entry) -> Shown:
        """The run's state; the one before if it is not read within ``Limits.patience``. Raises Busy."""
        return await self._followed(entry).now()

    def _followed(self, entry: Entry) -> _Followed:
        run = self._runs.get(entry.name)
        if run and run.shown.last and run.entry.stamp != entry.stamp:  # mended, resumed, or another run by now
            run = None
        if run is None:
            self._make_room(entry.name)
            run = self._runs[entry.name] = _Followed(entry, self._readers, self.limits)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.limits.linger, self._sweep)
        return run

    def _make_room(self, name: str) -> None:
        """Raises Busy if pages ask about too many runs."""
        self._runs.pop(name, None)
        if len(self._runs) < self.limits.runs:
            return
        oldest = min(self._runs.values(), key=lambda run: run.asked)
        if asyncio.get_running_loop().time() - oldest.asked < self.limits.linger:
            raise Busy(
                "viewer-busy", f"{len(self._runs)} running studies are open", hint="close the page of one of them"
            )
        del self._runs[oldest.entry.name]

    def _sweep(self) -> None:
        """Forget runs that nobody has asked about; again later, while there are any."""
        loop = asyncio.get_running_loop()
        idle = [name for name, run in self._runs.items() if loop.time() - run.asked >= self.limits.linger]
        for name in idle:
            del self._runs[name]
        self._timer = loop.call_later(self.limits.linger, self._sweep) if self._runs else None

    def close(self) -> None:
        """Ends its threads and its timer."""
        if self._timer:
            self._timer.cancel()
        self._readers.shutdown(wait=False, cancel_futures=True)


def _rendered(shown: Shown) -> Shown:
    """With its JSON, made once for all who ask."""
    return replace(shown, json=json.dumps(views.state(shown.state, shown.parts, final=shown.last)).encode())
