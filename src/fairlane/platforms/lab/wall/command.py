"""QEMU's command line for a wall-clock machine, from its description: pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlane.errors import FairlaneError
from fairlane.platforms.lab.qemu import BINARY

FUNCTIONS = 27 * 8
"""PCI functions for NICs, disks and controllers: eight in each slot of the root bus from the fourth on. Slot 0 is the
host bridge, 1 to 3 have the devices of every machine, 31 is the chipset's."""

PANICS = "panic=-1 oops=panic"
"""Kernel parameters: a failure of the kernel ends the machine (QEMU has -no-reboot), with its report on the console. An
Oops in a target would otherwise leave a machine that answers, and I/O that never returns."""
_KERNEL = f"console=ttyS0 quiet {PANICS} mitigations=off nokaslr net.ifnames=0 no_timer_check"
"""no_timer_check: an emulated timer may not tick in time on a busy host, and the kernel would panic at boot ("IO-APIC +
timer doesn't work")."""


@dataclass(frozen=True)
class Nic:
    """A network interface of a path. One end listens (the array's), the other connects."""

    name: str
    """Interface name in the guest, and QEMU's id: ``path0``, on the array of several guests ``path0.2``."""
    mac: str
    socket: Path
    listens: bool
    address: str
    """With prefix; ``-``: none (a bridge's port)."""
    mtu: int


@dataclass(frozen=True)
class Machine:
    """The parts of a machine. ``devices`` and ``blockdevs`` are QEMU's own JSON (``-device``, ``-blockdev``),
    ``objects`` its ``-object``: disks, controllers and IO threads beside the root disk."""

    name: str
    cpus: int
    memory: int
    """Bytes."""
    accel: str
    """``kvm`` or ``tcg``."""
    nics: tuple[Nic, ...] = ()
    preempt: str = "none"
    objects: tuple[Mapping[str, Any], ...] = ()
    blockdevs: tuple[Mapping[str, Any], ...] = ()
    devices: tuple[Mapping[str, Any], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Further files under /fairlane of the guest: name -> text."""


def cpus(count: int, accel: str) -> str:
    """QEMU's ``-smp`` for ``count`` CPUs. An emulated machine has room for a second one: with at most one,
    QEMU translates its locked instructions without the lock (``tcg_cpu_init_cflags``), Linux's barriers among them, and
    a request to another thread of QEMU is lost: observed after sixty thousand with QEMU 7.2, the guest waiting for an
    idle disk. The kernel gets the real number (``nr_cpus``)."""
    return str(count) if accel == "kvm" else f"{count},maxcpus={max(count, 2)}"


def command(machine: Machine, kernel: Path, initrd: Path) -> list[str]:
    """The command; the caller adds QMP. Management is a NIC behind QEMU's user network, whose port QEMU chooses.

    Raises FairlaneError for more NICs and disks than a machine has room for."""
    place = _functions(machine.name)
    accelerator = "kvm" if machine.accel == "kvm" else "tcg,thread=multi"
    out = [
        BINARY, "-M", "q35", "-nodefaults", "-no-user-config", "-accel", accelerator,
        "-cpu", "host" if machine.accel == "kvm" else "max", "-smp", cpus(machine.cpus, machine.accel),
        "-m", f"{machine.memory // 2**20}M", "-display", "none", "-no-reboot", "-rtc", "base=utc,clock=host",
        "-boot", "strict=on",  # the firmware would read every disk
        "-kernel", str(kernel), "-initrd", str(initrd),
        "-append", f"{_KERNEL} nr_cpus={machine.cpus} preempt={machine.preempt}",
        "-serial", "file:console", "-device", "virtio-rng-pci",
        "-drive", "if=none,id=root,format=qcow2,file=root.qcow2,cache=unsafe",
        *_option("-device", {"driver": "virtio-blk-pci", "drive": "root", "serial": "fairlane-root"}),
        "-netdev", "user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:0-:22",
        *_option("-device", {"driver": "virtio-net-pci", "netdev": "mgmt", "mac": MANAGEMENT, "romfile": ""}),
    ]  # fmt: skip
    for nic in machine.nics:
        server = "on" if nic.listens else "off"
        out += ["-netdev", f"stream,id={nic.name},server={server},addr.type=unix,addr.path={nic.socket}"]
        nic_device = {"driver": "virtio-net-pci", "netdev": nic.name, "id": f"nic-{nic.name}", "mac": nic.mac,
                      "host_mtu": nic.mtu, "romfile": "", **next(place)}  # fmt: skip
        out += _option("-device", nic_device)
    for option, parts in (("-object", machine.objects), ("-blockdev", machine.blockdevs), ("-device", machine.devices)):
        for part in parts:
            on_pci = option == "-device" and "bus" not in part
            out += _option(option, {**part, **next(place)} if on_pci else part)
    return out


def _functions(name: str) -> Iterator[Mapping[str, Any]]:
    """Addresses of PCI devices: several functions to a slot, so that more than a slot each have room."""
    for number in range(FUNCTIONS):
        slot, function = 4 + number // 8, number % 8
        yield {"addr": f"{slot:x}.{function}", "multifunction": function == 0}
    raise FairlaneError(
        "pci-slots", f"{name} would have more than {FUNCTIONS} NICs, disks and controllers, the limit of its PCI bus"
    )


MANAGEMENT = "52:54:00:fa:00:01"


def network(machine: Machine) -> str:
    """The guest's /fairlane/network: MAC, name, address, MTU."""
    lines = [f"{MANAGEMENT} mgmt 10.0.2.15/24 1500"]
    lines += [f"{nic.mac} {nic.name} {nic.address} {nic.mtu}" for nic in machine.nics]
    return "\n".join(lines) + "\n"


def _option(name: str, value: Mapping[str, Any]) -> Sequence[str]:
    return (name, json.dumps(value))
