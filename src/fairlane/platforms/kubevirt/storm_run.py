"""One clone storm while it goes on: made, followed machine by machine, removed."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms.kubevirt import kinds, storm_guest
from fairlane.platforms.kubevirt.api_errors import ApiError
from fairlane.platforms.kubevirt.guests import address_of
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.storm_guest import Way
from fairlane.platforms.kubevirt.storm_times import Track, warnings
from fairlane.platforms.kubevirt.watching import Watcher

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.watching import Seen

WATCHED = (kinds.VM, kinds.VMI, kinds.DATA_VOLUME, kinds.PVC)
"""In the order in which they go: machines, instances, their volumes."""
AT_ONCE = 100
"""Creations under way; the rate limit of ``Api`` holds beside it. At 100 a second a busy API server that takes a second
for each has so many: with fewer, ours would be the limit."""
_SESSIONS = 64
"""SSH sessions at once: each is two processes here. How long a machine waited for one is told."""
_PAUSE = 0.2
"""Seconds between two attempts to hear a guest's sshd, at least."""
_SHARE = 0.5
"""Of the rate limit that such attempts may take."""
_ATTEMPT = 5.0
"""Seconds that one attempt may take."""
_FOR_EVER = 1e9
"""Seconds."""

Object = Mapping[str, Any]


@dataclass
class Clone:
    """One machine of a storm."""

    track: Track
    body: Object
    """Its VirtualMachine."""
    stamp: str
    """SHA-256 of the golden volume's data."""
    task: "asyncio.Task[None] | None" = None
    running: asyncio.Event = field(default_factory=asyncio.Event)

    def fail(self, reason: str) -> None:
        """It will not come through. What follows it is ended."""
        self.track.failed = self.track.failed or reason
        if self.task:
            self.task.cancel()


class Course:
    """The course of one storm."""

    def __init__(self, way: Way, clones: Sequence[Clone], labels: str, *, qps: float, still: float) -> None:
        """``labels``: selector of these clones and of nothing else. ``qps``: the rate limit; ``still``: seconds without
        any progress after which the rest has failed."""
        self.clones = clones
        self._labels = labels
        self._way, self._qps, self._still = way, qps, still
        self._owner: dict[tuple[Kind, str], Clone] = {}
        for clone in clones:
            own = clone.track
            self._owner |= {(kind, own.name): clone for kind in (kinds.VM, kinds.VMI)}
            self._owner |= {(kind, name): clone for kind in (kinds.DATA_VOLUME, kinds.PVC) for name in own.volumes}
        self._watchers: dict[Kind, Watcher] = {}
        self._heard: dict[Kind, float] = {}
        self._news = time.monotonic()
        self._began = 0.0
        self._ahead: list[float] = []
        self._events: dict[str, list[str]] = {}
        self._removing = False
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._sessions = asyncio.Semaphore(_SESSIONS)
        self._before = self._spent()

    # --- what the watches tell

    def watch(self, kind: Kind, watcher: Watcher) -> None:
        """Listens to ``watcher``, which is open."""
        self._watchers[kind] = watcher
        self._heard[kind] = time.monotonic()
        watcher.listen(partial(self._see, kind))

    def _see(self, kind: Kind, seen: "Seen") -> None:
        since = self._heard[kind]
        if not seen.listed:
            self._heard[kind] = seen.monotonic  # what comes late all happened since the last that did not
        name = str(seen.object["metadata"]["name"])
        clone = self._owner.get((kind, name))
        if not clone or self._removing:
            return
        if seen.type == "DELETED" or seen.object["metadata"].get("deletionTimestamp"):
            clone.fail(f"its {kind.kind} {name} was deleted, and not by us")
            return
        if clone.track.see(kind, seen, since):
            self._news = seen.monotonic
        if kind == kinds.VM and seen.type == "ADDED" and not seen.listed:
            self._stamped(seen)
        if "running" in clone.track.at:
            clone.running.set()
        if clone.track.failed:
            clone.fail(clone.track.failed)

    def _stamped(self, seen: "Seen") -> None:
        """How far this machine's clock is ahead of the API server's stamp, which is cut to whole seconds."""
        with suppress(KeyError, ValueError):
            stamp = datetime.fromisoformat(str(seen.object["metadata"]["creationTimestamp"]))
            self._ahead.append(seen.time - stamp.timestamp())

    # --- the storm

    async def make(self) -> None:
        """Makes the machines and follows each up to its first I/O; then sees that their volumes are private."""
        await self._way.api.rested()
        began = self._news = time.monotonic()
        self._began = time.time()
        for clone in self.clones:
            clone.track.began = began
        await self._each(self._one)
        self._news = time.monotonic()
        await self._each(self._check)
        with suppress(ApiError):  # who may not read events is told the rest
            every = await self._way.api.list(kinds.EVENT, self._way.namespace)
            self._events = warnings(every, [clone.track for clone in self.clones])

    async def _each(self, work: Callable[[Clone], Coroutine[Any, Any, None]]) -> None:
        """``work`` with every machine that has not failed, until all are through. Those that are left when nothing
        moves any more have failed."""
        tasks: dict[asyncio.Task[None], Clone] = {}
        for clone in self.clones:
            if not clone.track.failed:
                clone.task = asyncio.create_task(self._guarded(clone, work(clone)))
                tasks[clone.task] = clone
        ends: list[asyncio.Task[Any]] = [
            asyncio.create_task(watcher.until(_never, _FOR_EVER, "")) for watcher in self._watchers.values()
        ]
        left = set(tasks)
        try:
            while left:
                patience = self._news + self._still - time.monotonic()
                if patience <= 0:
                    for clone in (tasks[task] for task in left):
                        clone.fail(f"it did not get beyond {clone.track.last!r}: nothing moved for {self._still:g} s")
                    patience = self._still
                done, _ = await asyncio.wait({*left, *ends}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if not task.cancelled():
                        task.result()  # a watch that ended for good says why
                left -= done
        finally:
            for task in (*tasks, *ends):
                task.cancel()
            await asyncio.gather(*tasks, *ends, return_exceptions=True)

    async def _guarded(self, clone: Clone, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except FairlaneError as error:
            clone.track.failed = clone.track.failed or str(error)
            self._news = time.monotonic()

    async def _one(self, clone: Clone) -> None:
        async with self._at_once:
            await self._way.api.create(kinds.VM, clone.body, self._way.namespace)
        self._reached(clone, "requested")
        await clone.running.wait()
        await self._answers(clone)
        await self._first_io(clone)

    def _reached(self, clone: Clone, phase: str, within: float = 0.0) -> None:
        self._news = time.monotonic()
        clone.track.mark(phase, self._news - clone.track.began, within)

    def _address(self, clone: Clone) -> str:
        return address_of(clone.track.objects.get((kinds.VMI.kind, clone.track.name), {}))

    async def _answers(self, clone: Clone) -> None:
        """Tries the guest's sshd until its banner comes. It began to listen after the last attempt in vain had begun:
        that is how exactly the instant is known."""
        last = clone.track.began + clone.track.at["running"]
        while True:
            began = time.monotonic()
            if await self._way.banner(clone.track.name, self._address(clone), _ATTEMPT):
                self._reached(clone, "answers", time.monotonic() - last)
                return
            last = began
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Seconds: so that the attempts for all machines that are awaited keep to their share of the rate limit."""
        waiting = sum(c.running.is_set() and "answers" not in c.track.at and not c.track.failed for c in self.clones)
        return max(_PAUSE, waiting / (_SHARE * self._qps))

    async def _first_io(self, clone: Clone) -> None:
        asked = time.monotonic()
        async with self._sessions:
            queued = time.monotonic() - asked
            async with self._way.session(clone.track.name, self._address(clone)) as session:
                found = await storm_guest.first(session, clone.track.name)
                self._reached(clone, "first_io", clone.track.within.get("answers", 0.0) + queued)
        if found != storm_guest.GOLDEN:
            raise RunFailed(
                f"it found {found[:40]!r} where the golden volume has {storm_guest.GOLDEN!r}: it is no clone of it, or "
                "a clone before wrote into it"
            )

    async def _check(self, clone: Clone) -> None:
        """Once every clone has written: its own data are there, and the golden volume's."""
        async with self._sessions, self._way.session(clone.track.name, self._address(clone)) as session:
            found = await storm_guest.check(session)
        self._news = time.monotonic()
        if found != (clone.track.name, clone.stamp):
            raise RunFailed(
                f"it wrote {clone.track.name} into its own block and reads {' '.join(found)[:100]!r}; expected "
                f"{clone.track.name} {clone.stamp} (block, hash of the golden volume's data): clones are not private"
            )

    # --- its end

    async def remove(self, timeout: float) -> dict[str, float | None]:
        """Deletes the machines, which takes their volumes with them, and waits until everything is gone. Returns the
        seconds until the objects were, and until the driver had deleted the volumes (None: not allowed to see them).
        Raises RunFailed."""
        self._removing = True
        space, began = self._way.namespace, time.monotonic()
        claims = {name for clone in self.clones for name in clone.track.volumes}
        async with AsyncExitStack() as held:
            volumes = await self._volumes(held)
            await self._way.api.delete_all(kinds.VM, space, self._labels)
            for kind, watcher in self._watchers.items():
                names = {name for of, name in self._owner if of == kind}
                await watcher.until(partial(_none_of, names), timeout, f"{kind.plural} of the storm are still there")
            told: dict[str, float | None] = {"objects": round(time.monotonic() - began, 3), "volumes": None}
            if volumes:
                what = "volumes of the storm have not been deleted by their driver"
                await volumes.until(partial(_none_held, space, claims), timeout, what)
                told["volumes"] = round(time.monotonic() - began, 3)
        return told

    async def _volumes(self, held: AsyncExitStack) -> Watcher | None:
        """A watch on the cluster's volumes; None: not allowed."""
        try:
            return await held.enter_async_context(Watcher(self._way.api, kinds.PV))
        except ApiError as error:
            if error.status != 403:
                raise
            return None

    # --- what is told

    def _spent(self) -> tuple[Counter[tuple[str, str]], Counter[str], float]:
        api = self._way.api
        return api.counts.copy(), api.retried.copy(), api.waited

    def rates(self) -> dict[str, Any]:
        """Requests since this storm's begin, by verb and kind; seconds that they waited for the rate limit; requests
        sent again, by reason."""
        (counts, retried, waited), now = self._before, self._spent()
        return {
            "requests": {" ".join(key): n for key, n in sorted((now[0] - counts).items())},
            "waited": round(now[2] - waited, 3),
            "retried": dict(now[1] - retried),
            "at_once": AT_ONCE,
            "sessions": _SESSIONS,
        }

    def described(self) -> dict[str, Any]:
        """What else is to be known of the storm."""
        tracks = [clone.track for clone in self.clones]
        return {
            "began": round(self._began, 6),
            "used": sorted({track.used() for track in tracks if "bound" in track.at}),
            "warnings": self._events,
            "gaps": [[kind.plural, gap.time, gap.reason] for kind, w in self._watchers.items() for gap in w.gaps],
            "ahead_of_api": [round(min(self._ahead), 3), round(max(self._ahead), 3)] if self._ahead else None,
        }


def _never(_: Mapping[str, Object]) -> None:
    """Is not found."""


def _none_of(names: set[str], items: Mapping[str, Object]) -> bool | None:
    return None if names & items.keys() else True


def _none_held(namespace: str, claims: set[str], items: Mapping[str, Object]) -> bool | None:
    """No volume belongs to one of ``claims`` any more, but what its class keeps (Retain)."""
    for volume in items.values():
        spec: Object = volume.get("spec") or {}
        claim: Object = spec.get("claimRef") or {}
        kept = spec.get("persistentVolumeReclaimPolicy") == "Retain"
        if not kept and claim.get("namespace") == namespace and claim.get("name") in claims:
            return None
    return True
