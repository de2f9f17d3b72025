"""What the played controllers share: the cluster's objects as the watches tell them, a queue of objects to look at, and
the ways to write, each with its line in the log.

A controller is a function ``(world, object) -> None`` that brings its object one step further; it is called again when
the object changes, when anything changes that it looked at (``look``), and when time it asked for has passed (``due``).
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
"""Seconds from one question whether an object that is held may go on to the next."""


@dataclass(frozen=True)
class Record:
    """One step of one object, as it was written: the truth that latencies of clients are compared with."""

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
    """Claims -> VMIs that name them."""
    dependents: dict[str, set[Key]] = field(default_factory=lambda: defaultdict(set))
    """Uid of an owner -> what it owns."""
    gone: set[str] = field(default_factory=set)
    """Uids of what was deleted."""
    counted: dict[str, int] = field(default_factory=dict)
    """Uid of a quota -> how many objects had gone when it was counted last."""
    faults: list[BaseException] = field(default_factory=list)
    """Errors of the controllers themselves: whoever plays must end with none."""
    subresources: set[str] = field(default_factory=set)
    """Kinds with a status of their own: "persistentvolumeclaims/status", ..."""
    holds: dict[str, Callable[[Object], bool]] = field(default_factory=dict)
    """Steps that wait, when their time has come, until this says of their object that it may go on: for tests of what
    is seen meanwhile, which no number of seconds makes certain."""

    def __post_init__(self) -> None:
        self.queue: asyncio.Queue[Key] = asyncio.Queue()
        self.running = asyncio.Event()
        self._waiting: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._observers: dict[Key, set[Key]] = defaultdict(set)
        self._deadlines: dict[str, dict[str, float]] = defaultdict(dict)
        self._reported: set[tuple[str, str]] = set()

    # --- what is there

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.objects.get(kind.plural, {}).get((namespace, name))

    def all(self, kind: Kind) -> list[Object]:
        return list(self.objects.get(kind.plural, {}).values())

    def look(self, who: Key, kind: Kind, namespace: str, name: str) -> Object | None:
        """An object, and from now on ``who`` is looked at again whenever that changes."""
        self._observers[kind.plural, namespace, name].add(who)
        return self.get(kind, namespace, name)

    def take(self, kind: Kind, happened: str, obj: Object) -> bool:
        """A change that a watch or an answer told. False: older than what is known."""
        if happened != "DELETED" and uid(obj) in self.gone:  # an answer that came after the news of its end
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

    # --- what is to be done

    def news(self, at: Key) -> None:
        """``at`` changed: it and its observers are looked at."""
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
        """Whether ``seconds`` (with jitter) have passed since this was asked for the first time; if not, the object is
        looked at again then."""
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
        """The next ``due`` of ``step`` counts from then."""
        self._deadlines[uid(obj)].pop(step, None)

    async def work(self, controllers: Mapping[str, Callable[["World", Object], Awaitable[None]]]) -> None:
        """Looks at what the queue holds, for ever; an object is in one hand at a time."""
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
                if refused.status == 409:  # somebody else was quicker
                    self._again.add(at)
                elif refused.status != 404:  # gone meanwhile, or its namespace is going
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
        """A merge patch; ``step``: what the log says of it."""
        at = key(kind, obj)
        sent = time.time()
        made = await self.client.patch(kind, at[1], at[2], body, sub)
        if step:
            self.record(kind, made, step, sent)
        if self.take(kind, "MODIFIED", made):
            self.news(at)
        return made

    async def status(self, kind: Kind, obj: Object, status: Object, step: str = "") -> Object:
        """Writes the status; nothing is sent if it says that already."""
        now = obj.get("status") or {}
        if all(now.get(name) == value for name, value in status.items()):
            return obj
        sub = "status" if f"{kind.plural}/status" in self.subresources else ""
        return await self.patch(kind, obj, {"status": status}, sub=sub, step=step)

    async def delete(self, kind: Kind, obj: Object) -> None:
        at = key(kind, obj)
        await self.client.delete(kind, at[1], at[2], uid(obj))

    async def release(self, kind: Kind, obj: Object, *finalizers: str) -> None:
        """Takes finalizers away; with the last one a deleted object goes."""
        have = obj["metadata"].get("finalizers") or []
        left = [name for name in have if name not in finalizers]
        if left == have:
            return
        sent = time.time()
        with suppress(Refused):  # gone
            meta = {"resourceVersion": obj["metadata"]["resourceVersion"], "finalizers": left or None}
            made = await self.client.patch(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"],
                                           {"metadata": meta})  # fmt: skip
            if deleting(obj) and not left:
                self.record(kind, obj, "gone", sent)
            elif self.take(kind, "MODIFIED", made):
                self.news(key(kind, obj))

    async def event(self, kind: Kind, obj: Object, reason: str, message: str, level: str = "Normal") -> None:
        """An Event about ``obj``: once for each object and reason."""
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
        with suppress(Refused):  # its namespace is going
            await self.client.request("POST", EVENT.path(namespace), {"apiVersion": "v1", "kind": "Event", **body})
