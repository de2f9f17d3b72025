"""Domains of a test's own libvirtd with a stranger's system in them, which ``ssh NAME`` reaches."""

import asyncio
import os
import re
import subprocess
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Self

from testkit.libvirtd import NOBODY, Libvirtd
from testkit.strangers import ingredients, saved, wishes
from testkit.strangers.client import Client
from testkit.strangers.ingredients import Ingredients
from testkit.strangers.machine import KERNEL, PATIENCE
from testkit.strangers.wishes import Array, Host

_PORTS = 24
"""Slots for disks, more than virt-install gives a machine: each virtio-blk disk and SCSI controller takes one."""


class Domains(Libvirtd):
    """``with Domains("vm1") as libvirt``: the daemon, and running domains of these names."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._definitions: dict[str, str] = {}
        self.hosts = (Array(), *(Host(name) for name in names))
        """The array, which there is none of, has the first number."""

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            made = asyncio.run(ingredients.gather(self._held))
            self.client = Client(self.folder / "client")
            copies = self.folder / "root"
            copies.mkdir()
            for file in (made.root.kernel, made.root.initrd, made.root.disk):
                self._copy(file, copies)
            made = replace(made, root=replace(made.root, folder=copies))
            for number, host in enumerate(self.hosts[1:], start=1):
                folder = self.folder / host.name
                saved.furnish(folder, host, self.hosts, self.client, made)
                for path in (folder, *folder.iterdir()):
                    os.chown(path, NOBODY, NOBODY)
                self._definitions[host.name] = self._xml(host, number, made)
            self.switch_on(*self._definitions)
        except BaseException:
            self._held.close()
            raise
        return self

    def switch_on(self, *names: str) -> None:
        """Starts domains that do not run, and waits for them."""
        for name in names:
            self.virsh("create", "/dev/stdin", given=self._definitions[name])
        ports = {host.name: self._port(host.name) for host in self.hosts[1:]}
        self.client.write({wishes.ARRAY: 9, **ports}, self.hosts)
        for name in names:
            self._reached(name)

    def environment(self) -> dict[str, str]:
        """The environment in which ``ssh NAME`` reaches the domains."""
        return {**os.environ, "PATH": f"{self.client.bin}:{os.environ['PATH']}"}

    def ssh(self, name: str, command: str) -> "subprocess.CompletedProcess[str]":
        """The user's ``ssh NAME COMMAND``, run to its end."""
        return subprocess.run(
            ["ssh", name, command], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=PATIENCE,
        )  # fmt: skip

    @staticmethod
    def _copy(file: Path, folder: Path) -> None:
        """Copies ``file`` for QEMU, which may not read the cache: it is root's."""
        path = folder / file.name
        subprocess.run(["cp", "--sparse=always", "--reflink=auto", file, path], check=True)
        path.chmod(0o644)

    def _port(self, name: str) -> int:
        table = self.virsh("qemu-monitor-command", name, "--hmp", "info usernet")
        found = re.search(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", table)
        assert found, table
        return int(found[1])

    def _reached(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (done := self.ssh(name, "systemctl is-active multi-user.target || :")).returncode:
            assert time.monotonic() < deadline, f"{done.stderr}\n{(self.folder / name / 'console').read_text()[-2000:]}"
            time.sleep(0.5)

    def _xml(self, host: Host, number: int, made: Ingredients) -> str:
        folder = self.folder / host.name
        ports = "<controller type='pci' index='0' model='pcie-root'/>"
        ports += "<controller type='pci' model='pcie-root-port'/>" * _PORTS
        disks = "".join(
            f"<disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='unsafe' discard='unmap'/>"
            f"<source file='{folder}/{serial}.qcow2'/><target dev='vd{letter}' bus='virtio'/><serial>{serial}</serial>"
            "</disk>"
            for serial, letter in zip(saved.serials(host), "abc", strict=True)
        )
        words = ["-netdev", "user,id=mgmt,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:0-:22"]
        for path in range(wishes.PATHS):
            words += ["-netdev", f"hubport,id=path{path},hubid={path + 1}"]
        for end, netdev in enumerate(("mgmt", *(f"path{path}" for path in range(wishes.PATHS)))):
            nic = f"virtio-net-pci,netdev={netdev},mac={wishes.mac(number, end)},romfile=,bus=pcie.0,addr={16 + end:#x}"
            words += ["-device", nic]
        return f"""
<domain type='{"kvm" if made.accel == "kvm" else "qemu"}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{host.name}</name><uuid>{uuid.uuid4()}</uuid><memory unit='MiB'>512</memory><vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type><kernel>{made.root.kernel}</kernel><initrd>{folder}/initrd</initrd>
    <cmdline>{KERNEL}</cmdline>
  </os>
  <features><acpi/></features><cpu mode='{"host-passthrough" if made.accel == "kvm" else "maximum"}'/>
  <devices>
    {ports}{disks}
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <serial type='file'><source path='{folder}/console'/></serial><memballoon model='none'/>
  </devices>
  <qemu:commandline>{"".join(f"<qemu:arg value='{word}'/>" for word in words)}</qemu:commandline>
</domain>
"""
