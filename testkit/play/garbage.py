"""The namespace controller, the garbage collector and the quota controller."""

import time
from contextlib import suppress
from dataclasses import dataclass, field

from testkit.play.client import Refused
from testkit.play.kinds import (
    BY_PLURAL,
    NAMESPACE,
    POD,
    PVC,
    QUOTA,
    SECRET,
    VM,
    WATCHED,
    Kind,
    Object,
    deleting,
    key,
    quantity,
    uid,
)
from testkit.play.world import World

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_LOOK = 0.2
"""Seconds between two looks whether a namespace is empty."""
_GRACE = 1.0
"""Seconds after which a missing owner is looked up."""
_KINDS = {kind.name: kind for kind in WATCHED}


@dataclass
class Garbage:
    """Deletes objects without owners, and empties namespaces."""

    kinds: list[Kind] = field(default_factory=list)
    """All kinds in namespaces that support list and deletecollection, by the API server's discovery."""

    async def discover(self, world: World) -> None:
        groups = await world.client.request("GET", "/apis")
        versions = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups["groups"]]
        for api in ("/api/v1", *versions):
            try:
                listed = await world.client.request("GET", api)
            except Refused:  # an aggregated server that is away
                continue
            for one in listed["resources"]:
                if "/" not in one["name"] and one["namespaced"] and {"list", "deletecollection"} <= set(one["verbs"]):
                    self.kinds.append(Kind(api, one["name"], one["kind"]))

    async def namespace(self, world: World, space: Object) -> None:
        """Empties a deleted namespace of all kinds that the API server knows, and finalizes it."""
        if not deleting(space) or not space["spec"].get("finalizers"):
            return
        name, left = space["metadata"]["name"], False
        for kind in self.kinds:
            page = await world.client.request("GET", kind.path(name), query={"limit": "500"})
            left = left or bool(page["items"])
            if any(not deleting(obj) for obj in page["items"]):
                await world.client.request("DELETE", kind.path(name), {"propagationPolicy": "Background"})
        if left:
            world.later(key(NAMESPACE, space), _LOOK)
            return
        sent = time.time()
        whole = {**space, "apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": []}}
        await world.client.request("PUT", NAMESPACE.path(name=name, sub="finalize"), whole)
        world.record(NAMESPACE, space, "gone", sent)

    async def owned(self, world: World, kind: Kind, obj: Object) -> bool:
        """Deletes ``obj`` if all its owners are gone; finalizes it if it waits for what it owns. True: done."""
        if deleting(obj):
            await self._let_go(world, kind, obj)
            return False
        if not obj["metadata"].get("ownerReferences") or not await self._orphaned(world, kind, obj):
            return False
        await world.delete(kind, obj)
        return True

    async def _orphaned(self, world: World, kind: Kind, obj: Object) -> bool:
        """Whether no owner is left. An owner of an unwatched kind counts as present."""
        references, space = obj["metadata"]["ownerReferences"], obj["metadata"].get("namespace", "")
        unheard = False
        for reference in references:
            of = _KINDS.get(reference["kind"])
            owner = world.look(key(kind, obj), of, space, reference["name"]) if of else None
            if not of or (owner and uid(owner) == reference["uid"]):
                return False
            unheard = unheard or reference["uid"] not in world.gone
        if not unheard:
            return True
        if not world.due(kind, obj, "orphaned", _GRACE):
            return False
        for reference in references:  # deleted earlier, or too new for its watch
            with suppress(Refused):
                owner = await world.client.request("GET", _KINDS[reference["kind"]].path(space, reference["name"]))
                if uid(owner) == reference["uid"]:
                    return False
        return True

    async def _let_go(self, world: World, kind: Kind, obj: Object) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        if FOREGROUND not in finalizers and ORPHAN not in finalizers:
            return
        left = []
        for at in tuple(world.dependents.get(uid(obj), ())):
            dependent = world.look(key(kind, obj), BY_PLURAL[at[0]], *at[1:])
            if dependent:
                left.append((BY_PLURAL[at[0]], dependent))
        if ORPHAN in finalizers:
            for of, dependent in left:
                rest = [r for r in dependent["metadata"]["ownerReferences"] if r["uid"] != uid(obj)]
                await world.patch(of, dependent, {"metadata": {"ownerReferences": rest or None}})
            await world.release(kind, obj, ORPHAN)
        elif left:
            for of, dependent in left:
                if not deleting(dependent):
                    await world.delete(of, dependent)
        else:
            await world.release(kind, obj, FOREGROUND)


async def quota(world: World, obj: Object) -> None:
    """Counts a quota's resources: claims, their storage (also by class), machines, pods and Secrets."""
    space, hard = obj["metadata"]["namespace"], obj["spec"].get("hard") or {}
    who = key(QUOTA, obj)
    claims = [c for c in world.all(PVC) if c["metadata"]["namespace"] == space]
    used = {name: _used(world, name, space, claims) for name in hard}
    status = obj.get("status") or {}
    if world.counted.get(uid(obj)) == len(world.gone):
        # Nothing was deleted, so usage cannot fall: admission counts objects before they are stored or observed.
        before = status.get("used") or {}
        used = {name: max(before.get(name, "0"), count, key=quantity) for name, count in used.items()}
    world.counted[uid(obj)] = len(world.gone)
    if status.get("hard") != hard or status.get("used") != used:
        await world.status(QUOTA, obj, {"hard": hard, "used": used}, step="counted")
    world.later(who, 0.5)


def _used(world: World, name: str, space: str, claims: list[Object]) -> str:
    kind, _, what = name.rpartition(".storageclass.storage.k8s.io/") if ".storageclass." in name else ("", "", name)
    if kind:
        claims = [c for c in claims if c["spec"].get("storageClassName") == kind]
    if what == "requests.storage":
        return str(sum(quantity(c["spec"]["resources"]["requests"]["storage"]) for c in claims))
    counted = {"persistentvolumeclaims": PVC, "pods": POD, "secrets": SECRET, "count/virtualmachines.kubevirt.io": VM}
    if what == "persistentvolumeclaims":
        return str(len(claims))
    if of := counted.get(what):
        return str(sum(o["metadata"]["namespace"] == space for o in world.all(of)))
    return "0"
