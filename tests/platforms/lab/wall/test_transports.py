"""NFS, soft-RoCE, FCoE and LVM for real: built beside each other, read back, loaded with verified data, measured, and
taken apart until nothing of them is left (which the hall looks at)."""

import pytest
from lab_hall import SharedLab

from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.runs.observe import observe
from fairlane.study.schedule import schedule

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hall"), pytest.mark.timeout(3600)]

LANES = {
    "nfs": "{transport: nfs, version: '4.1', nconnect: 2, rsize: 64k, filesystem: ext4}",
    "rdma": "{transport: nvme_rdma, queue_size: 64}",
    "linear": "{transport: lvm, over: {transport: iscsi}}",
    "fcoe": "{transport: fcoe}",
    "striped": "{transport: lvm, over: {transport: nvme_tcp}, stripes: 2, stripe_size: 32k}",
    "thin": "{transport: lvm, over: {transport: iscsi}, thin: true}",
}
EXPECTED = {
    "nfs": {
        "nfs.connections": "2", "nfs.rsize": "65536", "nfs.wsize": "1048576", "nfs.vers": "4.1",
        "target.filesystem": "ext4", "target.file_full": "1", "target.sync": "1",
    },
    "rdma": {"transport": "rdma", "queue_size": "64"},
    "linear": {"lvm.segment": "linear"},
    "fcoe": {"frame": "2112 bytes"},
    "striped": {"lvm.segment": "striped", "lvm.stripes": "2"},
    "thin": {"lvm.segment": "thin", "sessions": "1"},
}  # fmt: skip
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
baseline: nfs
lanes:
  LANES
workloads:
  main: {kind: fio, rw: [randread], runtime: 1s, size: 8m, prefill: false}
"""

VERIFIED = """
fio --name=v --filename=/dev/lane/{name} --ioengine=io_uring --direct=1 --rw=randwrite --bs=16k --iodepth=4 --size=2m \\
  --verify=crc32c --do_verify=1 --verify_state_save=0 --output-format=terse > {name}.out 2>&1
"""


@pytest.mark.slow
@pytest.mark.parametrize("names", [("nfs", "linear"), tuple(LANES)], ids=["some", "all"])
def test_transports_are_built_loaded_and_taken_apart(hall: SharedLab, names: tuple[str, ...]) -> None:
    text = STUDY.replace("LANES", "\n  ".join(f"{name}: {LANES[name]}" for name in names))
    with hall.study(text) as (lab, opened):
        told = opened.description["lanes"]
        assert {name: rows["device.bytes"] for name, rows in told.items()} == dict.fromkeys(names, str(32 * 2**20))
        for name in names:
            assert {key: told[name][key] for key in EXPECTED[name]} == EXPECTED[name]
        hall.runner.run(_load(lab))
        hall.runner.run(_measure(lab))


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
