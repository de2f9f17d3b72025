"""Clone storms: machines created at once from one golden volume, timed by watches up to their first I/O, and removed.

Like kube-burner's virt-clone, with three differences: the requested way of cloning is verified; times are of watch
events on this machine's clock; and a machine counts as ready when its volume has answered.
"""

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt import kinds, storm_golden
from fairlane.platforms.kubevirt.api_errors import ApiError
from fairlane.platforms.kubevirt.guests import address_of
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.labels import RUN, STORM
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.placement import dealt
from fairlane.platforms.kubevirt.storm_golden import Filled, GuestAccess, of_lane
from fairlane.platforms.kubevirt.storm_phases import Track, warnings, wrong_way
from fairlane.platforms.kubevirt.watching import Watcher, WatchEvent

Object = Mapping[str, Any]

WATCHED = (kinds.VM, kinds.VMI, kinds.DATA_VOLUME, kinds.PVC)
"""Kinds in order of progress: machines, instances, their volumes."""
AT_ONCE = 100
"""Concurrent creations, beside the rate limit of ``Api``. A busy API server that takes a second each has 100 in
progress at 100 per second: a lower number would be our own limit."""
_SESSIONS = 64
"""Concurrent SSH sessions, two processes each. A machine's wait for one is recorded."""
_PAUSE = 0.2
"""Least seconds between two attempts to get a guest's banner."""
_SHARE = 0.5
"""Share of the rate limit for such attempts."""
_ATTEMPT = 5.0
"""Seconds per attempt."""
_FOR_EVER = 1e9
"""Seconds; practically never."""
_GONE = 900.0
"""Seconds until everything of a storm must be gone."""


@dataclass
class Clone:
    """One machine of a storm."""

    track: Track
    body: Object
    """The machine's VirtualMachine."""
    stamp: str
    """SHA-256 of the golden volume's data."""
    task: "asyncio.Task[None] | None" = None
    running: asyncio.Event = field(default_factory=asyncio.Event)

    def fail(self, kind: str, reason: str) -> None:
        """Mark the machine as failed, and end the tasks that follow it."""
        self.track.fail(kind, reason)
        if self.task:
            self.task.cancel()


class Course:
    """One storm: creates its machines, follows each, and removes them."""

    def __init__(self, access: GuestAccess, clones: Sequence[Clone], labels: str, *, qps: float, still: float) -> None:
        """``labels``: selector of exactly these clones. ``qps``: the rate limit; ``still``: seconds without any
        progress after which the remaining machines have failed."""
        self.clones = clones
        self._labels = labels
        self._access, self._qps, self._still = access, qps, still
        self._owner: dict[tuple[Kind, str], Clone] = {}
        for clone in clones:
            own = clone.track
            self._owner |= {(kind, own.name): clone for kind in (kinds.VM, kinds.VMI)}
            self._owner |= {(kind, name): clone for kind in (kinds.DATA_VOLUME, kinds.PVC) for name in own.volumes}
        self._watchers: dict[Kind, Watcher] = {}
        self._last_event: dict[Kind, float] = {}
        self._progress = time.monotonic()
        self._began = 0.0
        self._ahead: list[float] = []
        self._events: dict[str, list[str]] = {}
        self._removing = False
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._sessions = asyncio.Semaphore(_SESSIONS)
        self._before = self._spent()

    # --- watches

    def watch(self, kind: Kind, watcher: Watcher) -> None:
        """Listens to the open ``watcher``."""
        self._watchers[kind] = watcher
        self._last_event[kind] = time.monotonic()
        watcher.listen(partial(self._handle, kind))

    def _handle(self, kind: Kind, event: WatchEvent) -> None:
        since = self._last_event[kind]
        if not event.listed:
            self._last_event[kind] = event.monotonic  # late events happened since the last punctual one
        name = str(event.object["metadata"]["name"])
        clone = self._owner.get((kind, name))
        if not clone or self._removing:
            return
        if event.type == "DELETED" or event.object["metadata"].get("deletionTimestamp"):
            clone.fail("machine-deleted", f"another user deleted its {kind.kind} {name}")
            return
        if clone.track.update(kind, event, since):
            self._progress = event.monotonic
        if kind == kinds.VM and event.type == "ADDED" and not event.listed:
            self._compare_clocks(event)
        if "running" in clone.track.at:
            clone.running.set()
        if clone.track.failed:
            clone.fail(clone.track.failure, clone.track.failed)

    def _compare_clocks(self, event: WatchEvent) -> None:
        """The lead of this machine's clock over the API server's time stamp, which is cut to whole seconds."""
        with suppress(KeyError, ValueError):
            stamp = datetime.fromisoformat(str(event.object["metadata"]["creationTimestamp"]))
            self._ahead.append(event.time - stamp.timestamp())

    # --- the storm

    async def make(self) -> None:
        """Creates the machines and follows each up to its first I/O; then checks that their volumes are private."""
        await self._access.api.rested()
        began = self._progress = time.monotonic()
        self._began = time.time()
        for clone in self.clones:
            clone.track.began = began
        await self._each(self._follow)
        self._progress = time.monotonic()
        await self._each(self._check)
        with suppress(ApiError):  # without permission to read events there are no warnings
            every = await self._access.api.list(kinds.EVENT, self._access.namespace)
            self._events = warnings(every, [clone.track for clone in self.clones])

    async def _each(self, work: Callable[[Clone], Coroutine[Any, Any, None]]) -> None:
        """Runs ``work`` for every machine that has not failed. Without progress of any machine, the unfinished ones
        have failed."""
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
                patience = self._progress + self._still - time.monotonic()
                if patience <= 0:
                    for clone in (tasks[task] for task in left):
                        stopped = f"no progress after {clone.track.last!r} for {self._still:g} s"
                        clone.fail("stalled", stopped)
                    patience = self._still
                done, _ = await asyncio.wait({*left, *ends}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if not task.cancelled():
                        task.result()  # a watch that ended for good raises its reason
                left -= done
        finally:
            for task in (*tasks, *ends):
                task.cancel()
            await asyncio.gather(*tasks, *ends, return_exceptions=True)

    async def _guarded(self, clone: Clone, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except FairlaneError as error:
            clone.track.fail(error.kind, str(error))
            self._progress = time.monotonic()

    async def _follow(self, clone: Clone) -> None:
        async with self._at_once:
            await self._access.api.create(kinds.VM, clone.body, self._access.namespace)
        self._reached(clone, "requested")
        await clone.running.wait()
        await self._answers(clone)
        await self._first_io(clone)

    def _reached(self, clone: Clone, phase: str, within: float = 0.0) -> None:
        self._progress = time.monotonic()
        clone.track.mark(phase, self._progress - clone.track.began, within)

    def _address(self, clone: Clone) -> str:
        return address_of(clone.track.objects.get((kinds.VMI.kind, clone.track.name), {}))

    async def _answers(self, clone: Clone) -> None:
        """Tries the guest's sshd until it sends its banner. It came up after the last failed attempt had begun: this is
        the accuracy of the time."""
        last = clone.track.began + clone.track.at["running"]
        while True:
            began = time.monotonic()
            if await self._access.banner(clone.track.name, self._address(clone), _ATTEMPT):
                self._reached(clone, "answers", time.monotonic() - last)
                return
            last = began
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Seconds between attempts, so that all waiting machines together keep to their share of the rate limit."""
        waiting = sum(c.running.is_set() and "answers" not in c.track.at and not c.track.failed for c in self.clones)
        return max(_PAUSE, waiting / (_SHARE * self._qps))

    async def _first_io(self, clone: Clone) -> None:
        queued_at = time.monotonic()
        async with self._sessions:
            queued = time.monotonic() - queued_at
            async with self._access.session(clone.track.name, self._address(clone)) as session:
                word = await storm_golden.first(session, clone.track.name)
                self._reached(clone, "first_io", clone.track.within.get("answers", 0.0) + queued)
        if word != storm_golden.GOLDEN:
            raise RunFailed(
                "clone-data",
                f"it read {word[:40]!r} where the golden volume has {storm_golden.GOLDEN!r}: it is not a clone of it, "
                "or an earlier clone overwrote the golden volume",
            )

    async def _check(self, clone: Clone) -> None:
        """After every clone has written: verifies its own data and the golden volume's."""
        async with self._sessions, self._access.session(clone.track.name, self._address(clone)) as session:
            word, stamp = await storm_golden.check(session)
        self._progress = time.monotonic()
        if (word, stamp) != (clone.track.name, clone.stamp):
            raise RunFailed(
                "clone-shared",
                f"it wrote {clone.track.name} into its own block but reads {f'{word} {stamp}'[:100]!r}; expected "
                f"{clone.track.name} {clone.stamp} (block, hash of the golden volume's data): clones share data",
            )

    # --- removal

    async def remove(self, timeout: float) -> dict[str, float | None]:
        """Deletes the machines with their volumes, and waits until all are gone. Returns seconds until the objects were
        gone, and until the driver had deleted the volumes (None: not readable). Raises RunFailed."""
        self._removing = True
        space, began = self._access.namespace, time.monotonic()
        claims = {name for clone in self.clones for name in clone.track.volumes}
        async with AsyncExitStack() as held:
            volumes = await self._volumes(held)
            await self._access.api.delete_all(kinds.VM, space, self._labels)
            for kind, watcher in self._watchers.items():
                names = {name for of, name in self._owner if of == kind}
                await watcher.until(partial(_none_of, names), timeout, f"{kind.plural} of the storm are still there")
            seconds: dict[str, float | None] = {"objects": round(time.monotonic() - began, 3), "volumes": None}
            if volumes:
                problem = "the driver has not deleted the storm's volumes"
                await volumes.until(partial(_none_held, space, claims), timeout, problem)
                seconds["volumes"] = round(time.monotonic() - began, 3)
        return seconds

    async def _volumes(self, held: AsyncExitStack) -> Watcher | None:
        """A watch on the cluster's volumes; None: not allowed."""
        try:
            return await held.enter_async_context(Watcher(self._access.api, kinds.PV))
        except ApiError as error:
            if error.status != 403:
                raise
            return None

    # --- description

    def _spent(self) -> tuple[Counter[tuple[str, str]], Counter[str], float]:
        api = self._access.api
        return api.counts.copy(), api.retried.copy(), api.waited

    def rates(self) -> dict[str, Any]:
        """Since the storm began: requests by verb and kind, seconds waited for the rate limit, retries by reason."""
        (counts, retried, waited), now = self._before, self._spent()
        return {
            "requests": {" ".join(key): n for key, n in sorted((now[0] - counts).items())},
            "waited": round(now[2] - waited, 3),
            "retried": dict(now[1] - retried),
            "at_once": AT_ONCE,
            "sessions": _SESSIONS,
        }

    def describe(self) -> dict[str, Any]:
        """Further facts for the storm's record."""
        tracks = [clone.track for clone in self.clones]
        return {
            "began": round(self._began, 6),
            "used": sorted({track.used() for track in tracks if "bound" in track.at}),
            "warnings": self._events,
            "gaps": [[kind.plural, gap.time, gap.reason] for kind, w in self._watchers.items() for gap in w.gaps],
            "ahead_of_api": [round(min(self._ahead), 3), round(max(self._ahead), 3)] if self._ahead else None,
        }


def _never(_: Mapping[str, Object]) -> None:
    """Waits for ever."""


def _none_of(names: set[str], items: Mapping[str, Object]) -> bool | None:
    return None if names & items.keys() else True


def _none_held(namespace: str, claims: set[str], items: Mapping[str, Object]) -> bool | None:
    """Whether no volume is bound to ``claims`` any more, except those that the class retains."""
    for volume in items.values():
        spec: Object = volume.get("spec") or {}
        claim: Object = spec.get("claimRef") or {}
        kept = spec.get("persistentVolumeReclaimPolicy") == "Retain"
        if not kept and claim.get("namespace") == namespace and claim.get("name") in claims:
            return None
    return True


# --- all storms of a lane


@dataclass(frozen=True)
class Outcome:
    """The result of a storm."""

    vms: list[dict[str, Any]]
    """``storm_phases.Track.record`` of each machine."""
    storm: dict[str, Any]
    """Strategy, rates, gaps of the watches, removal."""

    @property
    def seconds(self) -> float:
        """Seconds until the last machine answered, without failed machines."""
        return max((vm["answered"] for vm in self.vms if "answered" in vm), default=0.0)

    def record(self) -> bytes:
        """Content of ``storm.json`` of a trial."""
        return json.dumps(self.storm, indent=1).encode() + b"\n"


class Storm:
    """The storms of one lane, one after the other. ``prepare`` before the first."""

    def __init__(
        self,
        access: GuestAccess,
        manifests: Manifests,
        lane: str,
        nodes: Sequence[str],
        *,
        notify: Notify,
        fits: Mapping[str, int] | None = None,
        still: float | None = None,
        gone: float = _GONE,
    ) -> None:
        """``nodes``: names. ``fits``: machines that fit on each node, if packed; else machines go to the nodes in turn.
        ``still``: seconds without progress after which a storm is given up (platform.boot_timeout); ``gone``: seconds
        for its removal."""
        self.access, self.manifests, self.lane, self.nodes = access, manifests, lane, tuple(nodes)
        self._notify, self._fits = notify, fits
        self._still = manifests.spec.boot_timeout / 1e9 if still is None else still
        self._gone = gone
        self._filled: list[Filled] = []

    @property
    def strategy(self) -> str | None:
        """Way of cloning: csi-clone, snapshot, copy; None: the storage profile's choice."""
        strategy: str | None = getattr(self.manifests.study.lanes[self.lane], "clone", None)
        return strategy

    @property
    def traits(self) -> list[Mapping[str, str]]:
        """Traits of the golden volumes' guests."""
        return [filled.traits for filled in self._filled]

    async def prepare(self) -> None:
        """Makes the golden volume. Raises RunFailed."""
        size = max(cell.params["data"] for cell in self.manifests.study.cells() if cell.kind == "clone")
        self._filled = await storm_golden.prepare(
            self.access, self.manifests, self.lane, self.nodes, size=size, notify=self._notify
        )

    async def run(self, count: int) -> Outcome:
        """A storm of ``count`` machines; the outcome lists the failed ones. Afterwards all its objects are gone,
        volumes at the driver included. Raises RunFailed if objects remain, or if clones were made in another way than
        requested."""
        storm = secrets.token_hex(3)
        own = f"{RUN}={self.manifests.run_id},{STORM}={storm}"
        course = Course(self.access, self._clones(storm, count), own, qps=self.manifests.spec.qps, still=self._still)
        labels = of_lane(self.manifests, self.lane)
        async with AsyncExitStack() as held:
            for kind in WATCHED:
                watcher = Watcher(self.access.api, kind, self.access.namespace, labels)
                course.watch(kind, await held.enter_async_context(watcher))
            try:
                await course.make()
            except RunFailed:
                with suppress(RunFailed):  # the first failure is the one to report
                    await course.remove(self._gone)
                raise
            removal = await course.remove(self._gone)
        if wrong := wrong_way([clone.track for clone in course.clones], self.strategy):
            raise RunFailed(
                "clone-way",
                f"lane {self.lane}: {wrong}",
                hint="fairlane doctor --platform kubevirt shows what the class's driver supports",
            )
        rates = {"qps": self.manifests.spec.qps, "burst": self.manifests.spec.burst, **course.rates()}
        record = {"strategy": self.strategy, **course.describe(), "rates": rates, "removal": removal}
        return Outcome([clone.track.record() for clone in course.clones], record)

    def _clones(self, storm: str, count: int) -> list[Clone]:
        """The machines of a storm in order, on the nodes in turn."""
        if not self._filled:
            raise RunFailed("golden-missing", f"lane {self.lane} has no golden volume yet")
        clones = []
        own = {filled.node: filled for filled in self._filled}
        for number, node in enumerate(dealt(count, self.nodes, self._fits)):
            filled = own.get(node, self._filled[0])  # one for each node, or one for all
            machine = self.manifests.clone(self.lane, storm, number)
            volumes = (machine.root, *(disk.name for disk in machine.disks))
            body = self.manifests.clone_vm(machine, node, filled.golden)
            clones.append(Clone(Track(machine.name, node, volumes), body, filled.stamp))
        return clones
