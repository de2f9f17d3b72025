"""Guest devices for real: every bus, IO threads, formats; each disk is the file that it should be. And the hypervisor's
own initiator."""

import asyncio
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import RunFailed
from fairlane.platforms.base import Opened
from fairlane.platforms.lab import qemu
from fairlane.platforms.lab.wall import disks, hypervisor, pinning
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.study.load import parse_study

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

BUSES = """
name: buses
platform:
  {kind: lab, clock: wall, cpus: 2, memory: 512m, disks: 3, accel: tcg, capabilities: false,
   medium: {size: 64m, file: true}}
baseline: blk
lanes:
  blk: {transport: local, device: {bus: virtio-blk, io_threads: per-disk, queues: 2, aio: io_uring}}
  blk-qcow2: {transport: local, device: {bus: virtio-blk, io_threads: 2, aio: native, format: qcow2}}
  scsi: {transport: local, device: {bus: virtio-scsi, controllers: 2, io_threads: 1, queues: 2, cache: writeback}}
  nvme: {transport: local, device: {bus: nvme, queues: 2}}
workloads:
  main: {kind: fio, runtime: 1s, prefill: false}
"""

QEMUS = """
name: qemus
platform:
  {kind: lab, clock: wall, memory: 512m, accel: tcg, capabilities: false, pinning: true, array: {memory: 512m},
   medium: {size: 64m}}
baseline: inside
lanes:
  inside: {transport: iscsi}
  outside: {transport: iscsi, initiator: hypervisor, chap: true, header_digest: true}
workloads:
  main: {kind: fio, runtime: 1s, prefill: false}
"""


def the_lab(text: str) -> WallLab:
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    lab = WallLab(parse_study(text, "study.yaml"))
    if found := lab.problems():
        pytest.skip("; ".join(problem.message for problem in found))
    return lab


def lanes(opened: Opened) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = opened.description["lanes"]
    return found


def content(volume: Volume) -> bytes:
    """The first bytes of the volume's file, whatever its format; QEMU has it open."""
    command = ["qemu-img", "dd", "-U", "-f", disks.device(volume).format, "-O", "raw", "bs=512", "count=1"]
    out = Path(volume.site.medium).with_suffix(".head")
    subprocess.run([*command, f"if={volume.site.medium}", f"of={out}"], check=True)
    return out.read_bytes()


def test_every_disk_is_the_one_that_it_should_be() -> None:
    asyncio.run(_every_disk())


async def _every_disk() -> None:
    async with the_lab(BUSES) as lab:
        told = lanes(await lab.open(print))
        assert isinstance(lab, WallLab)
        assert [told[name]["device.bus"] for name in told] == ["virtio-blk", "virtio-blk", "virtio-scsi", "nvme"]
        assert [told[name]["device.queues"] for name in told] == ["2", "1", "2", "2"]
        assert told["blk"]["qemu.io_threads"] == "io.blk.0 io.blk.1 io.blk.2"
        assert told["blk-qcow2"]["qemu.format"] == "qcow2"
        assert told["scsi"]["qemu.cache"] == "writeback"
        assert told["nvme"]["qemu.io_thread"] == "none"
        threads = {volume.name: (await hypervisor.told(lab.vms[0], volume)).rows for volume in lab.volumes}
        assert [threads[f"blk-qcow2-0-{n}"]["qemu.io_thread"].rpartition(".")[2] for n in range(3)] == ["0", "1", "0"]
        write = "".join(
            f"printf '%-512s' {v.name} | dd of=/dev/lane/{v.name} bs=512 oflag=direct conv=fsync 2> /dev/null\n"
            for v in lab.volumes
        )
        await lab.guests[0].ask(write, 120)
        assert len(lab.volumes) == 12
        for volume in lab.volumes:
            assert content(volume).decode().strip() == volume.name
        await _not_as_asked(lab)


async def _not_as_asked(lab: WallLab) -> None:
    """What QEMU really has is held against the lane: a lane that asks for something else is found out."""
    volume = lab.lanes["scsi"][0]
    asked = disks.device(volume).model_copy(update={"cache": "none", "format": "qcow2", "io_threads": 0})
    other = volume.spec.model_copy(update={"device": asked})
    with pytest.raises(
        RunFailed, match=r"(?s)format is raw.*cache is writeback.*io_thread is io\.scsi\.0, expected none"
    ):
        await hypervisor.told(lab.vms[0], Volume(**{**vars(volume), "spec": other}))


def test_the_hypervisors_initiator_reads_what_the_guests_writes() -> None:
    asyncio.run(_initiators())


async def _initiators() -> None:
    async with the_lab(QEMUS) as lab:
        opened = await lab.open(print)
        assert isinstance(lab, WallLab)
        assert lab.array_vm
        outside = lanes(opened)["outside"]
        assert outside["qemu.backend"] == "iscsi"
        assert outside["target.authentication"] == "1"
        assert outside["conditions"]["aio"] == "none"
        secret = lab.lanes["outside"][0].site.secret
        command = Path(f"/proc/{lab.vms[0].process.pid}/cmdline").read_bytes().decode()
        assert secret not in command
        assert secret not in str(opened.description)
        file = next(lab.vms[0].folder.parent.glob("secret*"))
        assert file.stat().st_mode & 0o777 == 0o600
        sessions = "cat /sys/kernel/config/target/iscsi/*outside/tpgt_1/dynamic_sessions > told"
        assert "hypervisor-1" in (await lab.array.ask(sessions))["told"].decode() if lab.array else ""
        await lab.guests[0].ask("dd if=/dev/lane/outside of=/dev/null bs=64k count=16 iflag=direct 2> /dev/null", 120)
        pinned = opened.description["platform"]["pinning"]
        cores = [cores for machine in pinned.values() for name, cores in machine.items() if name != pinning.REST]
        assert len(set(cores)) == len(cores) == 2
