"""Shared by the played controllers: the cluster's objects from watches, a queue of objects to process, and logged
writes.

A controller is a function ``(world, object) -> None`` that advances its object one step; it is called again when the
object or one that it looked at (``look``) changes, and after a requested time (``due``).
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from testkit.play.behaviour import Behaviour
from testkit.play.client import Client, Refused
from testkit.play.kinds import (
    BY_PLURAL,
    EVENT,
    VMI,
    Key,
    Kind,
    Object,
    deleting,
    key,
    stamp,
    uid,
    volumes,
)

_HELD = 0.02
"""Seconds between two checks whether a held object may continue."""


@dataclass(frozen=True)
class Record:
    """One logged step of an object: the truth against which clients' latencies are compared."""

    kind: str
    namespace: str
    name: str
    uid: str
    phase: str
    sent: float
    """time.time() just before the write was sent: no client can know of the step earlier."""
    acked: float
    """time.time() just after the server confirmed it."""


@dataclass
class World:
    client: Client
    behaviour: Behaviour
    log: list[Record] = field(default_factory=list)
    objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=dict)
    """Plural -> (namespace, name) -> object."""
    users: dict[tuple[str, str], set[Key]] = field(default_factory=lambda: defaultdict(set))
    """Claim -> VMIs that use it."""
    dependents: dict[str, set[Key]] = field(default_factory=lambda: defaultdict(set))
    """Uid of an owner -> its dependents."""
    gone: set[str] = field(default_factory=set)
    """Uids of deleted objects."""
    counted: dict[str, int] = field(default_factory=dict)
    """Uid of a quota -> number of deleted objects at its last count."""
    faults: list[BaseException] = field(default_factory=list)
    """Errors of the controllers: a test must end without any."""
    subresources: set[str] = field(default_factory=set)
    """Kinds with a status of their own: "persistentvolumeclaims/status", ..."""
    holds: dict[str, Callable[[Object], bool]] = field(default_factory=dict)
    """Step -> condition on its object that holds it back, for tests of intermediate states that no fixed delay makes
    certain."""

    def __post_init__(self) -> None:
        self.queue: asyncio.Queue[Key] = asyncio.Queue()
        self.running = asyncio.Event()
        self._waiting: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._observers: dict[Key, set[Key]] = defaultdict(set)
        self._deadlines: dict[str, dict[str, float]] = defaultdict(dict)
        self._reported: set[tuple[str, str]] = set()

    # --- objects

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.objects.get(kind.plural, {}).get((namespace, name))

    def all(self, kind: Kind) -> list[Object]:
        return list(self.objects.get(kind.plural, {}).values())

    def look(self, who: Key, kind: Kind, namespace: str, name: str) -> Object | None:
        """Returns an object; ``who`` is processed again whenever it changes."""
        self._observers[kind.plural, namespace, name].add(who)
        return self.get(kind, namespace, name)

    def take(self, kind: Kind, happened: str, obj: Object) -> bool:
        """Takes a change from a watch or an answer. False: older than the known state."""
        if happened != "DELETED" and uid(obj) in self.gone:  # an answer that arrived after the object's deletion
            return False
        known = self.objects.setdefault(kind.plural, {})
        at = key(kind, obj)
        old = known.get(at[1:])
        if old and int(old["metadata"]["resourceVersion"]) > int(obj["metadata"]["resourceVersion"]):
            return False
        if happened == "DELETED":
            known.pop(at[1:], None)
            self._deadlines.pop(uid(obj), None)
            self.gone.add(uid(obj))
        else:
            known[at[1:]] = obj
        for reference in obj["metadata"].get("ownerReferences") or ():
            self._keep(self.dependents, reference["uid"], at, there=happened != "DELETED")
        if kind is VMI:
            for _, claim in volumes(obj):
                self._keep(self.users, (at[1], claim), at, there=happened != "DELETED")
        return True

    @staticmethod
    def _keep(index: dict[Any, set[Key]], at: object, value: Key, *, there: bool) -> None:
        if there:
            index[at].add(value)
        elif at in index:
            index[at].discard(value)
            if not index[at]:
                del index[at]

    # --- queue

    def news(self, at: Key) -> None:
        """``at`` changed: queue it and its observers."""
        self.enqueue(at)
        for other in tuple(self._observers.get(at, ())):
            if other[1:] in self.objects.get(other[0], {}):
                self.enqueue(other)
            else:
                self._observers[at].discard(other)

    def enqueue(self, at: Key) -> None:
        if at in self._busy:
            self._again.add(at)
        elif at not in self._waiting:
            self._waiting.add(at)
            self.queue.put_nowait(at)

    def later(self, at: Key, seconds: float) -> None:
        asyncio.get_running_loop().call_later(max(seconds, 0.0), self.enqueue, at)

    def due(self, kind: Kind, obj: Object, step: str, seconds: float) -> bool:
        """Whether ``seconds`` (with jitter) have passed since the first call; if not, the object is processed again
        then."""
        deadlines = self._deadlines[uid(obj)]
        now = time.monotonic()
        if step not in deadlines:
            at = key(kind, obj)
            wait = self.behaviour.takes(seconds, *at, step)
            deadlines[step] = now + wait
            if wait > 0:
                self.later(at, wait + 0.001)
        if deadlines[step] > now:
            return False
        if step in self.holds and not self.holds[step](obj):
            self.later(key(kind, obj), _HELD)
            return False
        return True

    def afresh(self, obj: Object, step: str) -> None:
        """Restart the time of ``step``."""
        self._deadlines[uid(obj)].pop(step, None)

    async def work(self, controllers: Mapping[str, Callable[["World", Object], Awaitable[None]]]) -> None:
        """Processes the queue endlessly; an object has one worker at a time."""
        while True:
            at = await self.queue.get()
            await self.running.wait()
            self._waiting.discard(at)
            obj = self.objects.get(at[0], {}).get(at[1:])
            controller = controllers.get(at[0])
            if obj is None or controller is None:
                continue
            if self.behaviour.slow and not self.due(BY_PLURAL[at[0]], obj, "seen", self.behaviour.slow):
                continue
            self._busy.add(at)
            try:
                await controller(self, obj)
            except Refused as refused:
                if refused.status == 409:  # another writer was quicker
                    self._again.add(at)
                elif refused.status != 404:  # deleted meanwhile, or its namespace is
                    self.later(at, 1.0)
            except Exception as error:
                self.faults.append(error)
            finally:
                self._busy.discard(at)
                if at in self._again:
                    self._again.discard(at)
                    self.enqueue(at)

    # --- writing

    def record(self, kind: Kind, obj: Object, step: str, sent: float) -> None:
        meta = obj["metadata"]
        self.log.append(
            Record(kind.name, meta.get("namespace", ""), meta["name"], meta["uid"], step, sent, time.time())
        )

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        sent = time.time()
        made = await self.client.create(kind, body, namespace)
        self.record(kind, made, "created", sent)
        if self.take(kind, "ADDED", made):
            self.news(key(kind, made))
        return made

    async def patch(self, kind: Kind, obj: Object, body: Object, *, sub: str = "", step: str = "") -> Object:
        """A merge patch; ``step``: its text in the log."""
        at = key(kind, obj)
        sent = time.time()
        made = await self.client.patch(kind, at[1], at[2], body, sub)
        if step:
            self.record(kind, made, step, sent)
        if self.take(kind, "MODIFIED", made):
            self.news(at)
        return made

    async def status(self, kind: Kind, obj: Object, status: Object, step: str = "") -> Object:
        """Writes the status unless it is unchanged."""
        now = obj.get("status") or {}
        if all(now.get(name) == value for name, value in status.items()):
            return obj
        sub = "status" if f"{kind.plural}/status" in self.subresources else ""
        return await self.patch(kind, obj, {"status": status}, sub=sub, step=step)

    async def delete(self, kind: Kind, obj: Object) -> None:
        at = key(kind, obj)
        await self.client.delete(kind, at[1], at[2], uid(obj))

    async def release(self, kind: Kind, obj: Object, *finalizers: str) -> None:
        """Removes finalizers; without the last one a deleted object disappears."""
        have = obj["metadata"].get("finalizers") or []
        left = [name for name in have if name not in finalizers]
        if left == have:
            return
        sent = time.time()
        with suppress(Refused):  # deleted
            meta = {"resourceVersion": obj["metadata"]["resourceVersion"], "finalizers": left or None}
            made = await self.client.patch(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"],
                                           {"metadata": meta})  # fmt: skip
            if deleting(obj) and not left:
                self.record(kind, obj, "gone", sent)
            elif self.take(kind, "MODIFIED", made):
                self.news(key(kind, obj))

    async def event(self, kind: Kind, obj: Object, reason: str, message: str, level: str = "Normal") -> None:
        """An Event about ``obj``, once per object and reason."""
        if (uid(obj), reason) in self._reported:
            return
        self._reported.add((uid(obj), reason))
        meta = obj["metadata"]
        namespace = meta.get("namespace") or "default"
        about = {"apiVersion": kind.version, "kind": kind.name, "name": meta["name"], "uid": meta["uid"]}
        if "namespace" in meta:
            about["namespace"] = namespace
        body: Object = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": namespace},
            "involvedObject": about, "reason": reason, "message": message, "type": level, "count": 1,
            "firstTimestamp": stamp(), "lastTimestamp": stamp(), "source": {"component": "fairlane-play"},
        }  # fmt: skip
        with suppress(Refused):  # its namespace is being deleted
            await self.client.request("POST", EVENT.path(namespace), {"apiVersion": "v1", "kind": "Event", **body})
