"""Probe the capabilities of a lane's volume on the running machines.

capabilities.sh probes in the guest; this module what only the hypervisor can try: plugging disks while the machine
runs, their largest number, and resizing one. Each answer has its evidence.
"""

import asyncio
import json
import os
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources

from fairlane.errors import MachineLost, RunFailed
from fairlane.machines import script
from fairlane.machines.child import WITH_US
from fairlane.platforms.lab.qemu import BINARY
from fairlane.platforms.lab.wall import disks
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.vm import Vm
from fairlane.study.guest_device import Bus

_TIMEOUT = 120.0
_NOTICED = 20.0
"""Seconds within which a guest must notice a change of its disks."""
_MIB = 2**20
_MOST_DISKS = 64
"""Disks up to which it is tried how many a machine can have."""
NOT_PROBED = "not probed"
_IN_GUEST = "the initiator runs in the guest: disks are connected, not plugged, and the transport has no resize step"


@dataclass(frozen=True)
class Answer:
    """``value``: yes, no, a figure, or ``not probed``; ``evidence``: the action and its result."""

    value: str
    evidence: str


async def probe(vm: Vm, volume: Volume, *, before: str) -> dict[str, dict[str, str]]:
    """The capabilities of ``volume`` in ``vm``, by key. ``before``: the guard, as shell. The first 4 MiB of a volume
    that this run made are overwritten. Raises RunFailed, and Refused if the guard refuses."""
    shell = resources.files(__package__).joinpath("guest/capabilities.sh").read_text("utf-8")
    device = script.device(volume.name)
    answers: dict[str, Answer] = {}
    if volume.transport.stores_files:
        answers["naming"] = Answer("a file", "in a share: no block device, so the other features are not probed")
    else:
        text = f"{shell}\n{before}capabilities {device} {int(volume.owned)} > rows"
        output = await vm.guest.ask(text, _TIMEOUT)
        answers |= read(output["rows"].decode(errors="replace"))
    if volume.emulated:
        answers["disks"] = await attachable(disks.device(volume).bus)
        answers["hot_plug"] = await _hot_plug(vm, volume)
        answers["resize"] = await _resize(vm, volume)
    else:
        answers |= {key: Answer(NOT_PROBED, _IN_GUEST) for key in ("disks", "hot_plug", "resize")}
    return {key: {"value": a.value, "evidence": a.evidence} for key, a in answers.items()}


def read(rows: str) -> dict[str, Answer]:
    """Parses the output of capabilities.sh."""
    lines = [line.split("\t") for line in rows.splitlines()]
    return {line[0]: Answer(line[1], line[2]) for line in lines if len(line) == 3}


async def _hot_plug(vm: Vm, volume: Volume) -> Answer:
    """Plugs a further null-co disk on the same bus, waits until the guest sees it, and unplugs it."""
    device, bus = disks.device(volume), disks.device(volume).bus
    serial, node = f"plugged-{volume.site.index}", "plugged"
    await vm.execute("blockdev-add", driver="null-co", size=64 * _MIB, **{"node-name": node, "read-zeroes": True})
    if bus == "virtio-scsi":
        arguments = {"driver": "scsi-hd", "bus": f"{disks.qdev(volume)}.0", "scsi-id": 200}
    else:
        arguments = {"driver": {"virtio-blk": "virtio-blk-pci", "nvme": "nvme"}[bus]}
    try:
        await vm.execute("device_add", id=node, drive=node, serial=serial, **arguments)
    except MachineLost:
        raise
    except RunFailed as error:
        await _forget(vm, node)
        return Answer("no", f"QEMU: {_qemu_message(error)} (lab: disks lie on the root bus of q35)")
    try:
        visible = await _until(vm, f'[ -n "$(volumes serial:{serial})" ]')
    finally:
        await vm.execute("device_del", id=node)
        gone = await _until(vm, f'[ -z "$(volumes serial:{serial})" ]')
        await _forget(vm, node)
    text = f"plugged a {device.bus} disk; the guest {'detected it' if visible else 'did not detect it'}"
    return Answer(
        "yes" if visible and gone else "no", f"{text}; after unplugging, it {'was gone' if gone else 'stayed'}"
    )


async def _forget(vm: Vm, node: str) -> None:
    """Removes a block node once its device is gone."""
    for _ in range(50):
        with suppress(RunFailed):
            await vm.execute("blockdev-del", **{"node-name": node})
            return
        await asyncio.sleep(0.1)


async def _resize(vm: Vm, volume: Volume) -> Answer:
    """Grows the disk by 1 MiB, waits until the guest sees it, and shrinks it again."""
    node, link = disks.node(volume), script.device(volume.name)
    nodes = await vm.execute("query-named-block-nodes", flat=True)
    size = next(int(entry["image"]["virtual-size"]) for entry in nodes if entry["node-name"] == node)
    try:
        await vm.execute("block_resize", **{"node-name": node, "size": size + _MIB})
    except MachineLost:
        raise
    except RunFailed as error:
        message = _qemu_message(error)
        # null-co cannot resize: a limit of the medium, not of the device
        return Answer(NOT_PROBED if "does not support resize" in message else "no", f"QEMU: {message}")
    rescan = f"d=$(readlink -f {link}); s=/sys/block/${{d##*/}}; [ ! -e $s/device/rescan ] || echo 1 > $s/device/rescan"
    grown = await _until(vm, f"{rescan}; [ $(cat $s/size) -eq {(size + _MIB) // 512} ]")
    await vm.execute("block_resize", **{"node-name": node, "size": size})
    if not await _until(vm, f"{rescan}; [ $(cat $s/size) -eq {size // 512} ]") and grown:
        raise RunFailed(
            "resize", f"{volume.name}: the guest does not report the original size after the disk shrank back"
        )
    if grown:
        return Answer("yes", "QMP block_resize by 1 MiB: the running guest reported the new size; then undone")
    return Answer("no", f"QMP block_resize by 1 MiB succeeded, but the guest did not report it within {_NOTICED:.0f} s")


async def _until(vm: Vm, condition: str) -> bool:
    """Waits in the guest until ``condition`` holds; whether it did in time."""
    text = f"""
i=0
until {{ {condition}; }} 2> /dev/null; do i=$((i + 1)); [ $i -lt {int(_NOTICED / 0.2)} ] || break; sleep 0.2; done
if {{ {condition}; }} 2> /dev/null; then echo 1; else echo 0; fi > seen
"""
    return (await vm.guest.ask(text, _TIMEOUT))["seen"].strip() == b"1"


def _qemu_message(error: RunFailed) -> str:
    """QEMU's own message in the error of a QMP command."""
    return error.message.partition(" failed: ")[2].partition(";")[0] or error.message


_attachable: dict[Bus, Answer] = {}
"""Cache for this process: QEMU does not change meanwhile."""


async def attachable(bus: Bus) -> Answer:
    """The largest number of disks of ``bus``, up to 64, with which QEMU starts a machine like the lab's: a binary
    search with null-co disks and no guest running, some seven starts."""
    if bus not in _attachable:
        _attachable[bus] = await _searched(bus)
    return _attachable[bus]


async def _searched(bus: Bus) -> Answer:
    begun = time.monotonic()
    good, bad, refusal = 0, _MOST_DISKS + 1, ""
    number = _MOST_DISKS
    while bad - good > 1:
        if reason := await _refuses(bus, number):
            bad, refusal = number, reason
        else:
            good = number
        number = (good + bad) // 2
    took = f"{time.monotonic() - begun:.1f} s"
    if good == _MOST_DISKS:
        return Answer(f"at least {good}", f"QEMU starts with {good} such disks on q35; no guest booted ({took})")
    return Answer(
        str(good), f"QEMU starts with {good} such disks on q35 beside system disk, NIC and RNG; with {bad}: {refusal}"
    )


async def _refuses(bus: Bus, number: int) -> str:
    """Why QEMU does not start with ``number`` disks; empty: it does."""
    command = [BINARY, "-M", "q35", "-nodefaults", "-no-user-config", "-accel", "tcg", "-m", "64M", "-display", "none",
               "-S", "-qmp", "stdio", "-device", "virtio-rng-pci", "-device", "virtio-net-pci,romfile=", "-blockdev",
               '{"driver": "null-co", "node-name": "root"}', "-device", "virtio-blk-pci,drive=root"]  # fmt: skip
    if bus == "virtio-scsi":
        command += ["-device", "virtio-scsi-pci,id=scsi"]
    for n in range(number):
        devices: Mapping[Bus, Mapping[str, object]] = {
            "virtio-blk": {"driver": "virtio-blk-pci"},
            "virtio-scsi": {"driver": "scsi-hd", "bus": "scsi.0", "scsi-id": n % 256, "lun": n // 256},
            "nvme": {"driver": "nvme"},
        }
        command += ["-blockdev", json.dumps({"driver": "null-co", "node-name": f"n{n}"})]
        command += ["-device", json.dumps({**devices[bus], "drive": f"n{n}", "serial": f"s{n}"})]
    quit_ = '{"execute": "qmp_capabilities"}\n{"execute": "quit"}\n'
    done = await asyncio.create_subprocess_exec(
        *WITH_US, str(os.getpid()), *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=tempfile.gettempdir()
    )
    try:
        _, stderr = await asyncio.wait_for(done.communicate(quit_.encode()), _TIMEOUT)
    except TimeoutError:
        return "QEMU did not answer"
    finally:
        if done.returncode is None:
            done.kill()
            await done.wait()
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    return (lines[-1].rpartition("}: ")[2][:200] or "no message") if done.returncode and lines else ""
