"""Real lab machines behind VMIs: QEMU with the lab's kernel and root file system, and a file for each volume.

Every imported root volume is the lab's own root, whatever the image: an overlay, which clones and snapshots copy with
all writes. A machine with a containerDisk gets a temporary overlay. All other volumes are raw files. ``parameters`` of
a storage class throttle its volumes, so that classes differ in a known way.
"""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from fairlane.machines.child import end
from fairlane.machines.keys import Keys
from fairlane.machines.scratch import scratch
from fairlane.platforms.lab.wall import rootfs
from fairlane.platforms.lab.wall.command import Machine
from fairlane.platforms.lab.wall.vm import Vm
from testkit.play import cloudinit
from testkit.play.client import Client
from testkit.play.kinds import quantity
from testkit.play.machines import Disk, Machines

IOPS, BANDWIDTH = "fairlane.test/iops", "fairlane.test/bytes-per-second"
"""Parameters of a storage class: limits of each volume, reads and writes together."""
_SSHD = 22
_UP = "FAIRLANE-UP"
"""The lab's init prints it on the console once sshd has started."""
_MODULES = ("virtio_net virtio_rng", "virtio_net virtio_rng virtio_scsi sd_mod ahci")
"""Modules that the lab's init loads, and those loaded here: in a cluster the guest does not know its disks' bus."""


class LabVm(Vm):
    """A machine that counts as started once QEMU runs, and accepts cloud-init's keys only."""

    def __init__(self, machine: Machine, root: rootfs.Root, access: cloudinit.Access, folder: Path) -> None:
        super().__init__(machine, root, _Given(folder, access), folder)
        self.port = 0

    async def boot(self, disk: Path) -> None:
        """Starts QEMU, with ``disk`` (qcow2) as its root. Raises RuntimeError with QEMU's output."""
        self.folder.mkdir()
        (self.folder / "root.qcow2").symlink_to(disk)
        try:
            await self.power_on()
            self.port = await self._port()
        except BaseException as error:
            if self.started:
                await end(self.process)
            if isinstance(error, Exception):
                raise RuntimeError(f"QEMU did not start: {self.complaint()}") from error
            raise

    @property
    def up(self) -> bool:
        """Whether sshd has been started."""
        with suppress(OSError):
            return self.alive and _UP in (self.folder / "console").read_text(errors="replace")
        return False


@dataclass(frozen=True)
class _Given(Keys):
    """Keys made elsewhere: installed in the guest, without a login from here."""

    access: cloudinit.Access

    def files(self) -> dict[str, str]:
        return self.access.files()


@dataclass
class LabMachines(Machines):
    """``Play`` closes it."""

    root: rootfs.Root
    """Root file system in the cache: ``rootfs.cached_root()``, or ``rootfs.build``."""
    accel: str = "tcg"
    vms: dict[tuple[str, str], LabVm] = field(default_factory=dict)
    """(namespace, name) of a VMI -> its machine."""

    def __post_init__(self) -> None:
        self._held = ExitStack()
        self.folder = self._held.enter_context(scratch())
        (self.folder / "volumes").mkdir()
        self._started = 0
        self._watches: set[asyncio.Task[None]] = set()

    def file(self, volume: str) -> Path:
        """The content of a volume or snapshot."""
        return self.folder / "volumes" / volume

    async def provision(self, volume: str, size: int, source: str, way: str) -> None:
        file = self.file(volume)
        if source:
            await self.snapshot(volume, source)
            with file.open("rb+") as data:
                if not _overlay(file):
                    data.truncate(max(size, file.stat().st_size))
        elif way == "import":
            await _run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(self.root.disk), str(file))
        else:
            with file.open("wb") as data:
                data.truncate(size)

    async def snapshot(self, handle: str, volume: str) -> None:
        await _run("cp", "--sparse=always", "--reflink=auto", str(self.file(volume)), str(self.file(handle)))

    async def remove(self, volume: str) -> None:
        self.file(volume).unlink(missing_ok=True)

    async def start(self, client: Client, vmi: Mapping[str, Any], disks: Sequence[Disk]) -> None:
        meta = vmi["metadata"]
        at = (meta["namespace"], meta["name"])
        await self.stop(*at)
        self._started += 1
        folder = self.folder / str(self._started)
        folder.mkdir()
        own = f"ephemeral-{folder.name}"
        booted = _boot_disk(vmi)
        boot = next((disk for disk in disks if disk.name == booted), None)
        if not boot:
            await self.provision(own, 0, "", "import")
        root = self.file(boot.volume if boot else own)
        if not _overlay(root):
            raise RuntimeError(f"no bootable device: nothing was imported into the volume of disk {booted}")
        access = await cloudinit.access(client, vmi)
        machine = self._machine(vmi, [disk for disk in disks if disk is not boot])
        vm = LabVm(machine, self.root, access, folder)
        await vm.boot(root)
        self.vms[at] = vm
        self._watches.add(watch := asyncio.create_task(self._watch(at, vm)))
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, at: tuple[str, str], vm: LabVm) -> None:
        """Reports a machine that ends by itself."""
        await vm.process.wait()
        if self.vms.get(at) is vm:
            await self.ended(*at, str(vm.obituary()))

    async def stop(self, namespace: str, name: str) -> None:
        if vm := self.vms.pop((namespace, name), None):
            await vm.stop()
            await self.remove(f"ephemeral-{vm.folder.parent.name}")
            await asyncio.to_thread(shutil.rmtree, vm.folder.parent, ignore_errors=True)

    def address(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        vm = self.vms.get((namespace, name))
        return ("127.0.0.1", vm.port) if vm and port == _SSHD and vm.up else None

    async def close(self) -> None:
        for at in tuple(self.vms):
            await self.stop(*at)
        await asyncio.gather(*self._watches)
        await asyncio.to_thread(self._held.close)

    def _machine(self, vmi: Mapping[str, Any], disks: Sequence[Disk]) -> Machine:
        domain = vmi["spec"]["domain"]
        cpu = domain.get("cpu") or {}
        cpus = int(cpu.get("cores", 1)) * int(cpu.get("sockets", 1)) * int(cpu.get("threads", 1))
        memory = (domain.get("memory") or {}).get("guest") or domain["resources"]["requests"]["memory"]
        queues = cpus if domain["devices"].get("blockMultiQueue") else 1
        threads = _threads(domain, disks)
        objects: list[dict[str, Any]] = [
            {"qom-type": "iothread", "id": name} for name in sorted({*threads.values()} - {""})
        ]
        blockdevs: list[dict[str, Any]] = []
        devices: list[dict[str, Any]] = []
        if any(disk.bus == "scsi" for disk in disks):
            thread = next((threads[d.name] for d in disks if d.bus == "scsi" and threads[d.name]), "")
            controller = {"driver": "virtio-scsi-pci", "id": "scsi", "num_queues": queues}
            devices.append(controller | ({"iothread": thread} if thread else {}))
        for number, disk in enumerate(disks):
            objects += _throttle(disk)
            blockdevs += self._nodes(disk)
            devices.append(_device(disk, number, queues, threads[disk.name]))
        init = resources.files("fairlane.platforms.lab.wall").joinpath("guest/init").read_text("utf-8")
        assert _MODULES[0] in init
        return Machine(vmi["metadata"]["name"], cpus, quantity(memory), self.accel, objects=tuple(objects),
                       blockdevs=tuple(blockdevs), devices=tuple(devices),
                       files={"init": init.replace(*_MODULES)})  # fmt: skip

    def _nodes(self, disk: Disk) -> list[dict[str, Any]]:
        """The volume's file node, with its throttle on top."""
        file = {"driver": "file", "filename": str(self.file(disk.volume)), "aio": "threads", "discard": "unmap",
                "cache": {"direct": disk.cache == "none"}}  # fmt: skip
        node = f"v-{disk.name}"
        form = "qcow2" if _overlay(self.file(disk.volume)) else "raw"
        below = {"driver": form, "node-name": f"f-{disk.name}" if _limits(disk) else node, "file": file}
        if not _limits(disk):
            return [below]
        group = {"driver": "throttle", "node-name": node, "throttle-group": f"t-{disk.name}", "file": f"f-{disk.name}"}
        return [below, group]


def _boot_disk(vmi: Mapping[str, Any]) -> str:
    """Name of the boot disk of a VMI: with the least bootOrder, else the first."""
    disks = vmi["spec"]["domain"]["devices"].get("disks") or ()
    ordered = sorted((disk for disk in disks if "bootOrder" in disk), key=lambda disk: disk["bootOrder"])
    return next((str(disk["name"]) for disk in (*ordered, *disks)), "")


def _overlay(file: Path) -> bool:
    """Whether a volume contains the lab's root."""
    with file.open("rb") as data:
        return data.read(4) == b"QFI\xfb"


def _limits(disk: Disk) -> dict[str, int]:
    names = {"iops-total": IOPS, "bps-total": BANDWIDTH}
    return {limit: int(disk.parameters[name]) for limit, name in names.items() if name in disk.parameters}


def _throttle(disk: Disk) -> list[dict[str, Any]]:
    limits = _limits(disk)
    return [{"qom-type": "throttle-group", "id": f"t-{disk.name}", "limits": limits}] if limits else []


def _threads(domain: Mapping[str, Any], disks: Sequence[Disk]) -> dict[str, str]:
    """IO thread of each disk, by ``ioThreadsPolicy`` and ``dedicatedIOThread``; empty: none. The pool of
    supplementalPool is dealt out disk by disk, because this QEMU cannot map queues to threads."""
    policy = domain.get("ioThreadsPolicy", "")
    pool = int((domain.get("ioThreads") or {}).get("supplementalPoolThreadCount", 1))
    threads = {}
    for number, disk in enumerate(disks):
        if disk.own_thread or policy == "auto":
            threads[disk.name] = f"io-{number}"
        elif policy == "supplementalPool":
            threads[disk.name] = f"io-pool-{number % pool}"
        else:
            threads[disk.name] = "io-shared" if policy == "shared" or any(d.own_thread for d in disks) else ""
    return threads


def _device(disk: Disk, number: int, queues: int, thread: str) -> dict[str, Any]:
    own = {"id": f"d-{disk.name}", "drive": f"v-{disk.name}"} | ({"serial": disk.serial} if disk.serial else {})
    if disk.bus == "scsi":
        return {"driver": "scsi-hd", **own, "bus": "scsi.0", "scsi-id": number}
    if disk.bus == "sata":
        return {"driver": "ide-hd", **own, "bus": f"ide.{number}"}
    return {"driver": "virtio-blk-pci", **own, "num-queues": queues, **({"iothread": thread} if thread else {})}


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, output = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed: {output.decode(errors='replace').strip()[-400:]}")
