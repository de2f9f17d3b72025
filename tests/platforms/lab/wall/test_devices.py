"""Guest devices for real: every bus, IO threads, formats; each disk is the file that it should be. And the hypervisor's
own initiator."""

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from lab_hall import SharedLab, wait_for_room

from fairlane.errors import RunFailed
from fairlane.platforms.lab.wall import disks, hypervisor, pinning
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.study.load import parse_study
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hall"), pytest.mark.timeout(3600)]

BUSES = ("blk", "blk-qcow2", "scsi", "nvme")
"""Lanes of the hall, one for each way to give a guest a disk."""

PINNED = """
name: pinned
platform:
  {kind: lab, clock: wall, memory: 512m, accel: tcg, capabilities: false, pinning: true, array: {memory: 512m},
   medium: {size: 64m}}
baseline: inside
lanes:
  inside: {transport: iscsi}
  outside: {transport: iscsi, initiator: hypervisor}
workloads:
  main: {kind: fio, runtime: 1s, prefill: false}
"""


def content(volume: Volume) -> bytes:
    """The first bytes of the volume's file, whatever its format; QEMU has it open."""
    command = ["qemu-img", "dd", "-U", "-f", disks.device(volume).format, "-O", "raw", "bs=512", "count=1"]
    out = Path(volume.site.medium).with_suffix(".head")
    subprocess.run([*command, f"if={volume.site.medium}", f"of={out}"], check=True)
    return out.read_bytes()


@pytest.mark.slow
def test_every_disk_is_the_one_that_it_should_be(hall: SharedLab) -> None:
    lab, told = hall.hall, hall.opened.description["lanes"]
    of_the_guest = [v for v in lab.volumes if v.lane in BUSES]
    assert len(of_the_guest) == 12
    assert [told[name]["device.bus"] for name in BUSES] == ["virtio-blk", "virtio-blk", "virtio-scsi", "nvme"]
    assert [told[name]["device.queues"] for name in BUSES] == ["2", "1", "2", "2"]
    assert told["blk"]["qemu.io_threads"] == "io.blk.0 io.blk.1 io.blk.2"
    assert told["blk-qcow2"]["qemu.format"] == "qcow2"
    assert told["scsi"]["qemu.cache"] == "writeback"
    options = ("qemu.cluster_size", "qemu.queue_size", "qemu.packed", "qemu.detect_zeroes", "device.write_cache")
    assert [told["blk-qcow2"][row] for row in options] == ["262144", "64", "true", "on", "write through"]
    assert (told["nvme"]["qemu.limits"], told["nvme"]["qemu.cache"]) == ("iops-total 50000", "no-flush, writeback")
    assert told["nvme"]["qemu.io_thread"] == "none"
    with hall.left_as_it_was("the test of guest devices"):
        hall.runner.run(_every_disk(lab, of_the_guest))


async def _every_disk(lab: WallLab, volumes: Sequence[Volume]) -> None:
    threads = {v.name: (await hypervisor.disk_state(lab.vms[0], v)).rows for v in volumes}
    assert [threads[f"blk-qcow2-0-{n}"]["qemu.io_thread"].rpartition(".")[2] for n in range(3)] == ["0", "1", "0"]
    write = "".join(
        f"printf '%-512s' {v.name} | dd of=/dev/lane/{v.name} bs=512 oflag=direct conv=fsync 2> /dev/null\n"
        for v in volumes
    )
    await lab.guests[0].ask(write, 120)
    for volume in volumes:
        assert content(volume).decode().strip() == volume.name
    await _not_as_asked(lab)


async def _not_as_asked(lab: WallLab) -> None:
    """What QEMU really has is held against the lane: a lane that asks for something else is found out."""
    volume = lab.lanes["scsi"][0]
    asked = disks.device(volume).model_copy(update={"cache": "none", "format": "qcow2", "io_threads": 0})
    other = volume.spec.model_copy(update={"device": asked})
    held = r"(?s)format\b.*\braw\b.*cache\b.*\bwriteback\b.*io_thread\b.*\bio\.scsi\.0\b.*\bnone\b"
    with pytest.raises(RunFailed, match=held, check=kind("lane-state")):
        await hypervisor.disk_state(lab.vms[0], replace(volume, transport=replace(volume.transport, spec=other)))


def test_the_hypervisors_initiator_reads_what_the_guests_writes(hall: SharedLab) -> None:
    outside = hall.opened.description["lanes"]["outside"]
    assert outside["qemu.backend"] == "iscsi"
    assert outside["target.authentication"] == "1"
    assert outside["conditions"]["aio"] == "none"
    hall.runner.run(_initiators(hall.hall, str(hall.opened.description)))


async def _initiators(lab: WallLab, described: str) -> None:
    assert lab.array
    volume = lab.lanes["outside"][0]
    command = Path(f"/proc/{lab.vms[0].process.pid}/cmdline").read_bytes().decode()
    assert volume.site.secret not in command
    assert volume.site.secret not in described
    files = {file.read_text(): file for file in lab.vms[0].folder.parent.glob("secret*")}
    assert files[volume.site.secret].stat().st_mode & 0o777 == 0o600
    sessions = f"cat /sys/kernel/config/target/iscsi/*{volume.name}/tpgt_1/dynamic_sessions > told"
    assert f"hypervisor-{volume.site.index}" in (await lab.array.ask(sessions))["told"].decode()
    text = "here are forty-two bytes of this one volume"
    written = f"printf '%-4096s' '{text}' | dd of=/dev/lane/{volume.name} bs=4096 oflag=direct conv=fsync 2> /dev/null"
    await lab.guests[0].ask(written, 120)
    behind = Path(lab.vms[0].folder.parent) / f"medium{volume.site.index}"  # the array's disk is this file
    with behind.open("rb") as file:
        assert file.read(4096).decode().strip() == text


@pytest.mark.slow
def test_processors_are_pinned_to_cores_of_their_own(runner: asyncio.Runner) -> None:
    lab = WallLab(parse_study(PINNED, "study.yaml"))
    wait_for_room(lab)

    async def pinned() -> Mapping[str, Mapping[str, str]]:
        async with lab:
            found: Mapping[str, Mapping[str, str]] = (await lab.open(print)).description["platform"]["pinning"]
            return found

    machines = runner.run(pinned())
    cores = [cores for machine in machines.values() for name, cores in machine.items() if name != pinning.REST]
    assert len(set(cores)) == len(cores) == 2
