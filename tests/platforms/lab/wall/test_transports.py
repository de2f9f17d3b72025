"""NFS, soft-RoCE, FCoE and LVM for real: built beside each other, read back, loaded with verified data, measured, and
taken apart until nothing of them is left."""

import asyncio
import shutil
import time
from collections.abc import Sequence

import pytest

from fairlane.platforms.base import Guest
from fairlane.platforms.lab import qemu
from fairlane.platforms.lab.wall import build
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from fairlane.trial.observe import observe

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

STUDY = """
name: transports
platform:
  kind: lab
  clock: wall
  memory: 640m
  accel: tcg
  array: {memory: 768m}
  capabilities: false
  medium: {size: 32m, memory_backed: true}
baseline: fcoe
lanes:
  fcoe: {transport: fcoe}
  nfs: {transport: nfs, version: "4.1", nconnect: 2, rsize: 64k, filesystem: ext4}
  rdma: {transport: nvme_rdma, queue_size: 64}
  linear: {transport: lvm, over: {transport: iscsi}}
  striped: {transport: lvm, over: {transport: nvme_tcp}, stripes: 2, stripe_size: 32k}
  thin: {transport: lvm, over: {transport: iscsi}, thin: true}
workloads:
  main: {kind: fio, rw: [randread], runtime: 1s, size: 8m, prefill: false}
"""

VERIFIED = """
fio --name=v --filename=/dev/lane/{name} --ioengine=io_uring --direct=1 --rw=randwrite --bs=16k --iodepth=4 --size=2m \\
  --verify=crc32c --do_verify=1 --verify_state_save=0 --output-format=terse > {name}.out 2>&1
"""

LEFT = """
find /sys/kernel/config/target /sys/kernel/config/nvmet -mindepth 2 2> /dev/null |
  grep -E 'iblock|/fc/|iscsi/iqn|subsystems/|ports/' || :
grep -E ' nfs|/srv/' /proc/mounts || :
ls /sys/class/fc_host /sys/class/infiniband 2> /dev/null | grep -E '^(host|rxe)' || :
ls /dev/mapper | grep -v control || :
ls -d /sys/class/nvme/nvme* /sys/class/iscsi_session/* /sys/block/sd* 2> /dev/null || :
pidof rpc.mountd rpcbind || :
ls /proc/fs/nfsd 2> /dev/null || :
blkid -p /dev/nullb* 2> /dev/null || :
"""


def test_transports_are_built_loaded_and_taken_apart() -> None:
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    asyncio.run(_all())


async def _all() -> None:
    async with WallLab(parse_study(STUDY, "study.yaml")) as lab:
        assert isinstance(lab, WallLab)
        if found := lab.problems():
            pytest.skip("; ".join(problem.message for problem in found))
        told = (await lab.open(print)).description["lanes"]
        assert {name: rows["device.bytes"] for name, rows in told.items()} == dict.fromkeys(told, str(32 * 2**20))
        assert told["nfs"]["nfs.connections"] == "2"
        assert (told["nfs"]["nfs.rsize"], told["nfs"]["nfs.wsize"]) == ("65536", "1048576")
        assert (told["nfs"]["nfs.vers"], told["nfs"]["target.filesystem"]) == ("4.1", "ext4")
        assert (told["nfs"]["target.file_full"], told["nfs"]["target.sync"]) == ("1", "1")
        assert told["fcoe"]["frame"] == "2112 bytes"
        assert (told["rdma"]["transport"], told["rdma"]["queue_size"]) == ("rdma", "64")
        assert told["linear"]["lvm.segment"] == "linear"
        assert (told["striped"]["lvm.segment"], told["striped"]["lvm.stripes"]) == ("striped", "2")
        assert (told["thin"]["lvm.segment"], told["thin"]["sessions"]) == ("thin", "1")
        await _load(lab)
        await _measure(lab)
        assert lab.array
        await _undo(lab.volumes, lab)
        for machine in (lab.array, *lab.guests):
            assert (left := await _left(machine)) == "", f"{machine.name} has left: {left}"


async def _left(machine: Guest) -> str:
    """What is there after a minute; the kernel and its daemons end some of it in their own time."""
    deadline = time.monotonic() + 60
    while True:
        left = (await machine.ask(f"{{\n{LEFT}}} > left", 300))["left"].decode()
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(1)


async def _load(lab: WallLab) -> None:
    """Random writes, read again and compared, on every lane."""
    text = "".join(VERIFIED.format(name=volume.name) for volume in lab.volumes)
    for name, said in (await lab.guests[0].ask(text, 600)).items():
        fields = said.decode().splitlines()[-1].split(";")
        assert fields[4] == "0", f"{name}: {said.decode()}"  # error of fio, verification included
        assert int(fields[5]) == int(fields[46]) == 2048, f"{name}: KiB read to verify, and written"


async def _measure(lab: WallLab) -> None:
    """One block through the stage: the file in the share is measured as the devices are."""
    block = schedule(lab.study, 1)[0]
    async for trial in lab.run_block(block):
        seen = observe(block, trial.lane, trial.outputs)
        assert not seen.failed, f"{trial.lane}: {seen.failed}"
        assert seen.metrics["iops"] > 0
        assert seen.metrics["cpu_per_io"] > 0, trial.lane
        assert ("disk" in seen.context) == (trial.lane != "nfs"), "a file has no device that counts"


async def _undo(volumes: Sequence[Volume], lab: WallLab) -> None:
    """Every step's ``remove`` in reverse, as whoever sets lanes up on machines that stay would have to."""
    for volume in reversed(volumes):
        for place, steps in reversed(build.rounds(volume.steps())):
            machine: Guest | None = lab.array if place == "target" else lab.guests[volume.guest]
            assert machine
            await machine.ask(build.shell(steps, undo=True), 300)
