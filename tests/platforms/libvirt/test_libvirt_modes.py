"""What a hypervisor says of a disk, held against the study."""

from typing import Any

import pytest

from fairlane.platforms.libvirt.disks import Plug
from fairlane.platforms.libvirt.read_back import differences, of_disk, of_xml
from fairlane.study.guest_device import GuestDevice

SPREAD = Plug("qemu:///system", "vm1", "0123456789", 2, GuestDevice(io_threads=2, queues=2, vq_mapping=True))
BLOCK: dict[str, Any] = {
    "device": "",
    "qdev": f"/machine/peripheral/{SPREAD.alias}/virtio-backend",
    "inserted": {
        **{"drv": "raw", "ro": False, "detect_zeroes": "off", "iops": 0, "bps": 0},
        "cache": {"writeback": True, "direct": True, "no-flush": False},
    },
}
VERSION = {"qemu": {"major": 9, "minor": 2, "micro": 0}}
ANSWERS = {"blocks": [BLOCK], "version": VERSION, "thread": "", "queues": 2, "queue_size": 256, "packed": False}


def xml(inside: str) -> str:
    return f"""
<domain type='kvm'><devices><disk type='file' device='disk'>
  <driver name='qemu' type='raw' cache='none' io='threads'>{inside}</driver>
  <alias name='{SPREAD.alias}'/>
</disk></devices></domain>
"""


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        ("<iothreads><iothread id='1128'/><iothread id='1129'/></iothreads>", []),
        ("", ["libvirt.iothreads is none, expected 1128, 1129"]),  # libvirt before 10.0 leaves it out
    ],
)
def test_queues_are_spread_or_the_run_stops(inside: str, found: list[str]) -> None:
    rows = of_disk(SPREAD, ANSWERS) | of_xml(SPREAD, xml(inside))
    assert rows["qemu.version"] == "9.2.0"
    assert list(differences(SPREAD, rows)) == found


@pytest.mark.parametrize(
    ("cache", "shown"),
    [
        ({"writeback": True, "direct": False, "no-flush": False}, "writeback"),
        ({"writeback": False, "direct": True, "no-flush": False}, "directsync"),
        ({"writeback": False, "direct": False, "no-flush": False}, "writethrough"),
        ({"writeback": True, "direct": False, "no-flush": True}, "unsafe"),
        ({"writeback": True, "direct": True, "no-flush": True}, "direct true, no-flush true, writeback true"),
    ],
)
def test_cache_modes_have_names(cache: dict[str, bool], shown: str) -> None:
    block = {**BLOCK, "inserted": {**BLOCK["inserted"], "cache": cache}}
    rows = of_disk(SPREAD, {**ANSWERS, "blocks": [block]})
    assert rows["qemu.cache"] == shown


def test_a_disk_that_is_not_there() -> None:
    rows = of_disk(SPREAD, {**ANSWERS, "blocks": []}) | of_xml(SPREAD, "<domain><devices/></domain>")
    assert "qemu.format is missing, expected raw" in differences(SPREAD, rows)
