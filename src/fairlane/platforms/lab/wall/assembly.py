"""Build and tear down a wall-clock lab: machines, networks, a cluster, lanes."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from fairlane import registry
from fairlane.errors import MachineLost, RunFailed, Unfinished
from fairlane.fleet.build import everywhere, shell
from fairlane.fleet.devices import Devices, fills
from fairlane.fleet.volumes import by_lane
from fairlane.fleet.watch import Watch
from fairlane.lanes.base import Place, Step
from fairlane.machines.base import Guest
from fairlane.machines.concurrency import finish_all
from fairlane.machines.keys import Keys
from fairlane.machines.scratch import scratch
from fairlane.machines.this_host import LocalGuest
from fairlane.platforms.base import Notify
from fairlane.platforms.lab import modelled
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import (
    capabilities,
    cloning,
    disks,
    hypervisor,
    layout,
    pinning,
    rootfs,
)
from fairlane.platforms.lab.wall.builder import builder
from fairlane.platforms.lab.wall.ceph import Cluster
from fairlane.platforms.lab.wall.command import Machine
from fairlane.platforms.lab.wall.golden import Golden
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.vm import Vm, processes

if TYPE_CHECKING:
    from fairlane.study.spec import Study


class Untrustworthy(Exception):  # noqa: N818 - reads as what it is
    """Commands may still run in machines that were just built: they must not be measured."""


def _not_probed(reason: str) -> dict[str, dict[str, str]]:
    return {"all": {"value": capabilities.NOT_PROBED, "evidence": reason}}


class Assembly:
    """The parts of a running lab. ``build`` makes it from scratch, ``tear_down`` removes all of it."""

    def __init__(self, study: "Study", spec: LabSpec) -> None:
        self.study = study
        self.spec = spec
        self.root: rootfs.Root
        self.accel = "tcg"
        self.provisioning = 0
        self.wanted = layout.volumes(study, spec)
        """The volumes of the study; ``lanes`` has them as built."""
        self.lanes = by_lane(self.wanted)
        self.vms: list[Vm] = []
        self.guests: list[Guest] = []
        self.array_vm: Vm | None = None
        self.array: Guest | None = None
        self.host: LocalGuest | None = None
        self.ceph: Cluster | None = None
        self.devices = Devices(())
        self.capable: dict[str, dict[str, dict[str, str]]] = {}
        self.watch = Watch()
        self.golden: Golden | None = None
        self.pinned: dict[str, Any] = {}
        self.notify: Notify = lambda _: None
        self.builder = builder(self.where)
        self._undo: list[Step] = []
        self._built = ExitStack()

    def place(self, provisioning: int) -> None:
        """Numbers the volumes for ``provisioning``. Call it before ``build``."""
        self.wanted = layout.volumes(self.study, self.spec, provisioning)
        self.lanes = by_lane(self.wanted)

    async def boot_ids(self) -> dict[str, str]:
        """The kernel's identity of each machine's boot: another one in each provisioning."""
        machines = self.machines()
        answers = await asyncio.gather(*(vm.guest.ask("cat /proc/sys/kernel/random/boot_id > boot") for vm in machines))
        return {vm.name: files["boot"].decode().strip() for vm, files in zip(machines, answers, strict=True)}

    @property
    def volumes(self) -> list[Volume]:
        """Every volume, lane by lane."""
        return [volume for volumes in self.lanes.values() for volume in volumes]

    def machines(self) -> list[Vm]:
        """The machines of the whole run: the array, the guests."""
        return [*([self.array_vm] if self.array_vm else []), *self.vms]

    async def build(self) -> dict[str, dict[str, object]]:
        """Builds everything from scratch: machines, networks, lanes. Returns the lanes' descriptions."""
        self.scratch = self._built.enter_context(scratch())
        (self.scratch / "keys").mkdir()
        (self.scratch / "here").mkdir()
        keys = Keys.make(self.scratch / "keys")
        self.host = LocalGuest(self.scratch / "here")
        spec = self.spec
        self.lanes = by_lane(layout.placed(self.wanted, spec, self.scratch))
        golden_disk = disks.Parts()
        if storms := cloning.demand(self.study):
            self.notify("making the golden image")
            self.golden, placed = await cloning.prepare(storms, self.volumes, self.root, self.scratch, self._built)
            self.lanes, golden_disk = by_lane(placed), cloning.disk(self.golden)
        await self._switch_on_array(keys, golden_disk)
        # hypervisor lanes need their target before the guest starts, guests must run before theirs are connected
        beside = [] if storms or any(v.emulated for v in self.volumes) else [self._start_guests(keys, ())]
        await finish_all(self._reach_array(), self._start_cluster(), *beside)
        await everywhere({self.array: self._media("array")} if self.array else {})
        emulated, inside = [v for v in self.volumes if v.emulated], [v for v in self.volumes if not v.emulated]
        hosted = [v for v in emulated if v.hosted]
        self._undo = [s for v in hosted for s in v.steps() if s.place == "hypervisor"]
        await self.builder.apply(emulated)
        if hosted:
            self._place(await hypervisor.host_devices(self.host, hosted))
            emulated = [v for v in self.volumes if v.emulated]
        if storms:
            return await self._described()  # storms create machines during the trials; none runs now
        if not beside:
            await self._start_guests(keys, emulated)
        self.guests = [vm.guest for vm in self.vms]
        self.pinned = await pinning.pin(self.machines()) if spec.pinning else {}
        self.notify("building the lanes")
        await everywhere({g: self._ready(i) for i, g in enumerate(self.guests)})
        await self.builder.apply(inside)
        await everywhere({g: self.builder.link(self._disks(i)) for i, g in enumerate(self.guests)})
        await self._prepare()
        array = self.array_vm.guest if self.array_vm else None
        host = (self.host, await processes(self.vms))
        self.watch = await Watch.open([vm.guest for vm in self.vms], array, host)
        return await self._described()

    async def _start_guests(self, keys: Keys, emulated: Sequence[Volume]) -> None:
        """Boots the guests in parallel, with the disks ``emulated``."""
        fleet = self.spec.fleet
        self.notify(f"booting {fleet} guest{'s' * (fleet > 1)}")
        await hypervisor.images(emulated)
        self.vms = [self._vm(self._guest(number, emulated), keys) for number in range(fleet)]
        await finish_all(*(vm.start() for vm in self.vms))

    def _guest(self, number: int, emulated: Sequence[Volume]) -> Machine:
        """The parts of a guest; writes the secrets of its disks."""
        spec = self.spec
        parts = disks.parts(v for v in emulated if v.guest == number)
        hypervisor.write_secrets(parts.secrets, self.scratch)
        nics = layout.guest_nics(spec, number, self.scratch) if self.array_vm else ()
        return Machine(
            f"guest{number}", spec.cpus, spec.memory, self.accel, nics, spec.preempt,
            parts.objects, parts.blockdevs, parts.devices,
        )  # fmt: skip

    async def _described(self) -> dict[str, dict[str, object]]:
        """Description of each lane, read back from the machines."""
        described: dict[str, dict[str, object]] = {}
        for name, volumes in self.lanes.items():
            rows = await self.builder.describe(volumes)
            described[name] = {"path": list(self._path(volumes[0])), **rows[0], **self.devices.description(volumes)}
            if not self.spec.medium.file and volumes[0].owned and not volumes[0].needs_ceph:
                described[name].setdefault("medium.kind", "null_blk")  # or QEMU's null-co, which is the same
            if name in self.capable:
                described[name]["capabilities"] = self.capable[name]
            if volumes[0].emulated and self.vms:
                states = [await hypervisor.disk_state(self.vms[volume.guest], volume) for volume in volumes]
                described[name] |= {**states[0].rows, "conditions": states[0].conditions}
        return described

    async def _switch_on_array(self, keys: Keys, golden_disk: disks.Parts) -> None:
        """Starts the array if a lane needs it, so that guests can boot. ``golden_disk``: its further disks."""
        if not any(v.needs_array for v in self.volumes):
            return
        self.notify("booting the array")
        self.array_vm = self._vm(self._array_machine(golden_disk), keys)
        await self.array_vm.switch_on()

    async def _reach_array(self) -> None:
        """Waits for the array and sets its networks up."""
        if not self.array_vm:
            return
        await self.array_vm.reach()
        self.array = self.array_vm.guest
        await self.array.ask(layout.bridges(self.spec) + "\n" + self._shape(layout.array_nics(self.spec, self.scratch)))
        await self._forward()

    def _array_machine(self, golden_disk: disks.Parts) -> Machine:
        """The parts of the array's machine."""
        spec = self.spec
        files = disks.files(v for v in self.volumes if v.needs_array and spec.medium.file)
        return Machine(
            layout.ARRAY, spec.array.cpus, spec.array.memory, self.accel, layout.array_nics(spec, self.scratch),
            blockdevs=files.blockdevs + golden_disk.blockdevs, devices=files.devices + golden_disk.devices,
        )  # fmt: skip

    async def _start_cluster(self) -> None:
        """Starts the Ceph cluster if a lane needs one."""
        kinds = {v.transport.backing for v in self.volumes if v.needs_ceph}
        if not kinds:
            return
        self.notify("starting a Ceph cluster")
        self.ceph = Cluster(layout.cluster(self.scratch), self.spec.ceph, filesystem="cephfs" in kinds)
        await self.ceph.start()

    def _vm(self, machine: Machine, keys: Keys) -> Vm:
        return Vm(machine, self.root, keys, self.scratch)

    def _place(self, changed: Mapping[str, Volume]) -> None:
        """Replaces volumes by name with completed ones."""
        self.lanes = {lane: tuple(changed.get(v.name, v) for v in volumes) for lane, volumes in self.lanes.items()}

    def _disks(self, guest: int) -> list[Volume]:
        return [v for v in self.volumes if v.guest == guest]

    def where(self, place: Place, volume: Volume) -> Guest:
        guest = {"target": self.array, "hypervisor": self.host}.get(place) or (
            self.guests[volume.guest] if place == "initiator" else None
        )
        if guest is None:
            raise RunFailed("machine-missing", f"{volume.name}: the lab has no {place} machine, which a step needs")
        return guest

    def _shape(self, nics: tuple[object, ...]) -> str:
        names = [getattr(nic, "name") for nic in nics]  # noqa: B009
        return "\n".join(f"( set -eu\n{modelled.link_step(self.spec.link, name).apply}\n)" for name in names)

    def _media(self, where: str) -> str:
        """null_blk devices of the volumes whose medium is on the array, or in a guest (lanes without a transport)."""
        wanted = [v for v in self.volumes if (v.needs_array if where == "array" else False)]
        modules = sorted({m for v in wanted for m in v.transport.modules})
        load = "".join(f"modprobe {m} 2> /dev/null || :\n" for m in modules)
        if self.spec.medium.file:
            return load
        return load + shell(self._medium(v) for v in wanted)

    def _medium(self, volume: Volume) -> Step:
        medium = self.spec.medium.model_copy(update={"size": volume.medium_size})
        return modelled.medium_step(medium, volume.site.index)

    def _ready(self, guest: int) -> str:
        """Shell for modules, links, huge pages and local media of a guest."""
        own = [v for v in self._disks(guest) if not v.emulated]
        modules = sorted({m for v in own for m in v.transport.modules})
        modules += sorted({m for v in self._disks(guest) if v.emulated for m in disks.MODULES[disks.device(v).bus]})
        load = "".join(f"modprobe {m} 2> /dev/null || :\n" for m in modules)
        local = [v for v in own if v.transport.backing == "machine"]
        steps = [modelled.hugepages_step(self.spec.hugepages)]
        steps += [self._medium(v) for v in local]
        nics = layout.guest_nics(self.spec, guest, self.scratch) if self.array_vm else ()
        return load + shell(steps) + self._shape(nics)

    async def _forward(self) -> None:
        """Forwards ports of the array, through which initiators of the hypervisor reach their targets."""
        assert self.array_vm and self.array  # noqa: S101, PT018 - booted
        reach = await hypervisor.forward(self.array_vm, self.volumes)
        if reach:
            await self.array.ask(hypervisor.shape(self.spec.link))
            self._place({v.name: v.at(reach=reach[v.name]) for v in self.volumes if v.name in reach})

    async def _prepare(self) -> None:
        """Records every device's identity; then runs the prefills, and rounds of load until lanes are steady."""
        self.devices = Devices(self.guests)
        await self.devices.record(self.volumes)
        untried = [lane for lane in self.lanes if lane not in self.capable]
        if self.spec.capabilities and untried and not self.provisioning:  # once: lanes made anew have the same
            self.notify("probing the features of the lanes' volumes")
            for lane in untried:
                self.capable[lane] = _not_probed("an earlier attempt did not finish")
                self.capable[lane] = await self._probed(self.lanes[lane][0])
        cells = [(registry.load("workloads", cell.kind), cell) for cell in self.study.cells()]
        if fills(cells):
            self.notify("filling the volumes")
        await self.devices.fill(self.volumes, cells, self.scratch)
        for lane, volumes in self.lanes.items():
            await self.devices.settle(lane, volumes, cells, self.notify)

    async def _probed(self, volume: Volume) -> dict[str, dict[str, str]]:
        """The capabilities of a lane by its first volume. Raises Refused, Untrustworthy."""
        guard = self.devices.guard(volume, writes=volume.owned)
        try:
            return await capabilities.probe(self.vms[volume.guest], volume, before=guard)
        except Unfinished as error:
            raise Untrustworthy(
                f"{volume.lane}: the feature probe did not finish, and may still be running: {error}"
            ) from error
        except MachineLost:
            raise
        except RunFailed as error:  # a lane whose capabilities cannot be probed can still be measured
            self.notify(f"{volume.lane}: the feature probe failed: {error}")
            return _not_probed(error.message)

    def _path(self, volume: Volume) -> tuple[str, ...]:
        hops = volume.transport.path()
        medium = "file" if self.spec.medium.file else "null_blk"  # each lane has one of its own, and all are alike
        hops = tuple(medium if hop == volume.site.medium else hop for hop in hops)
        texts = [f"{hop}: {layout.link_text(self.spec.link)}" if layout.interface(0) in hop else hop for hop in hops]
        return (texts[0], disks.device(volume).bus, *texts[1:]) if volume.emulated else tuple(texts)

    async def tear_down(self) -> None:
        """Stops guests before their array: an initiator without target would wait for it. Never raises."""
        await self.watch.close()
        self.watch = Watch()
        await asyncio.gather(*(vm.stop() for vm in self.vms))
        if self.host and self._undo:
            for step in reversed(self._undo):  # each by itself: a step that was never applied must not stop the others
                with suppress(RunFailed):
                    await self.host.ask(shell([step], undo=True))
        if self.array_vm:
            await self.array_vm.stop()
        if self.ceph:
            await self.ceph.stop()
        self.vms, self.guests, self.array_vm, self.array, self.ceph, self._undo = [], [], None, None, None, []
        self._built.close()
