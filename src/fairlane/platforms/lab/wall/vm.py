"""A running wall-clock machine: QEMU as a child process, QMP for control, SSH for everything in the guest."""

import asyncio
import os
import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from shlex import quote
from typing import Any

from qemu.qmp import ExecuteError, QMPClient, QMPError

from fairlane.errors import MachineLost, RunFailed, because
from fairlane.machines import library
from fairlane.machines.child import WITH_US, end, ends, uninterrupted
from fairlane.machines.keys import Keys
from fairlane.machines.ssh import SshGuest
from fairlane.platforms.lab import image
from fairlane.platforms.lab.obituary import DYING, Obituary
from fairlane.platforms.lab.wall import command as machines
from fairlane.platforms.lab.wall.command import Machine
from fairlane.platforms.lab.wall.rootfs import Root

BOOT_TIMEOUT = 300.0
"""Seconds from QEMU's start to a working SSH connection: 7 on an idle machine, many times that on a busy one."""


class Vm:
    """One machine. ``start`` boots it, ``stop`` ends it in any state."""

    def __init__(self, machine: Machine, root: Root, keys: Keys, scratch: Path) -> None:
        """``scratch``: an existing folder with a short path, for sockets, console and overlay."""
        self.machine = machine
        self.name = machine.name
        self.folder = scratch / machine.name
        self._root, self._keys, self._scratch = root, keys, scratch
        self.boot_seconds = 0.0
        """From QEMU's start to the first command over SSH."""

    async def start(self) -> None:
        """Boots it up to a working SSH connection. Raises RunFailed, MachineLost if it ends meanwhile."""
        await self.switch_on()
        await self.reach()

    async def switch_on(self) -> None:
        """Starts QEMU: the machine boots, and its network's ends can be connected to. Raises RunFailed."""
        self._began = time.monotonic()
        self.folder.mkdir()
        overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(self._root.disk),
                   str(self.folder / "root.qcow2")]  # fmt: skip
        done = await asyncio.create_subprocess_exec(*overlay, stdout=asyncio.subprocess.DEVNULL)
        if await done.wait():
            raise RunFailed(
                "image-build", "qemu-img could not make the overlay of the root disk", where=str(self.folder)
            )
        await self.power_on()

    async def reach(self) -> None:
        """Waits for a working SSH connection. Raises RunFailed with the end of the console, MachineLost if the machine
        ends."""
        self.guest = SshGuest(self.name, self._keys.login(await self._port()), self._scratch, fate=self.fate)
        opening = asyncio.ensure_future(self.guest.open(BOOT_TIMEOUT))
        ended = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.wait({opening, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                raise self.obituary("while it booted").error()
            try:
                await opening
            except RunFailed as error:
                raise RunFailed(error.kind, f"{error.message}\n{self.last_words()}") from error
        finally:
            opening.cancel()
            ended.cancel()
        self.boot_seconds = time.monotonic() - self._began

    async def power_on(self) -> None:
        """Starts QEMU in the folder, which has the root disk (root.qcow2); it can be controlled from then on. Raises
        RunFailed with QEMU's stderr."""
        initrd = self.folder / "initrd"
        initrd.write_bytes(self._root.initrd.read_bytes() + image.as_initrd(self._files()))
        own_end, qemu_end = socket.socketpair()
        command = [
            *WITH_US, str(os.getpid()),
            *machines.command(self.machine, self._root.kernel, initrd),
            "-chardev", f"socket,id=qmp,fd={qemu_end.fileno()}", "-mon", "chardev=qmp,mode=control",
        ]  # fmt: skip
        with qemu_end, (self.folder / "errors").open("wb") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd=self.folder,
                start_new_session=True, pass_fds=[qemu_end.fileno()],
            )  # fmt: skip
        self.qmp = QMPClient(self.name)
        self.qmp.logger.setLevel("CRITICAL")
        try:
            await asyncio.wait_for(self.qmp.connect(own_end), BOOT_TIMEOUT)
        except (OSError, QMPError, TimeoutError) as error:
            await ends(self.process, DYING)
            raise self.obituary("before it had started").start_error() from error

    def _files(self) -> dict[str, str]:
        guest_files = resources.files(__package__).joinpath("guest")
        parts = ("lib.sh", "wall.sh", "send.sh", "identity.sh", "guard.sh")
        files = {
            "init": guest_files.joinpath("init").read_text("utf-8"),
            "lib.sh": "".join(library.part(name) for name in parts),
            "programs": "",
            "name": f"{self.name}\n",
            "network": machines.network(self.machine),
            "sshd_config": guest_files.joinpath("sshd_config").read_text("utf-8"),
            **self._keys.files(),
            **self.machine.files,
        }
        texts: dict[str, str] = {f"fairlane/{name}": text for name, text in files.items()}
        return texts

    async def _port(self) -> int:
        """The port that QEMU chose for the guest's sshd."""
        table = await self.execute("human-monitor-command", **{"command-line": "info usernet"})
        match = re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", table)
        if not match:
            raise RunFailed("port", f"{self.name}: QEMU forwards no port to the guest's sshd")
        return int(match[1])

    async def execute(self, command: str, **arguments: Any) -> Any:
        """One QMP command. Raises RunFailed, MachineLost if QEMU has ended."""
        try:
            return await self.qmp.execute(command, arguments or None)
        except QMPError as error:
            during = f"while QEMU carried out {command}" if self.alive else f"before QEMU could carry out {command}"
            if not isinstance(error, ExecuteError) and (lost := await self.fate(during)):
                raise lost from error
            raise RunFailed(
                "qemu-command", f"{self.name}: QEMU's {command} failed: {error}{because(self.complaint(), ';')}"
            ) from error

    async def link(self, nic: str, *, up: bool) -> None:
        """Plugs or unplugs the cable of a NIC. Raises RunFailed."""
        await self.execute("set_link", name=nic, up=up)

    @property
    def started(self) -> bool:
        return hasattr(self, "process")

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    @property
    def running(self) -> list[str]:
        """The scripts that run in the guest, in short."""
        return [script for script in self.guest.running if script] if hasattr(self, "guest") else []

    def threads(self) -> Mapping[int, str]:
        """QEMU's threads: id -> name."""
        names = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(OSError):
                names[int(task.name)] = (task / "comm").read_text().strip()
        return names

    def complaint(self) -> str:
        """The end of QEMU's stderr; empty if it wrote nothing."""
        return self.obituary().complaint

    def last_words(self) -> str:
        """The end of the guest's console, for error messages."""
        return "\n".join(self.obituary().console_end())

    def obituary(self, during: str = "") -> Obituary:
        """Why it has ended. ``during``: what it did then (``while it booted``); default: the scripts that run there."""
        if not during and self.running:
            during = f"while it ran {' and '.join(map(repr, self.running[:2]))}"
        code = self.process.returncode if self.started else None
        return Obituary.read(self.name, code, self.folder / "console", self.folder / "errors", during)

    async def fate(self, during: str = "") -> MachineLost | None:
        """Why it has ended, once a connection to it broke; None if QEMU still runs after some seconds."""
        return self.obituary(during).error() if await ends(self.process, DYING) else None

    async def stop(self) -> None:
        """Ends connection and machine, completely even if cancelled meanwhile; raises nothing else."""
        await uninterrupted(self._stop())

    async def _stop(self) -> None:
        if hasattr(self, "guest"):
            await self.guest.close()
        if self.started:
            await end(self.process)
            with suppress(Exception):  # QEMU has ended: errors of the client do not matter
                await self.qmp.disconnect()


async def processes(vms: Sequence[Vm]) -> str:
    """Shell variables for probes of the hypervisor: QEMU's processes, their vCPU threads and IO threads."""
    lines = [f"MACHINES={quote(' '.join(str(vm.process.pid) for vm in vms))}"]
    cpus = [str(cpu["thread-id"]) for vm in vms for cpu in await vm.execute("query-cpus-fast")]
    io = [str(item["thread-id"]) for vm in vms for item in await vm.execute("query-iothreads")]
    return "\n".join([*lines, f"VCPUS={quote(' '.join(cpus))}", f"IO_THREADS={quote(' '.join(io))}\n"])
