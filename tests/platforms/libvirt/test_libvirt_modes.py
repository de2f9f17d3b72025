"""What a hypervisor says of a disk, held against the study."""

from typing import Any

import pytest

from fairlane.platforms.libvirt import definition
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


DOMAIN = """<domain type='kvm'><name>vm1</name><uuid>6a1b</uuid><memory unit='KiB'>8388608</memory>
<currentMemory unit='KiB'>4194304</currentMemory>
<memoryBacking><hugepages><page size='1048576' unit='KiB'/></hugepages></memoryBacking>
<vcpu placement='static'>4</vcpu><iothreads>1</iothreads>
<cputune><vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='3'/><emulatorpin cpuset='0-1'/>
<iothreadpin iothread='1' cpuset='4'/></cputune><numatune><memory mode='strict' nodeset='0'/></numatune>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
<cpu mode='custom' match='exact'><model fallback='forbid'>Skylake-Server</model>
<topology sockets='1' dies='1' cores='2' threads='2'/></cpu></domain>"""


def test_what_a_domain_is() -> None:
    rows = definition.rows(DOMAIN)
    assert rows == {
        "domain.name": "vm1", "domain.uuid": "6a1b", "domain.type": "kvm", "domain.machine": "pc-q35-7.2",
        "domain.cpu": "custom Skylake-Server 1x2x2", "domain.vcpus": "4", "domain.memory": "4g",
        "domain.huge_pages": "1048576 KiB", "domain.numa": "strict 0",
        "domain.pinning": "vcpu 0: 2, vcpu 1: 3, emulator: 0-1, iothread 1: 4",
    }  # fmt: skip
    assert definition.conditions(rows) == {"cpu_pinning": True}


def test_a_domain_of_which_nothing_is_said() -> None:
    rows = definition.rows("<domain/>")
    assert (rows["domain.name"], rows["domain.memory"], rows["domain.pinning"]) == ("?", "?", "none")
    assert definition.conditions(rows) == {"cpu_pinning": "none"}
