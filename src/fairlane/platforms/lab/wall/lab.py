"""The lab's platform under the wall clock: guests and array stay up for a whole provisioning, every lane attached to
every guest at once, so that lanes can take turns in the same machine."""

import asyncio
import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING

from fairlane import __version__, install
from fairlane.errors import FairlaneError, MachineLost, RunFailed
from fairlane.fleet.stage import Crew, FleetStage
from fairlane.lanes._clones import Cloning
from fairlane.lanes.base import Ground
from fairlane.machines import script
from fairlane.platforms._fleet import FleetPlatform
from fairlane.platforms.base import Notify, Opened
from fairlane.platforms.lab import image, loads, qemu, this_host
from fairlane.platforms.lab.closed import external_lanes
from fairlane.platforms.lab.obituary import DYING
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import (
    ceph,
    cloning,
    kvm,
    layout,
    pinning,
    qemu_probe,
    rootfs,
)
from fairlane.platforms.lab.wall import (
    resources as host,
)
from fairlane.platforms.lab.wall.assembly import Assembly, Untrustworthy
from fairlane.platforms.lab.wall.clones import Kind, Storm
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.vm import Vm
from fairlane.records import Block, FaultKind
from fairlane.runs.files import cache_dir

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_PROGRAMS = {
    qemu.BINARY: "qemu-system-x86", "qemu-img": "qemu-utils", "setpriv": "util-linux", "ssh": "openssh-client",
    "ssh-keygen": "openssh-client", "mke2fs": "e2fsprogs",
}  # fmt: skip


class WallLab(Assembly, FleetPlatform):
    """Guests and an array, under KVM where it boots a guest, otherwise emulated."""

    Spec = LabSpec
    emulated = True

    def __init__(self, study: "Study") -> None:
        assert isinstance(study.platform, LabSpec)  # noqa: S101 - the registry pairs them
        FleetPlatform.__init__(self, study)
        Assembly.__init__(self, study, study.platform)
        self._held = ExitStack()

    def problems(self) -> list[FairlaneError]:
        if outside := list(external_lanes(self.study)):
            return outside
        problems = [error for program in _PROGRAMS.items() if (error := install.missing(*program))]
        if not rootfs.cached_root() and (error := image.builder_missing()):
            problems.append(error)
        capacity = host.capacity()
        problems += ceph.problems(self.spec.ceph, self.wanted)
        fits = host.problems(self.spec, self.wanted, capacity)
        fits += cloning.problems(self.study, self.spec, self.wanted, capacity)
        fits += pinning.problems(self.spec, self.lanes, len(os.sched_getaffinity(0)))
        return problems + fits + self.unfit() + qemu_probe.problems(self.lanes, self.spec)

    def announcement(self) -> list[str]:
        return this_host.disturbed()

    def unfit(self) -> list[FairlaneError]:
        if outside := list(external_lanes(self.study)):
            return outside
        spec = self.spec
        faults = {kind: None for load in self.study.workloads.values() for kind in getattr(load, "fault", ())}
        ground = Ground(
            spec.medium.keeps, spec.fleet, spec.link.mtu, self.study.lanes, spec.cpus, faults=tuple(faults)
        )  # fmt: skip
        lanes = {v.lane: v for v in self.wanted}.values()
        problems = [
            FairlaneError(
                "transport-unsupported",
                f"the lab's machines have no disks of this host, so {v.spec.transport} cannot be used",
                where=f"lanes.{v.lane}.transport",
                hint="set platform.kind: hosts, whose machines have their own disks (docs/hosts.md)",
            )
            for v in lanes
            if v.transport.backing == "external"
        ]
        problems += [error for v in lanes for error in replace(v.transport, name=v.lane).problems(ground)]
        if self.study.design.sessions == "block":
            problems += [
                FairlaneError(
                    "sessions-unsupported",
                    f"lane {v.lane} cannot log in again between two blocks: other layers use its sessions, or the "
                    "hypervisor holds them",
                    where=f"lanes.{v.lane}",
                    hint="set sessions: run in design, or use iscsi, nvme_tcp, nvme_rdma or nfs in the guest",
                )
                for v in lanes
                if v.transport.backing != "machine" and not _logs_in(v)
            ]
        own = any(v.owned and not isinstance(v.transport, Cloning) for v in lanes)
        problems += loads.unfit(self.study, spec, own=own)
        return problems + self._unfit_for_faults(tuple(lanes)) + cloning.unfit(self.study, self.spec, self.wanted)

    def _unfit_for_faults(self, lanes: Sequence[Volume]) -> list[FairlaneError]:
        """Faults that a lane does not support, and loads that would overwrite the data that failover checks."""
        cells = [cell for cell in self.study.cells() if cell.kind == "failover"]
        problems: list[FairlaneError] = []
        if cells and (other_loads := sorted({c.workload for c in self.study.cells()} - {c.workload for c in cells})):
            text = f"failover verifies every block of its region, but {other_loads[0]} would overwrite it"
            problems.append(
                FairlaneError(
                    "failover-overwritten", text, where="workloads", hint="move the faults into a separate study"
                )
            )
        faults = {(cell.params["fault"], cell.params["path"]) for cell in cells}
        for kind, path in sorted(faults):
            if kind == "link" and path >= self.spec.paths:
                text = f"the lab has no path {path}: platform.paths is {self.spec.paths}, counted from 0"
                problems.append(
                    FairlaneError("path-unknown", text, where="workloads", hint="lower path, or raise platform.paths")
                )
            for v in lanes if kind != "link" else ():
                try:
                    step = v.transport.fault(kind, path)
                except FairlaneError as error:
                    problems.append(error)
                    continue
                if step is None:
                    text = f"{v.spec.transport} has no fault {kind!r} as the lane is set up"
                    hint = "link fails the network of any lane; state needs several paths (multipath)"
                    problems.append(FairlaneError("fault-unsupported", text, where=f"lanes.{v.lane}", hint=hint))
        return problems

    async def open(self, notify: Notify) -> Opened:
        self.notify = notify
        if self.provisioning:
            self.place(self.provisioning)
        self.root = await rootfs.build(notify, self._held)
        self.accel = await self._accelerator()
        self.emulated = self.accel == "tcg"
        described = await self._first()
        manifest = self.root.manifest
        return Opened(
            description={
                "lanes": described,
                "platform": {
                    "clock": "wall",
                    "accelerator": self.accel,
                    "probes": await self.watch.costs(),
                    "boot_seconds": {vm.name: round(vm.boot_seconds, 2) for vm in self.machines()},
                    "boot_ids": await self.boot_ids(),
                    **(await self.ceph.describe() if self.ceph else {}),
                    **({"pinning": self.pinned} if self.spec.pinning else {}),
                    **({"sessions": "anew in every block"} if self.study.design.sessions == "block" else {}),
                },
            },
            fingerprint={
                "qemu": qemu.version(),
                "host": this_host.facts(),
                "kernel": manifest["kernel_release"],
                "fairlane": __version__,
                "fio": manifest["packages"].get("fio", "unknown"),
                "image": self.root.key,
                "accelerator": self.accel,
                **({"ceph": await self.ceph.version()} if self.ceph else {}),
                "packages": {name: manifest["packages"].get(name, "") for name in rootfs.packages()},
            },
        )

    async def _first(self) -> dict[str, dict[str, object]]:
        while True:  # as many times as there are lanes, at most
            try:
                return await self.build()
            except Untrustworthy as error:
                self.notify(f"{error}; rebuilding the lab")
                await self.tear_down()
            except RunFailed as error:
                raise self._with_causes(error) from error

    async def _accelerator(self) -> str:
        if self.spec.accel == "tcg":
            return "tcg"
        if kvm.usable():
            self.notify("testing whether KVM boots a guest")
            if await asyncio.to_thread(kvm.remembered, self.root, cache_dir()):
                return "kvm"
        if self.spec.accel == "kvm":
            raise FairlaneError(
                "kvm", "KVM does not boot a guest here", hint="set accel: auto; `fairlane doctor` shows the reason"
            )
        return "tcg"

    def stage(self, block: Block, lane: str) -> "LabStage":
        return LabStage(self, block, lane)

    async def begin(self, block: Block) -> None:
        volumes = [volume for lane in block.order for volume in self.lanes[lane] if volume.sessions()]
        if self.study.design.sessions == "block" and volumes:
            await self.builder.log_in_anew(volumes)
        await self.watch.synchronise()

    async def heal(self, lanes: Collection[str]) -> None:  # noqa: ARG002
        """Rebuilds the whole lab: its lanes share the machines. Raises RunFailed."""
        self.notify("rebuilding the lab")
        await self.tear_down()
        try:
            await self.build()
        except OSError as error:
            text = f"cannot rebuild the lab: {error.strerror or error}"
            raise RunFailed("lab-rebuild", text, where=str(error.filename or "")) from error
        except RunFailed as error:
            raise self._with_causes(error) from error
        self.rebuilds += 1

    def storm(self, lane: str) -> Storm:
        """A storm of clones of ``lane``. Raises RunFailed if the study has none."""
        if not self.golden:
            raise RunFailed("golden-missing", f"lane {lane}: the lab has no golden image")
        init = resources.files(__package__).joinpath("guest/clone-init").read_text("utf-8")
        kind = Kind(self.root, init, self.spec.cpus, self.spec.memory, self.accel)
        return Storm(self.lanes[lane][0], self.golden, kind, self.where, self.scratch)

    async def lost(self, lane: str) -> RunFailed:
        """Waits until any machine ends, because I/O to an array that has ended would wait for ever; returns the error,
        with what the machines did then."""
        ending = [asyncio.ensure_future(vm.process.wait()) for vm in self._started()]
        try:
            await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        vm = self._ended()[0]
        return vm.obituary("" if vm.running else f"while lane {lane} was measured").error()

    async def explained(self, error: RunFailed, lane: str) -> RunFailed:
        # a machine's connections end before it does
        if self._started() and not isinstance(error, MachineLost):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.lost(lane), DYING)
        return self._with_causes(error, f"while lane {lane} was measured")

    def _with_causes(self, error: RunFailed, during: str = "while the lanes were built") -> RunFailed:
        """``error`` with the machines that have ended by now and that it does not name: the cause comes first."""
        files = dict(error.files) if isinstance(error, MachineLost) else {}
        further = [vm.obituary(during) for vm in self._ended() if not vm.obituary().files.keys() & files.keys()]
        if not further:
            return error
        files |= {name: data for obituary in further for name, data in obituary.files.items()}
        hint = error.hint or next((obituary.hint for obituary in further if obituary.hint), "")
        text = "\n".join(str(obituary) for obituary in further)
        if isinstance(error, MachineLost):
            return MachineLost(f"{error.message}\n{text}", files=files, hint=hint)
        return MachineLost(f"{text}\nerror that followed: {error.message}", files=files, hint=hint)

    def _started(self) -> list[Vm]:
        return [vm for vm in self.machines() if vm.started]

    def _ended(self) -> list[Vm]:
        return [vm for vm in self._started() if not vm.alive]

    async def close(self) -> None:
        await self.tear_down()
        self._held.close()


def _logs_in(volume: Volume) -> bool:
    """Whether the guest can log in anew to ``volume``."""
    try:
        return bool(volume.sessions())
    except FairlaneError:  # its steps need a secret that is not here, and which ``problems`` asks for
        return not volume.emulated


class LabStage(FleetStage):
    """The stage of the lab's wall clock."""

    def __init__(self, lab: WallLab, block: Block, lane: str) -> None:
        crew = Crew(
            lab.guests, lab.watch, lab.devices, lab.lanes[lane], lab.spec.settle / 1e9, partial(lab.broken, lane)
        )
        super().__init__(crew, block, lane, lab.study.workloads[block.cell.workload].trial_seconds(block.cell))
        self.lab = lab
        self.fleet, self.paths = lab.spec.fleet, lab.spec.paths  # in clone storms no guest runs

    def _text(self, guest: int, load: str, *, gate: bool) -> str:
        # a comment names the script in the error of a machine that ends meanwhile
        return f"# trial {self.block.trial_id(self.lane)}\n{super()._text(guest, load, gate=gate)}"

    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:
        lab = self.lab
        if kind == "link":
            if path >= self.paths or not lab.array_vm:
                raise RunFailed("path-unknown", f"lane {self.lane}: the lab has no link of path {path}")
            # a cable has two ends: guests and array both lose the carrier
            ends = [(vm, layout.interface(path)) for vm in lab.vms]
            nics = layout.array_nics(lab.spec, lab.scratch)  # QEMU 7.2 crashes when an unconnected link is plugged
            ends += [(lab.array_vm, nic.name) for nic in nics if layout.on_path(nic, path)]
            await asyncio.gather(*(vm.link(nic, up=not on) for vm, nic in ends))
            return time.time()
        texts = []
        for volume in lab.lanes[self.lane]:
            step = volume.transport.fault(kind, path)
            if step is None:
                raise RunFailed("fault-unsupported", f"lane {self.lane}: {volume.spec.transport} has no fault {kind!r}")
            texts.append(script.run_step(step.name, step.apply if on else step.remove, "$STEP"))
        if not lab.array:
            raise RunFailed(
                "fault-unsupported", f"lane {self.lane} uses no array of the lab, so fault {kind} is not possible"
            )
        await lab.array.ask("".join(texts))
        return time.time()

    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        times = await self.lab.storm(self.lane).run(count)
        self.load_seconds = max(vm["answered"] for vm in times)
        return times
