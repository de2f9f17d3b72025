"""The permanent virtual machines of all lanes: create, connect, load in a trial, restart.

Each lane has its own machines, because the settings that differ (bus, IO threads, queues) belong to a machine; machine
n of every lane runs on the same node. Lanes take turns.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.fleet import build
from fairlane.fleet.devices import Devices, FileKind, fills
from fairlane.fleet.stage import Crew, FleetStage
from fairlane.fleet.watch import Observed, Watch
from fairlane.machines import script
from fairlane.machines.concurrency import together, unless
from fairlane.machines.keys import Keys
from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt import cleanup, diagnose, kinds
from fairlane.platforms.kubevirt.api_errors import ApiError, plain
from fairlane.platforms.kubevirt.guests import ClusterGuest, Reach, address_of
from fairlane.platforms.kubevirt.labels import selector
from fairlane.platforms.kubevirt.manifests import Machine, Manifests
from fairlane.platforms.kubevirt.watching import Watcher
from fairlane.records import Block, Cell, FaultKind
from fairlane.study.base import LaneSpec
from fairlane.workloads.base import Workload

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api
    from fairlane.platforms.kubevirt.node_probes import NodeProbes
    from fairlane.platforms.kubevirt.spec import KubevirtSpec
    from fairlane.platforms.kubevirt.storm import Storm
    from fairlane.study.spec import Study

_AT_ONCE = 16
"""Machines being connected at once, a process each."""
_NAMED = 10
"""Most machines named in an error."""


@dataclass(frozen=True)
class Disk:
    """A volume under test on one of its lane's machines."""

    name: str
    lane: str
    guest: int
    spec: LaneSpec
    serial: str
    claim: str
    """Name of its PersistentVolumeClaim."""
    owned: bool = True
    file_kind: FileKind = "share"
    kept: bool = False

    def file(self, media: Path) -> Path:
        """A path without a file: the cluster has the medium, not this machine."""
        return media / self.name


@dataclass
class Lane:
    """The machines of a lane, and their connections."""

    name: str
    machines: Sequence[Machine]
    disks: Sequence[Disk]
    guests: Sequence[ClusterGuest]
    devices: Devices
    watch: Watch = field(default_factory=Watch)
    boots: dict[str, str] = field(default_factory=dict)
    """Uid of each connected guest's instance; another uid means a reboot."""
    volumes: dict[str, str] = field(default_factory=dict)
    """Uid of each disk's claim when it was filled; another uid means a new volume."""


class Fleet:
    """All lanes' machines. ``build`` creates them, ``heal`` restarts lost ones, ``close`` ends connections; the module
    ``cleanup`` deletes the objects."""

    def __init__(
        self, api: "Api", study: "Study", manifests: Manifests, lanes: Sequence[str], *, places: Sequence[str],
        keys: Keys, scratch: Path, notify: Notify,
    ) -> None:  # fmt: skip
        """``lanes``: in the order in which they are made; ``places``: nodes of machine 0 of every lane, of machine 1,
        ..."""
        self.api, self.study, self.manifests, self.places = api, study, manifests, places
        self.spec: KubevirtSpec = manifests.spec
        self.notify = notify
        self.lanes = {name: self._lane(name, keys, scratch) for name in lanes}
        self.renewed = 0
        """How often lost volumes of a lane were made again."""
        self.sent: dict[str, Mapping[str, Any]] = {}
        self.stored: dict[str, Mapping[str, Any]] = {}
        """``sent``, ``stored``: name -> VirtualMachine as sent, and as the server stored it."""
        self.boot_seconds: dict[str, float] = {}
        """Name -> seconds from the machine's last creation to its first answer over SSH."""
        self._held = AsyncExitStack()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.vms: Watcher
        self.vmis: Watcher
        self.claims: Watcher

    def _lane(self, name: str, keys: Keys, scratch: Path) -> Lane:
        machines, spec = self.manifests.machines(name), self.study.lanes[name]
        disks = [
            Disk(disk.name, name, machine.number, spec, disk.serial, disk.name)
            for machine in machines
            for disk in machine.disks
        ]
        guests = [ClusterGuest(machine.name, keys, scratch) for machine in machines]
        return Lane(name, machines, disks, guests, Devices(guests))

    @property
    def cells(self) -> Sequence[tuple[Workload, Cell]]:
        """Cells for permanent machines, without storms."""
        return [(registry.load("workloads", c.kind), c) for c in self.study.cells() if c.kind != "clone"]

    async def build(self) -> None:
        """Creates all machines and fills their volumes. Raises RunFailed."""
        await self._look()
        every = [machine for lane in self.lanes.values() for machine in lane.machines]
        if every:
            self.notify(f"making {len(every)} machine{'s' * (len(every) > 1)}")
        await together(*(self._request(machine) for machine in every))
        await self._up()
        for lane in self.lanes.values():
            await self._link(lane)
        await self._fill(list(self.lanes.values()))
        for lane in self.lanes.values():
            await lane.devices.settle(lane.name, lane.disks, self.cells, self.notify)

    async def _look(self) -> None:
        """Opens new watches."""
        await self._look_away()
        where, labels = self.manifests.namespace, selector(self.manifests.run_id)
        enter = self._held.enter_async_context
        self.vms = await enter(Watcher(self.api, kinds.VM, where, labels))
        self.vmis = await enter(Watcher(self.api, kinds.VMI, where, labels))
        self.claims = await enter(Watcher(self.api, kinds.PVC, where, labels))

    async def _look_away(self) -> None:
        with suppress(Exception):  # a watch that has ended for good raises its reason again
            await self._held.aclose()

    async def _request(self, machine: Machine) -> None:
        body = self.manifests.vm(machine, self.places[machine.number])
        self.boot_seconds[machine.name] = -time.monotonic()
        self.sent[machine.name] = body
        self.stored[machine.name] = await self.api.create(kinds.VM, body, self.manifests.namespace)

    async def _up(self) -> None:
        """Waits for all machines. Raises RunFailed for the first failed one, and names the others."""
        every = [(lane, machine) for lane in self.lanes.values() for machine in lane.machines]
        try:
            await together(*(self._connect(lane, machine) for lane, machine in every))
        except RunFailed as error:
            late = [machine.name for lane, machine in every if machine.name not in lane.boots]
            if len(late) < 2 or isinstance(error, ApiError):
                raise
            names = ", ".join(late[:_NAMED]) + (", ..." if len(late) > _NAMED else "")
            text = f"{error.message} (not up by then: {len(late)} of {len(every)} machines, {names})"
            raise RunFailed(error.kind, text, hint=error.hint) from error

    async def _connect(self, lane: Lane, machine: Machine) -> None:
        """Waits until ``machine`` runs, and connects to it. Raises RunFailed with the cluster's reasons."""
        await unless(self._reach(lane, machine), self._deleted(machine.name))

    async def _deleted(self, name: str) -> str:
        """Waits until the VirtualMachine ``name`` is deleted; returns the text of an error."""

        def deleted(items: Mapping[str, dict[str, Any]]) -> bool | None:
            return True if name not in items or items[name]["metadata"].get("deletionTimestamp") else None

        missing = f"VirtualMachine {name} does not appear in the cluster"
        await self.vms.until(lambda items: True if name in items else None, self._timeout, missing)
        await self.vms.until(deleted, float("inf"), f"VirtualMachine {name} stays")
        await cleanup.stands(self.api, self.manifests.namespace)
        return f"another user deleted VirtualMachine {name}"

    async def _reach(self, lane: Lane, machine: Machine) -> None:
        guest, name = lane.guests[machine.number], machine.name
        vmi = await self._running(name)
        async with self._slots:
            address = address_of(vmi)
            try:
                await guest.reach(
                    self.api, self.manifests.namespace, address=address, way=self.way, timeout=self._timeout
                )  # fmt: skip
            except RunFailed as error:
                raise RunFailed(error.kind, f"{error.message}; {await self._why(name)}", hint=_UNREACHED) from error
            await guest.settle_down(self._timeout)
        programs = [program for workload, cell in self.cells for program in workload.calls(cell)]
        if lacking := await guest.lacks(programs):
            raise RunFailed(
                "program-missing",
                f"machine {name} lacks {', '.join(lacking)}",
                hint="use an image that has them, or give cloud-init access to a package repository (docs/kubevirt.md)",
            )
        lane.boots[name] = vmi["metadata"]["uid"]
        self.boot_seconds[name] += time.monotonic() if self.boot_seconds[name] < 0 else 0.0

    @property
    def way(self) -> Reach:
        """Connection to guests: portforward or direct."""
        direct = self.spec.reach == "direct" or (self.spec.reach == "auto" and self.api.in_cluster)
        return "direct" if direct else "portforward"

    @property
    def _timeout(self) -> float:
        return self.spec.boot_timeout / 1e9

    async def _running(self, name: str) -> dict[str, Any]:
        """The instance ``name`` once it runs."""

        def running(items: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
            vmi = items.get(name)
            if vmi is None or not _same(vmi, vmi["metadata"]["uid"]):
                return None
            # KubeVirt reports the address slightly later
            return vmi if self.way == "portforward" or address_of(vmi) else None

        try:
            return await self.vmis.until(running, self._timeout, f"machine {name} does not start")
        except RunFailed as error:
            why = await self._why(name)
            kind, hint = ("", "") if error.hint else diagnose.advice(why)
            raise RunFailed(kind or error.kind, f"{error.message}: {why}", hint=error.hint or hint) from error

    async def _why(self, name: str) -> str:
        vm, vmi = self.vms.items.get(name), self.vmis.items.get(name)
        return await diagnose.why(self.api, self.manifests.namespace, name, vm, vmi)

    async def _link(self, lane: Lane) -> None:
        """Finds a lane's disks in its machines by serial; opens sessions and probes."""
        await build.everywhere(
            {
                guest: build.linked(
                    script.link_step(d.name, f"named serial:{d.serial}", "$STEP")
                    for d in lane.disks
                    if d.guest == number
                )
                for number, guest in enumerate(lane.guests)
            }
        )
        await lane.devices.record(lane.disks)
        await lane.watch.close()
        lane.watch = await Watch.open(lane.guests)

    async def _fill(self, lanes: Sequence[Lane]) -> None:
        """Prefills volumes that are not filled yet, one lane after the other: they may share the storage."""
        if fills(self.cells):
            self.notify("filling the volumes")
        for lane in lanes:
            claims = {disk.name: self._claim(disk) for disk in lane.disks}
            new = [disk for disk in lane.disks if claims[disk.name] != lane.volumes.get(disk.name)]
            self.renewed += bool(lane.volumes and new)
            await lane.devices.handed_out(new)
            await lane.devices.fill(new, self.cells)
            lane.volumes = claims

    def _claim(self, disk: Disk) -> str:
        claim = self.claims.items.get(disk.claim)
        return str(claim["metadata"]["uid"]) if claim else ""

    def crew(self, lane: str, settle: float, broken: Callable[[str], None]) -> Crew:
        """The machines of ``lane`` for a trial."""
        one = self.lanes[lane]
        return Crew(one.guests, one.watch, one.devices, one.disks, settle, broken)

    async def synchronise(self, lanes: Sequence[str]) -> None:
        """Measures the clocks of the machines of ``lanes`` again. Raises RunFailed."""
        await together(*(self.lanes[lane].watch.synchronise() for lane in lanes))

    async def lost(self, lane: str) -> str:
        """Waits until a machine of ``lane`` is lost or restarts; returns its name and the reason."""
        boots = self.lanes[lane].boots

        def lost_machine(items: Mapping[str, dict[str, Any]]) -> str | None:
            return next((name for name, uid in boots.items() if _wrong(items.get(name), uid)), None)

        name = await self.vmis.until(lost_machine, float("inf"), "no machine was lost")
        what = _wrong(self.vmis.items.get(name), boots[name]) or "was lost"
        return f"machine {name} {what}: {await self._why(name)}"

    async def heal(self, broken: Collection[str]) -> None:
        """Restarts all machines of the lanes ``broken``, which may still run processes of a trial, and lost machines of
        other lanes. Fills new volumes. Raises RunFailed."""
        if any(watcher.ended for watcher in (self.vms, self.vmis, self.claims)):  # the server was away too long
            await self._look()
        for lane in self.lanes.values():
            gone = [m for m in lane.machines if not _same(self.vmis.items.get(m.name), lane.boots.get(m.name, ""))]
            if lane.name in broken:
                gone = list(lane.machines)
            elif not gone and all(guest.alive for guest in lane.guests):
                try:
                    await lane.watch.synchronise()
                    continue
                except RunFailed:
                    pass
            await lane.watch.close()
            await together(*(self._restart(lane, machine) for machine in gone))
            await together(*(self._connect(lane, machine) for machine in lane.machines))
            await self._link(lane)
            await self._fill([lane])

    async def _restart(self, lane: Lane, machine: Machine) -> None:
        """Reboots ``machine``; creates it again if it was deleted."""
        await lane.guests[machine.number].close()
        name, old = machine.name, lane.boots.get(machine.name, "")  # kept: after a failure here it is still the old one
        self.boot_seconds[name] = -time.monotonic()
        there = await self.api.get(kinds.VM, name, self.manifests.namespace)
        if there is None or there["metadata"].get("deletionTimestamp"):
            gone = f"VirtualMachine {name} is not deleted"
            await self.vms.until(lambda items: None if name in items else True, self._timeout, gone)
            await self.vmis.until(lambda items: None if name in items else True, self._timeout, gone)
            claims = {
                machine.root,
                *(disk.name for disk in machine.disks),
            }  # not the new machine's
            await self.claims.until(
                lambda items: None if claims & items.keys() else True,
                self._timeout,
                f"the volumes of {name} are not deleted",
            )
            await self._request(machine)
        elif old and _same(self.vmis.items.get(name), old):  # its VirtualMachine creates another
            await self.api.delete(kinds.VMI, name, self.manifests.namespace, uid=old)
        await self.vmis.until(
            lambda items: None if name in items and items[name]["metadata"]["uid"] == old else True,
            self._timeout, f"machine {name} does not stop",
        )  # fmt: skip

    async def close(self) -> None:
        """Ends sessions, tunnels and watches; never raises."""
        for lane in self.lanes.values():
            await lane.watch.close()
        guests = [guest for lane in self.lanes.values() for guest in lane.guests]
        await asyncio.gather(*(guest.close() for guest in guests), return_exceptions=True)
        await self._look_away()


_UNREACHED = (
    "check that the image runs cloud-init and sshd (`virtctl console` shows its boot); docs/kubevirt.md lists images"
)


def _same(vmi: Mapping[str, Any] | None, uid: str) -> bool:
    """Whether ``vmi`` is the boot ``uid``, and runs."""
    if vmi is None or vmi["metadata"]["uid"] != uid or vmi["metadata"].get("deletionTimestamp"):
        return False
    return bool(vmi.get("status", {}).get("phase") == "Running")


def _wrong(vmi: Mapping[str, Any] | None, uid: str) -> str:
    """Why the boot ``uid`` can no longer be measured; empty: it can."""
    if vmi is None or not _same(vmi, uid):
        return "was lost"
    for condition in vmi.get("status", {}).get("conditions", []):
        # The phase stays Running. QEMU pauses a machine whose disk fails or whose thin pool is full.
        if condition.get("type") == "Paused" and condition.get("status") == "True":
            return f"is paused ({plain(str(condition.get('message') or condition.get('reason')), 200)})"
    return ""


class ClusterStage(FleetStage):
    """One trial of one lane: a load, or a clone storm. Path faults are impossible, because the cluster owns the
    paths."""

    def __init__(
        self, crew: Crew, block: Block, lane: str, seconds: float, *, nodes: "NodeProbes | None", storm: "Storm | None"
    ) -> None:
        """``nodes``: read before the first guest and after the last; ``storm``: of the lane, if the study has any."""
        super().__init__(crew, block, lane, seconds)
        self._nodes, self._storm = nodes, storm

    async def _watch(self, when: str, guests: Iterable[int], others: Collection[Observed]) -> None:
        await super()._watch(when, guests, others)
        if "hypervisor" in others and self._nodes:
            self.outputs |= await self._nodes.around(when)

    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:  # noqa: ARG002
        raise RunFailed("fault-unsupported", f"lane {self.lane}: platform kubevirt cannot fail the {kind} of a path")

    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        assert self._storm  # noqa: S101 - the study has clone storms
        outcome = await self._storm.run(count)
        self.keep("storm.json", outcome.record())
        self.load_seconds = outcome.seconds
        return outcome.vms
