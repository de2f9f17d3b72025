"""The lab's platform under the wall clock: guests and array stay up for the whole run, every lane attached to every
guest at once, so that lanes can take turns in the same machine."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import ExitStack, suppress
from importlib import resources
from typing import TYPE_CHECKING, Any

from fairlane import __version__, registry
from fairlane.errors import FairlaneError, RunFailed
from fairlane.lanes.base import Ground, Place, Step
from fairlane.platforms._local import LocalGuest
from fairlane.platforms.base import Guest, Notify, Opened, Platform, RawTrial
from fairlane.platforms.lab import kvm, model, qemu
from fairlane.platforms.lab.cache import cache_dir
from fairlane.platforms.lab.scratch import scratch
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import (
    able,
    build,
    capabilities,
    ceph,
    cloning,
    disks,
    external,
    hypervisor,
    layout,
    pinning,
    room,
    rootfs,
)
from fairlane.platforms.lab.wall.ceph import Cluster
from fairlane.platforms.lab.wall.clones import Kind, Storm
from fairlane.platforms.lab.wall.devices import Devices
from fairlane.platforms.lab.wall.golden import Golden
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.machine import Machine
from fairlane.platforms.lab.wall.stage import LabStage
from fairlane.platforms.lab.wall.vm import Keys, Vm
from fairlane.platforms.lab.wall.watch import Watch
from fairlane.records import Block

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_PROGRAMS = {
    qemu.BINARY: "qemu-system-x86", "qemu-img": "qemu-utils", "setpriv": "util-linux", "ssh": "openssh-client",
    "ssh-keygen": "openssh-client", "mke2fs": "e2fsprogs",
}  # fmt: skip


class WallLab(Platform):
    """Guests and an array, under KVM where it boots a guest, otherwise emulated."""

    Spec = LabSpec
    emulated = True

    def __init__(self, study: "Study") -> None:
        super().__init__(study)
        assert isinstance(study.platform, LabSpec)  # noqa: S101 - the registry pairs them
        self.spec: LabSpec = study.platform
        self._volumes = layout.volumes(study, self.spec)
        self.lanes = dict(layout.by_lane(self._volumes))
        self.vms: list[Vm] = []
        self.guests: list[Guest] = []
        self.array_vm: Vm | None = None
        self.array: Guest | None = None
        self.here: LocalGuest | None = None
        self.ceph: Cluster | None = None
        self.devices = Devices(())
        self.capable: dict[str, dict[str, dict[str, str]]] = {}
        self.watch = Watch()
        self._undo: list[Step] = []
        self.golden: Golden | None = None
        self._broken = False
        self._held = ExitStack()
        self._built = ExitStack()
        self._notify: Notify = lambda _: None

    @property
    def volumes(self) -> list[Volume]:
        return [volume for found in self.lanes.values() for volume in found]

    def problems(self) -> list[FairlaneError]:
        found = [
            FairlaneError(f"{program} is not installed", hint=f"run: make setup (package {package})")
            for program, package in _PROGRAMS.items()
            if not shutil.which(program)
        ]
        if not rootfs.cached_root() and not shutil.which("mmdebstrap"):
            found.append(
                FairlaneError("mmdebstrap is not installed: the lab image cannot be built", hint="run: make setup")
            )
        here = room.here()
        found += ceph.problems(self.spec.ceph, self._volumes)
        fits = room.problems(self.spec, self._volumes, here)
        fits += cloning.problems(self.study, self.spec, self._volumes, here)
        fits += pinning.problems(self.spec, self.lanes, len(os.sched_getaffinity(0)))
        fits += external.problems(self.lanes, self.spec)
        return found + fits + self._unbuildable() + able.problems(self.lanes, self.spec)

    def _unbuildable(self) -> list[FairlaneError]:
        """Lanes that their transports cannot build on this lab."""
        spec = self.spec
        faults = {kind: None for load in self.study.workloads.values() for kind in getattr(load, "fault", ())}
        ground = Ground(
            spec.medium.keeps, spec.fleet, spec.link.mtu, self.study.lanes, spec.cpus, faults=tuple(faults)
        )  # fmt: skip
        lanes = {v.lane: v for v in self._volumes}.values()
        return [error for v in lanes for error in v.transport.problems(v.lane, v.spec, ground)]

    async def open(self, notify: Notify) -> Opened:
        self._notify = notify
        self._root = await rootfs.build(notify, self._held)
        self._accel = await self._accelerator()
        self.emulated = self._accel == "tcg"
        described = await self._build()
        manifest = self._root.manifest
        return Opened(
            description={
                "lanes": described,
                "platform": {
                    "clock": "wall",
                    "accelerator": self._accel,
                    "probes": await self.watch.costs(),
                    "boot_seconds": {vm.name: round(vm.boot_seconds, 2) for vm in self._machines()},
                    **(await self.ceph.describe() if self.ceph else {}),
                    **({"pinning": self._pinned} if self.spec.pinning else {}),
                },
            },
            fingerprint={
                "qemu": qemu.version(),
                "kernel": manifest["kernel_release"],
                "fairlane": __version__,
                "fio": manifest["packages"].get("fio", "unknown"),
                "image": self._root.key,
                "accelerator": self._accel,
                **({"ceph": await self.ceph.version()} if self.ceph else {}),
                "packages": {name: manifest["packages"].get(name, "") for name in rootfs.packages()},
            },
        )

    async def _accelerator(self) -> str:
        if self.spec.accel == "tcg":
            return "tcg"
        if kvm.usable():
            self._notify("trying whether KVM boots a guest")
            if await asyncio.to_thread(kvm.remembered, self._root, cache_dir()):
                return "kvm"
        if self.spec.accel == "kvm":
            raise FairlaneError("KVM does not boot a guest here", hint="accel: auto; `fairlane doctor` tells more")
        return "tcg"

    def _machines(self) -> list[Vm]:
        return [*([self.array_vm] if self.array_vm else []), *self.vms]

    async def _build(self) -> dict[str, dict[str, object]]:
        """Everything from scratch: machines, networks, lanes. Returns the lanes' descriptions."""
        self._scratch = self._built.enter_context(scratch())
        (self._scratch / "keys").mkdir()
        (self._scratch / "here").mkdir()
        keys = Keys.make(self._scratch / "keys")
        self.here = LocalGuest(self._scratch / "here")
        spec = self.spec
        self.lanes = dict(layout.by_lane(layout.placed(self._volumes, spec, self._scratch)))
        made = disks.Parts()
        if storms := cloning.asked(self.study):
            self._notify("making the golden image")
            self.golden, found = await cloning.prepare(storms, self.volumes, self._root, self._scratch, self._built)
            self.lanes, made = dict(layout.by_lane(tuple(found))), cloning.disk(self.golden)
        await build.together(self._start_array(keys, made), self._start_cluster())
        await build.everywhere({self.array: self._media("array")} if self.array else {})
        # hypervisor lanes need their target before the guest starts, guests must run before theirs are connected
        emulated, inside = [v for v in self.volumes if v.emulated], [v for v in self.volumes if not v.emulated]
        hosted = [v for v in emulated if v.hosted]
        self._undo = [s for v in hosted for s in v.steps() if s.place == "hypervisor"]
        await build.apply(emulated, self._where)
        if hosted:
            self._place(await hypervisor.host_devices(self.here, hosted))
            emulated = [v for v in self.volumes if v.emulated]
        if storms:
            return await self._described()  # machines are made while it is measured, and none stands
        self._notify(f"booting {len(range(spec.fleet))} guest{'s' * (spec.fleet > 1)}")
        await hypervisor.images(emulated)
        for guest in range(spec.fleet):
            parts = disks.parts(v for v in emulated if v.guest == guest)
            hypervisor.write_secrets(parts.secrets, self._scratch)
            nics = layout.guest_nics(spec, guest, self._scratch) if self.array_vm else ()
            machine = Machine(
                f"guest{guest}", spec.cpus, spec.memory, self._accel, nics, spec.preempt,
                parts.objects, parts.blockdevs, parts.devices, outside=bool(external.outside(self._of(guest), spec)),
            )  # fmt: skip
            self.vms.append(self._vm(machine, keys))
        for error in await asyncio.gather(*(vm.start() for vm in self.vms), return_exceptions=True):
            if isinstance(error, BaseException):
                raise error
        self.guests = [vm.guest for vm in self.vms]
        self._pinned = await pinning.pin(self._machines()) if spec.pinning else {}
        self._notify("building the lanes")
        await build.everywhere({g: self._ready(i) for i, g in enumerate(self.guests)})
        await build.apply(inside, self._where)
        await build.everywhere({g: build.link(self._of(i)) for i, g in enumerate(self.guests)})
        await self._prepare()
        self.watch = await Watch.open(self.vms, self.array_vm, self.here)
        return await self._described()

    async def _described(self) -> dict[str, dict[str, object]]:
        """The lanes as the machines tell of them."""
        described: dict[str, dict[str, object]] = {}
        for name, found in self.lanes.items():
            told = await build.describe(found, self._where)
            described[name] = {"path": list(self._path(found[0])), **told[0], **self.devices.told(found)}
            if not self.spec.medium.file and found[0].ours and not found[0].transport.cluster:
                described[name].setdefault("medium.kind", "null_blk")  # or QEMU's null-co, which is the same
            if name in self.capable:
                described[name]["capabilities"] = self.capable[name]
            if found[0].emulated and self.vms:
                seen = [await hypervisor.told(self.vms[volume.guest], volume) for volume in found]
                described[name] |= {**seen[0].rows, "conditions": seen[0].conditions}
        return described

    async def _start_array(self, keys: Keys, made: disks.Parts) -> None:
        """Boots the array if a lane needs it. ``made``: further disks of it."""
        if not any(v.needs_array for v in self.volumes):
            return
        self._notify("booting the array")
        nics = layout.array_nics(self.spec, self._scratch)
        files = disks.files(v for v in self.volumes if v.needs_array and self.spec.medium.file)
        machine = Machine(
            layout.ARRAY, self.spec.array.cpus, self.spec.array.memory, self._accel, nics,
            blockdevs=files.blockdevs + made.blockdevs, devices=files.devices + made.devices,
        )  # fmt: skip
        self.array_vm = self._vm(machine, keys)
        await self.array_vm.start()
        self.array = self.array_vm.guest
        await self.array.ask(
            layout.bridges(self.spec) + "\n" + self._shape(layout.array_nics(self.spec, self._scratch))
        )
        await self._forward()

    async def _start_cluster(self) -> None:
        """Starts the Ceph cluster if a lane needs one."""
        kinds = {v.transport.cluster for v in self.volumes} - {""}
        if not kinds:
            return
        self._notify("starting a Ceph cluster")
        self.ceph = Cluster(layout.cluster(self._scratch), self.spec.ceph, filesystem="cephfs" in kinds)
        await self.ceph.start()

    def _vm(self, machine: Machine, keys: Keys) -> Vm:
        return Vm(machine, self._root, keys, self._scratch)

    def _place(self, changed: Mapping[str, Volume]) -> None:
        """Volumes, by name, of which more is known now."""
        self.lanes = {lane: tuple(changed.get(v.name, v) for v in found) for lane, found in self.lanes.items()}

    def _of(self, guest: int) -> list[Volume]:
        return [v for v in self.volumes if v.guest == guest]

    def _where(self, place: Place, volume: Volume) -> Guest:
        guest = {"target": self.array, "hypervisor": self.here}.get(place) or (
            self.guests[volume.guest] if place == "initiator" else None
        )
        if guest is None:
            raise RunFailed(f"{volume.name}: the lab has no machine for a step of the {place}")
        return guest

    def _shape(self, nics: tuple[object, ...]) -> str:
        names = [getattr(nic, "name") for nic in nics]  # noqa: B009
        return "\n".join(f"( set -eu\n{model.link_step(self.spec.link, name).apply}\n)" for name in names)

    def _media(self, where: str) -> str:
        """null_blk devices of the volumes whose medium is on the array, or in a guest (lanes without a transport)."""
        wanted = [v for v in self.volumes if (v.needs_array if where == "array" else False)]
        modules = sorted({m for v in wanted for m in v.transport.modules})
        load = "".join(f"modprobe {m} 2> /dev/null || :\n" for m in modules)
        if self.spec.medium.file:
            return load
        return load + build.shell(self._medium(v) for v in wanted)

    def _medium(self, volume: Volume) -> Step:
        medium = self.spec.medium.model_copy(update={"size": volume.medium_size})
        return model.medium_step(medium, volume.site.index)

    def _ready(self, guest: int) -> str:
        """Modules, links, huge pages and local media of a guest."""
        own = [v for v in self._of(guest) if not v.emulated]
        modules = sorted({m for v in own for m in v.transport.modules})
        modules += sorted({m for v in self._of(guest) if v.emulated for m in disks.MODULES[disks.device(v).bus]})
        load = "".join(f"modprobe {m} 2> /dev/null || :\n" for m in modules)
        local = [v for v in own if v.ours and not v.transport.target and not v.transport.cluster]
        steps = [model.hugepages_step(self.spec.hugepages)]
        steps += [self._medium(v) for v in local]
        nics = layout.guest_nics(self.spec, guest, self._scratch) if self.array_vm else ()
        return load + build.shell(steps) + self._shape(nics) + external.routes(own, self.spec)

    async def _forward(self) -> None:
        """Ports of the array through which initiators of the hypervisor reach their targets."""
        assert self.array_vm and self.array  # noqa: S101, PT018 - booted
        reach = await hypervisor.forward(self.array_vm, self.volumes)
        if reach:
            await self.array.ask(hypervisor.shape(self.spec.link))
            self._place({v.name: v.at(reach=reach[v.name]) for v in self.volumes if v.name in reach})

    async def _prepare(self) -> None:
        """Records what every device is; then the prefill of every workload and rounds until lanes are steady."""
        self.devices = Devices(self.guests)
        await self.devices.record(self.volumes)
        if self.spec.capabilities and not self.capable:  # once: lanes that are built again can do the same
            self._notify("trying what the lanes can do")
            for lane, found in self.lanes.items():
                self.capable[lane] = await self._tried(found[0])
        cells = [(registry.load("workloads", cell.kind), cell) for cell in self.study.cells()]
        if any(workload.prepare(cell, "/dev/lane/x") for workload, cell in cells):
            self._notify("filling the volumes")
        await self.devices.fill(self.volumes, cells, self._scratch)
        for lane, found in self.lanes.items():
            if any(workload.rounds(cell) for workload, cell in cells):
                self._notify(f"loading {lane} until it is steady")
            await self.devices.settle(lane, found, cells)

    async def _tried(self, volume: Volume) -> dict[str, dict[str, str]]:
        """The capabilities of a lane by its first volume. Raises Refused."""
        guard = self.devices.guard(volume, writes=volume.ours)
        try:
            found = await capabilities.probe(self.vms[volume.guest], volume, self.spec.most_disks, before=guard)
        except RunFailed as error:  # a lane that cannot be asked can be measured all the same
            self._notify(f"{volume.lane}: not all was tried: {error}")
            return {"all": {"value": capabilities.NOT_PROBED, "evidence": error.message}}
        self.devices.wrote(volume)
        return found

    def _path(self, volume: Volume) -> tuple[str, ...]:
        hops = volume.transport.path(volume.name, volume.spec, volume.site)
        told = [f"{hop}: {layout.told(self.spec.link)}" if layout.interface(0) in hop else hop for hop in hops]
        return (told[0], disks.device(volume).bus, *told[1:]) if volume.emulated else tuple(told)

    async def run_block(self, block: Block) -> AsyncIterator[RawTrial]:
        workload = registry.load("workloads", block.cell.kind)
        await self.watch.synchronise()
        for lane in block.order:
            if self._broken:
                self._notify("building the lab again")
                await self._tear_down()
                await self._build()
                self._broken = False
            stage = LabStage(self, block, lane)
            try:
                await self._attended(workload.drive(block.cell, stage.devices, block.seed, stage))
            except RunFailed as error:
                self._broken = True
                raise self._explained(error) from error
            yield RawTrial(lane, stage.outputs, stage.load_seconds)

    def storm(self, lane: str) -> Storm:
        """A storm of clones of ``lane``. Raises RunFailed where the study has none."""
        if not self.golden:
            raise RunFailed(f"lane {lane}: the lab has no golden image")
        init = resources.files(__package__).joinpath("guest/clone-init").read_text("utf-8")
        kind = Kind(self._root, init, self.spec.cpus, self.spec.memory, self._accel)
        return Storm(self.lanes[lane][0], self.golden, kind, self._where, self._scratch)

    def broken(self, reason: str) -> None:
        """Machines in which something hangs are built anew before the next trial."""
        self._notify(reason)
        self._broken = True

    async def _attended(self, work: Coroutine[Any, Any, None]) -> None:
        """Awaits ``work``, but no longer than all machines live: I/O to an array that is gone would wait for it."""
        tasks = [asyncio.ensure_future(vm.process.wait()) for vm in self._machines()]
        driving = asyncio.ensure_future(work)
        try:
            await asyncio.wait([driving, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if not driving.done():
                raise RunFailed("a machine of the lab was lost")
            await driving
        finally:
            for task in (driving, *tasks):
                task.cancel()
            await asyncio.gather(driving, *tasks, return_exceptions=True)

    def _explained(self, error: RunFailed) -> RunFailed:
        """The failure, with the machines that have ended: they are why."""
        gone = [vm for vm in self._machines() if not vm.alive]
        if not gone:
            return error
        told = "; ".join(f"{vm.name} has ended ({vm.last_words() or vm.complaint()})" for vm in gone)
        return RunFailed(f"{error.message}; {told}", hint=error.hint)

    async def _tear_down(self) -> None:
        """Guests before their array: an initiator without target would wait for it. Never raises."""
        await self.watch.close()
        self.watch = Watch()
        await external.disconnect(self.vms, self.volumes)
        await asyncio.gather(*(vm.stop() for vm in self.vms))
        if self.here and self._undo:
            for step in reversed(self._undo):  # each by itself: one that was never applied must not keep others
                with suppress(RunFailed):
                    await self.here.ask(build.shell([step], undo=True))
        if self.array_vm:
            await self.array_vm.stop()
        if self.ceph:
            await self.ceph.stop()
        self.vms, self.guests, self.array_vm, self.array, self.ceph, self._undo = [], [], None, None, None, []
        self._built.close()

    async def close(self) -> None:
        await self._tear_down()
        self._held.close()
