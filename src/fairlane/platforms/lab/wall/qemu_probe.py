"""Probe what this machine's QEMU and kernel support for guest devices, rather than infer it from versions."""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fairlane.errors import FairlaneError, because
from fairlane.platforms.lab import qemu
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import command, disks
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.study.guest_device import GuestDevice

_PATIENCE = 60
_DEVICES = {"virtio-blk": "virtio-blk-pci", "virtio-scsi": "virtio-scsi-pci"}
_PROBED = 1 << 20


@cache
def query(questions: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    """QEMU's answers to QMP commands (JSON), from a QEMU without a machine in a folder with the file ``probe``.

    Raises FairlaneError if it does not run."""
    command = [qemu.BINARY, "-M", "none", "-accel", "tcg", "-nodefaults", "-no-user-config", "-display", "none",
               "-qmp", "stdio"]  # fmt: skip
    words = ['{"execute": "qmp_capabilities"}', *questions, '{"execute": "quit"}']
    with tempfile.TemporaryDirectory(prefix="fairlane-") as folder:
        (Path(folder) / "probe").write_bytes(bytes(_PROBED))
        try:
            done = subprocess.run(
                command,
                input="\n".join(words),
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                cwd=folder,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FairlaneError("qemu-silent", f"{qemu.BINARY} does not answer: {error}") from error
    messages = [json.loads(message) for message in done.stdout.splitlines() if message.startswith("{")]
    answers = tuple(message for message in messages if "return" in message or "error" in message)
    if len(answers) < len(questions) + 1:
        raise FairlaneError("qemu-silent", f"{qemu.BINARY} does not answer{because(done.stderr.strip()[-300:])}")
    return answers[1 : len(questions) + 1]


def _ask(command: str, **arguments: Any) -> Mapping[str, Any]:
    return query((json.dumps({"execute": command, "arguments": arguments}),))[0]


def opens(device: GuestDevice) -> str:
    """Why QEMU cannot open a file in the scratch folder with these settings (by trying); empty: it can."""
    node = {"driver": "file", "filename": "probe", "node-name": "probe", "aio": device.aio}
    answer = _ask("blockdev-add", **node, cache={"direct": device.flags.direct, "no-flush": device.flags.no_flush})
    return str(answer["error"]["desc"]) if "error" in answer else ""


def maps_queues(bus: str) -> bool:
    """Whether the device of ``bus`` has iothread-vq-mapping."""
    properties = _ask("device-list-properties", typename=_DEVICES[bus]).get("return", [])
    return any(item["name"] == "iothread-vq-mapping" for item in properties)


def has_driver(node: Mapping[str, str]) -> bool:
    """Whether QEMU has the block driver of ``node`` (``Transport.driver``), which may be a module of its own (Debian:
    qemu-block-extra): tries to open a node with all its required options, and an unusable target."""
    answer = _ask("blockdev-add", **node, **{"node-name": "probe"})
    return "nknown driver" not in str(answer.get("error", {}).get("desc", ""))


def lacks_module(name: str) -> bool:
    """Whether this machine's kernel neither has the module nor can load it."""
    if Path("/sys/module", name).exists():
        return False
    try:
        done = subprocess.run(["modprobe", "-n", "-q", name], capture_output=True, check=False, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return True
    return done.returncode != 0


def problems(lanes: Mapping[str, Sequence[Volume]], spec: LabSpec) -> list[FairlaneError]:
    """Guest devices of ``lanes`` that cannot be built; checked before anything is created."""
    problems: list[FairlaneError] = []
    guests: dict[int, list[Volume]] = {}
    for lane, volumes in lanes.items():
        if not volumes[0].emulated:
            continue
        device = disks.device(volumes[0])
        wrong = [*_shape(device, spec), *_possible(device, spec, volumes[0])]
        problems += [
            FairlaneError("qemu-device", text, where=f"lanes.{lane}.{key}", hint=hint) for key, text, hint in wrong
        ]
        for volume in volumes:
            guests.setdefault(volume.guest, []).append(volume)
    wanted = max((disks.functions(volumes) for volumes in guests.values()), default=0)
    room = command.FUNCTIONS - spec.paths
    if wanted > room:
        problems.append(
            FairlaneError(
                "pci-slots",
                f"a guest needs {wanted} PCI functions for its disks, but has only {room}",
                where="platform.disks",
                hint="use fewer disks or lanes; virtio-scsi takes one function per controller, not per disk",
            )
        )
    return problems


_Wrong = tuple[str, str, str]
"""Key of the lane, problem, hint."""


def _shape(device: GuestDevice, spec: LabSpec) -> Iterable[_Wrong]:
    """Threads, queues and controllers that would be unused: a lane's name must describe it."""
    if device.queues > spec.cpus:
        yield (
            "device.queues",
            f"{device.queues} queues, but the guest has {spec.cpus} CPU{'s' * (spec.cpus > 1)}, "
            "and its kernel makes at most one queue per CPU",
            f"set platform.cpus: {device.queues}, or fewer queues",
        )
    dealt, unit = spec.disks, "disk"
    if device.bus == "virtio-scsi":
        dealt, unit = device.controllers, "controller"
        if device.controllers > spec.disks:
            yield (
                "device.controllers",
                f"{device.controllers} controllers, but platform.disks is {spec.disks}; the rest would be empty",
                f"set platform.disks: {device.controllers}, or fewer controllers",
            )
        if device.io_threads == "per-disk" and device.controllers != spec.disks:
            yield (
                "device.io_threads",
                f"virtio-scsi has one IO thread per controller: device.controllers is {device.controllers}, but "
                f"platform.disks is {spec.disks}",
                f"set device.controllers: {spec.disks}",
            )
    if not device.vq_mapping and isinstance(device.io_threads, int) and device.io_threads > dealt:
        yield (
            "device.io_threads",
            f"{device.io_threads} IO threads for {dealt} {unit}{'s' * (dealt > 1)}: the rest would idle",
            f"set device.controllers: {device.io_threads}, or fewer IO threads"
            if device.bus == "virtio-scsi"
            else f"set platform.disks: {device.io_threads}, or fewer IO threads",
        )


def _possible(device: GuestDevice, spec: LabSpec, volume: Volume) -> Iterable[_Wrong]:
    """Settings that this machine's QEMU or kernel does not support."""
    if device.vq_mapping and not maps_queues(device.bus):
        yield (
            "device.vq_mapping",
            f"QEMU {qemu.version()} has no iothread-vq-mapping for {device.bus}",
            "virtio-blk has it from QEMU 9.0, virtio-scsi from 10.0; otherwise remove vq_mapping",
        )
    own = volume.transport.backing == "machine"
    if device.preallocation and not (own and spec.medium.file):
        yield (
            "device.preallocation",
            "preallocation needs a file on this machine, and this lane has none",
            "set platform.medium.file: true with transport: local, or remove preallocation",
        )
    if device.format != "raw" and not (own and spec.medium.file):
        yield (
            "device.format",
            f"format {device.format} needs a file on this machine, and this lane has none",
            "set platform.medium.file: true with transport: local, or format: raw",
        )
    if lacking := [module for module in volume.transport.host_modules if lacks_module(module)]:
        yield (
            "initiator",
            f"QEMU has no initiator for {volume.spec.transport}, and this machine's kernel has no module {lacking[0]}",
            "set initiator: guest, or run on a kernel with that module",
        )
    needed = {} if volume.needs_ceph else volume.transport.driver  # ceph.problems reports those of a cluster
    if needed and not has_driver(needed):
        alternative = ", or set initiator: guest" if "guest" in type(volume.spec).initiators else ""
        yield (
            "initiator",
            f"this QEMU has no driver {needed['driver']}, which {volume.spec.transport} needs",
            f"install qemu-block-extra{alternative}",
        )
    if own and spec.medium.file and (reason := opens(device)):
        yield ("device.aio", f"QEMU cannot open files here with aio {device.aio}, cache {device.cache}: {reason}",
               "set TMPDIR to a folder on another file system, or set another aio or cache")  # fmt: skip
