"""Disks of a guest as QEMU's ``-object``, ``-blockdev`` and ``-device``: pure, from lanes and their volumes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlane.platforms.lab.wall.layout import Volume
from fairlane.study.device import GuestDevice

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Parts:
    """What one guest's disks add to its command line."""

    objects: tuple[Json, ...] = ()
    blockdevs: tuple[Json, ...] = ()
    devices: tuple[Json, ...] = ()


def parts(volumes: Iterable[Volume]) -> Parts:
    """The disks of ``volumes`` (of one guest, each ``emulated``)."""
    blockdevs: list[Json] = []
    devices: list[Json] = []
    for volume in volumes:
        device = volume.spec.device or GuestDevice()
        node = f"v{volume.site.index}"
        backend = dict(volume.transport.backend(volume.name, volume.spec, volume.site))
        blockdevs.append({**backend, "node-name": node, "cache": {"direct": device.cache == "none"}})
        devices.append(
            {"driver": "virtio-blk-pci", "drive": node, "id": f"d{volume.site.index}", "serial": volume.serial}
        )
    return Parts((), tuple(blockdevs), tuple(devices))


def files(volumes: Iterable[Volume]) -> Parts:
    """The array's disks for volumes whose media are files ``mediumN`` in the folder of the run, beside its own."""
    blockdevs: list[Json] = []
    devices: list[Json] = []
    for volume in volumes:
        node = f"m{volume.site.index}"
        name = f"../medium{volume.site.index}"
        blockdevs.append({"driver": "file", "filename": name, "node-name": node, "aio": "threads"})
        devices.append({"driver": "virtio-blk-pci", "drive": node, "serial": volume.medium_serial})
    return Parts((), tuple(blockdevs), tuple(devices))


def find(volume: Volume) -> str:
    """Shell that prints the guest's block device of ``volume``, found by its serial."""
    return (
        "for s in /sys/block/*/serial /sys/block/*/device/serial; do [ -e $s ] || continue; "
        f'[ "$(tr -d " \\0" < $s)" = {volume.serial} ] || continue; '
        "s=${s#/sys/block/}; echo /dev/${s%%/*}; done; true"
    )
