"""Clone storms: machines created at once from a golden image, timed up to their first I/O, and removed.

A clone has no network: it reports its progress over a serial port, and the host takes the times. Every storm also
verifies the clones: each has the golden image's data, and none can read the writes of another.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlane.errors import RunFailed
from fairlane.fleet import build
from fairlane.lanes._clones import Clone, Cloning
from fairlane.machines.base import Guest
from fairlane.machines.child import WITH_US, ends, signal_group
from fairlane.machines.concurrency import together
from fairlane.platforms.lab import image
from fairlane.platforms.lab.obituary import Obituary
from fairlane.platforms.lab.qemu import BINARY
from fairlane.platforms.lab.wall import golden
from fairlane.platforms.lab.wall.builder import Where
from fairlane.platforms.lab.wall.command import PANICS, cpus
from fairlane.platforms.lab.wall.golden import Golden
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.rootfs import Root
from fairlane.study.guest_device import GuestDevice

_KERNEL = f"console=ttyS0 quiet {PANICS} mitigations=off nokaslr preempt=none cryptomgr.notests"
_SERIAL = "fairlane-root"
"""Serial by which the initrd finds the disk to boot from."""
_ON_HOST = ("file", "host_device")
_PATIENCE = 600.0
"""Seconds that a storm may take, plus ``_EACH`` per machine."""
_EACH = 30.0
_GRACE = 20.0
"""Seconds that QEMU has to close its disks."""

Times = dict[str, float]


@dataclass(frozen=True)
class Kind:
    """The common parts of all clones of a storm."""

    root: Root
    init: str
    """Text of their first process."""
    cpus: int
    memory: int
    """Bytes."""
    accel: str


def command(kind: Kind, initrd: Path, clone: Clone, device: GuestDevice, serial_fd: int) -> list[str]:
    """QEMU's command line. ``serial_fd``: file descriptor of the clone's serial port for reports."""
    node = {**_with_aio(clone.backend, device.aio), "node-name": "root", "cache": {"direct": device.cache == "none"}}
    disk = {"driver": "virtio-blk-pci", "drive": "root", "serial": _SERIAL}
    return [
        BINARY, "-M", "q35", "-nodefaults", "-no-user-config",
        "-accel", "kvm" if kind.accel == "kvm" else "tcg,thread=multi,tb-size=128",
        "-cpu", "host" if kind.accel == "kvm" else "max", "-smp", cpus(kind.cpus, kind.accel),
        "-m", f"{kind.memory // 2**20}M",
        "-display", "none", "-no-reboot", "-kernel", str(kind.root.kernel), "-initrd", str(initrd),
        "-append", f"{_KERNEL} nr_cpus={kind.cpus}", "-serial", f"file:{initrd.parent}/console",
        "-chardev", f"socket,id=answers,fd={serial_fd}", "-serial", "chardev:answers", "-device", "virtio-rng-pci",
        "-blockdev", json.dumps(node), "-device", json.dumps(disk),
    ]  # fmt: skip


def _with_aio(node: Mapping[str, Any], aio: str) -> dict[str, Any]:
    """The block node with ``aio`` set on every driver that does I/O on this machine's files."""
    result = {key: _with_aio(value, aio) if isinstance(value, Mapping) else value for key, value in node.items()}
    return {**result, "aio": aio} if result.get("driver") in _ON_HOST else result


class CloneVm:
    """One running clone."""

    def __init__(self, name: str, folder: Path) -> None:
        """Creates ``folder`` for the clone."""
        self.name = name
        self.folder = folder
        self.folder.mkdir()
        self.initrd = folder / "initrd"

    def prepare(self, kind: Kind) -> None:
        """Writes its initrd: with the init, and the block that it writes."""
        own = {"fairlane/init": kind.init, "fairlane/own": golden.block(self.name).decode()}
        self.initrd.write_bytes(kind.root.initrd.read_bytes() + image.as_initrd(own))

    async def start(self, kind: Kind, clone: Clone, device: GuestDevice) -> None:
        own_end, qemu_end = socket.socketpair()
        argv = [*WITH_US, str(os.getpid()), *command(kind, self.initrd, clone, device, qemu_end.fileno())]
        with qemu_end, (self.folder / "errors").open("wb") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *argv, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True,
                cwd=self.folder, pass_fds=[qemu_end.fileno()],
            )  # fmt: skip
        self.reader, self.writer = await asyncio.open_connection(sock=own_end)

    async def wait_for_event(self, event: str) -> list[str]:
        """Waits for ``event``; the words after it. Raises MachineLost if the machine ends, RunFailed if it reports
        another event."""
        with suppress(ConnectionError):
            while line := await self.reader.readline():
                words = line.decode(errors="replace").split()
                if words[:1] != ["@@CLONE"]:
                    continue
                if words[1:2] == [event]:
                    return words[2:]
                raise RunFailed(
                    "clone-silent",
                    f"{self.name} reported an unexpected event instead of {event}: {' '.join(words[1:])[:300]}",
                )
        await ends(self.process, _GRACE)  # its serial port is closed some time before
        console, stderr = self.folder / "console", self.folder / "errors"
        during = f"before it reported {event!r}"
        raise Obituary.read(self.name, self.process.returncode, console, stderr, during).error()

    async def send(self, word: str) -> None:
        with suppress(ConnectionError):  # it has ended: ``wait_for_event`` raises
            self.writer.write(f"{word}\n".encode())
            await self.writer.drain()

    async def stop(self) -> None:
        """Ends it; never raises."""
        if hasattr(self, "writer"):
            self.writer.close()
        if not hasattr(self, "process"):
            return
        for number in (signal.SIGTERM, signal.SIGKILL):  # SIGTERM first: a cluster waits for clients that vanish
            signal_group(self.process.pid, number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), _GRACE)


class Storm:
    """One storm of ``count`` clones of a lane; used once."""

    def __init__(self, volume: Volume, image: Golden, kind: Kind, where: Where, scratch: Path) -> None:
        if not isinstance(volume.transport, Cloning):
            raise RunFailed(
                "clones-unsupported",
                f"lane {volume.lane}: {volume.spec.transport} cannot make clones",
                hint="for workload clone, set transport: clone_copy, clone_overlay, ...",
            )
        self.volume, self.golden, self.kind, self.scratch = volume, image, kind, scratch
        self.transport: Cloning[Any] = volume.transport
        self.device = volume.spec.device or GuestDevice()
        self._where = where

    async def run(self, count: int) -> list[Times]:
        """Times of every machine. Raises RunFailed; whatever happens, machines and volumes are gone afterwards."""
        reading = self.transport.read_golden()
        await self._at(reading.place).ask(build.shell([reading]), build.TIMEOUT)
        clones = [self.transport.clone(number) for number in range(count)]
        # every clone finds a shell that waits for it: to start one is no part of a clone
        await asyncio.gather(*(self._at(clone.step.place).ask(":") for clone in clones))
        async with self._machines(clones) as vms:
            began = time.monotonic()
            async with _patiently(_PATIENCE + _EACH * count, f"a storm of {count} clones of {self.volume.lane}"):
                times = await together(*(self._time(vm, clone, began) for vm, clone in zip(vms, clones, strict=True)))
                await together(*(self._check(vm) for vm in vms))
        return times

    def _at(self, place: Any) -> Guest:
        return self._where(place, self.volume)

    @asynccontextmanager
    async def _machines(self, clones: Sequence[Clone]) -> AsyncIterator[list[CloneVm]]:
        """The machines, not started; at the end they are stopped, and their volumes deleted."""
        folder = self.scratch / "clones"
        folder.mkdir()
        try:
            vms = [CloneVm(f"clone{number}", folder / str(number)) for number in range(len(clones))]
            for vm in vms:
                vm.prepare(self.kind)
            try:
                yield vms
            except BaseException:
                with suppress(RunFailed):  # the first failure is raised, and the lab is rebuilt
                    await self._delete(vms, clones)
                raise
            await self._delete(vms, clones)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _delete(self, vms: Sequence[CloneVm], clones: Sequence[Clone]) -> None:
        """Stops the machines, then deletes their volumes one by one: a shared volume group or pool is locked
        meanwhile."""
        await asyncio.gather(*(vm.stop() for vm in vms))
        for place in dict.fromkeys(clone.step.place for clone in clones):
            steps = [clone.step for clone in clones if clone.step.place == place]
            await self._at(place).ask(build.shell(steps, undo=True), build.TIMEOUT)

    async def _time(self, vm: CloneVm, clone: Clone, began: float) -> Times:
        times: Times = {}
        await self._at(clone.step.place).ask(build.shell([clone.step]), build.TIMEOUT)
        times["created"] = time.monotonic() - began
        await vm.start(self.kind, clone, self.device)
        await vm.wait_for_event("booted")
        times["booted"] = time.monotonic() - began
        words = await vm.wait_for_event("answered")
        times["answered"] = time.monotonic() - began
        if words != [golden.OWN]:
            raise RunFailed(
                "clone-data",
                f"lane {self.volume.lane}: {vm.name} read {' '.join(words)[:40]!r} where the golden image has "
                f"{golden.OWN!r}: it is not a clone of that image, or an earlier clone wrote into the image",
            )
        return times

    async def _check(self, vm: CloneVm) -> None:
        """After every clone has written: verifies its own data and the golden image's. Raises RunFailed."""
        await vm.send("check")
        if (words := await vm.wait_for_event("checked")) != [vm.name, self.golden.stamp]:
            raise RunFailed(
                "clone-shared",
                f"lane {self.volume.lane}: {vm.name} wrote {vm.name} into its own block, but read "
                f"{' '.join(words)[:100] or 'nothing'}; expected {vm.name} {self.golden.stamp} (its block, hash of the "
                "golden image's data): the clones share writes",
            )


@asynccontextmanager
async def _patiently(seconds: float, name: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise RunFailed("timeout", f"{name} did not end within {seconds:.0f} s") from None
