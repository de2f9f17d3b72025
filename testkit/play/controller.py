"""``Play``: plays a cluster with KubeVirt and CDI in one process."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from testkit.play import compute, garbage, importer
from testkit.play import site as sites
from testkit.play.behaviour import Behaviour
from testkit.play.client import Client, Refused
from testkit.play.kinds import (
    BY_PLURAL,
    CONTENT,
    DATA_SOURCE,
    DATA_VOLUME,
    NAMESPACE,
    OPTIONAL,
    PROFILE,
    PV,
    PVC,
    QUOTA,
    SNAPSHOT,
    STORAGE_CLASS,
    VM,
    VMI,
    WATCHED,
    Kind,
    Object,
    key,
    phase,
    uid,
)
from testkit.play.launch import Launch
from testkit.play.machines import Machines, NoMachines
from testkit.play.site import Site
from testkit.play.storage import Storage
from testkit.play.virt_api import VirtApi
from testkit.play.world import Record, World

_UNDONE = 30.0
"""Seconds for taking a site down."""
Controller = Callable[[World, Object], Awaitable[None]]


class Play:
    """Plays KubeVirt, CDI, a CSI driver, scheduler, namespace controller and garbage collector.

    ``async with Play(kubeconfig) as play``: VirtualMachines run inside. ``site``: creates its nodes, classes and
    operators' objects first; None: the cluster has its own. ``subresources``: serve start, stop and portforward through
    the aggregator. ``log`` records every step truthfully.
    """

    def __init__(
        self, kubeconfig: Path, *, behaviour: Behaviour | None = None, machines: Machines | None = None,
        site: Site | None = None, subresources: bool = True,
    ) -> None:  # fmt: skip
        self.machines: Machines = machines or NoMachines()
        self.machines.ended = self._ended
        self.world = World(Client(kubeconfig), behaviour or Behaviour())
        self._site, self._subresources = site, subresources
        self._launch, self._storage, self._garbage = Launch(self.machines), Storage(self.machines), garbage.Garbage()
        own: dict[Kind, Controller] = {
            VM: compute.virtual_machine, VMI: self._launch.instance, DATA_VOLUME: importer.data_volume,
            DATA_SOURCE: importer.data_source, STORAGE_CLASS: importer.storage_class, PROFILE: importer.profile,
            PVC: self._storage.claim, PV: self._storage.volume, SNAPSHOT: self._storage.snapshot,
            CONTENT: self._storage.content, NAMESPACE: self._garbage.namespace, QUOTA: garbage.quota,
        }  # fmt: skip
        self._controllers = {kind.plural: self._controller(kind, own.get(kind)) for kind in WATCHED}
        self._stack = AsyncExitStack()

    @property
    def log(self) -> list[Record]:
        return self.world.log

    def pause(self) -> None:
        """Stops acting, as if all controllers were away; changes are still tracked."""
        self.world.running.clear()

    def resume(self) -> None:
        self.world.running.set()

    async def evict(self, namespace: str, name: str) -> None:
        """Kills the machine of a VMI, like a node drain without migration."""
        vmi = self.world.get(VMI, namespace, name)
        if not vmi:
            raise LookupError(f"there is no VMI {namespace}/{name}")
        await self._launch.fail(self.world, vmi, "Evicted")

    async def _ended(self, namespace: str, name: str, cause: str) -> None:
        vmi = self.world.get(VMI, namespace, name)
        if vmi and phase(vmi) == "Running":
            await self._launch.fail(self.world, vmi, "Stopped", cause)

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Deletes an object on behalf of another user."""
        await self.world.client.delete(kind, namespace, name)

    async def __aenter__(self) -> "Play":
        async with AsyncExitStack() as stack:
            world = self.world
            await stack.enter_async_context(world.client)
            stack.push_async_callback(self.machines.close)
            await self._subresources_of(world)
            workers = (world.work(self._controllers) for _ in range(world.behaviour.workers))
            tasks = asyncio.gather(*(self._watch(kind) for kind in WATCHED), *workers)
            stack.push_async_callback(_end, tasks)
            while not all(k.plural in world.objects for k in WATCHED if k not in OPTIONAL):
                await asyncio.sleep(0.01)
            await self._garbage.discover(world)
            if self._subresources:
                await stack.enter_async_context(VirtApi(world, self.machines))
            self.resume()
            if self._site:
                stack.push_async_callback(_undo, self._site, world)
                await sites.build(self._site, world)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._stack.aclose()
        if self.world.faults and not kind:
            raise RuntimeError("a played controller failed") from self.world.faults[0]

    async def _subresources_of(self, world: World) -> None:
        for api in sorted({kind.api for kind in WATCHED}):
            try:
                listed = await world.client.request("GET", api)
            except Refused:
                continue
            world.subresources |= {one["name"] for one in listed["resources"] if "/" in one["name"]}

    def _controller(self, kind: Kind, own: Controller | None) -> Controller:
        async def look(world: World, obj: Object) -> None:
            if not await self._garbage.owned(world, kind, obj) and own:
                await own(world, obj)

        return look

    async def _watch(self, kind: Kind) -> None:
        world = self.world
        async for happened, obj in world.client.watch(kind):
            if happened == "LIST":
                here = {key(kind, one): one for one in obj["items"]}
                known = {key(kind, one): one for one in world.all(kind)}
                world.objects.setdefault(kind.plural, {})
                for at in known.keys() - here.keys():
                    # Objects created while the list was under way are missing in it.
                    if int(known[at]["metadata"]["resourceVersion"]) <= int(obj["version"]):
                        self._notify(kind, "DELETED", known[at])
                for one in here.values():
                    self._notify(kind, "ADDED", one)
            else:
                self._notify(kind, happened, obj)

    def _notify(self, kind: Kind, happened: str, obj: Object) -> None:
        if not self.world.take(kind, happened, obj):
            return
        self.world.news(key(kind, obj))
        if happened == "DELETED":
            for at in tuple(self.world.dependents.get(uid(obj), ())):
                if at[0] in BY_PLURAL:
                    self.world.enqueue(at)


async def _undo(site: Site, world: World) -> None:
    """Takes the site down, even if the API server is gone or the controllers are paused."""
    world.running.set()
    with suppress(TimeoutError):
        async with asyncio.timeout(_UNDONE):
            await sites.remove(site, world)


async def _end(tasks: "asyncio.Future[list[None]]") -> None:
    tasks.cancel()
    await asyncio.gather(tasks, return_exceptions=True)


def save(log: list[Record], path: Path) -> None:
    """Writes a log as JSON lines."""
    path.write_text("".join(json.dumps(vars(one)) + "\n" for one in log))
