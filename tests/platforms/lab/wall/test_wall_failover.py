"""A path dies under verified load, for real: NVMe/TCP with ANA and iSCSI with dm-multipath, one short trial each; the
link is back whatever happens, and a load that hangs ends as a failed trial on machines that are built anew."""

import asyncio
import re
from dataclasses import replace

import pytest
from lab_hall import SharedLab, wait_for_room

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.platforms.base import RawTrial
from fairlane.platforms.lab.wall.lab import LabStage, WallLab
from fairlane.records import Block, Observation
from fairlane.runs.observe import observe
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from fairlane.workloads import failover
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hall"), pytest.mark.timeout(3600)]

STUDY = """
name: failover-test
platform:
  kind: lab
  clock: wall
  accel: tcg
  paths: 2
  capabilities: false
  memory: 512m
  array: {memory: 512m}
  medium: {size: 16m, memory_backed: true}
baseline: iscsi
lanes:
  iscsi: {transport: iscsi, multipath: {noop_interval: 1s, noop_timeout: 1s, replacement_timeout: 2s}}
  nvme-tcp: {transport: nvme_tcp, multipath: {keep_alive: 2s}}
workloads:
  main: {kind: failover, size: 4m, before: 3s, outage: 4s, after: 6s, settle: 1s}
design: {looks: [2]}
"""


async def carried_out(lab: WallLab, block: Block) -> dict[str, RawTrial]:
    return {trial.lane: trial async for trial in lab.run_block(block)}


async def carrier(lab: WallLab) -> list[str]:
    """Of path 0, at the guest and at the array."""
    guests = [lab.guests[0], lab.array]
    found = [await guest.ask("cat /sys/class/net/path0/carrier > carrier") for guest in guests if guest]
    return [files["carrier"].decode().strip() for files in found]


def seen(block: Block, trial: RawTrial) -> Observation:
    return observe(block, trial.lane, trial.outputs)


@pytest.mark.slow
def test_a_path_dies_and_comes_back_with_every_block_right(hall: SharedLab) -> None:
    with hall.study(STUDY) as (lab, _):
        block = schedule(lab.study, 2)[0]
        trials = hall.runner.run(carried_out(lab, block))
        assert set(trials) == {"iscsi", "nvme-tcp"}
        for trial in trials.values():
            found = seen(block, trial)
            assert not found.failed
            data, fault = found.context["data"], found.context["fault"]
            assert data["wrong_blocks"] == data["io_errors"] == 0
            assert data["written"] > 0
            assert data["checked"] == 4 * 2**20 // 65536
            assert found.metrics["stall"] > 0
            assert 0 < fault["begins_ms"] < fault["ends_ms"]
            assert fault["ends_ms"] - fault["begins_ms"] >= 3900
            told = fault["carried"]["path0"]
            assert told["before"] > 0
            assert told["during"] < 0.05 * told["before"]  # it was path 0 that died
        assert hall.runner.run(carrier(lab)) == ["1", "1"]
        with pytest.raises(RunFailed, match=r"\b7\b", check=kind("path-unknown")):
            hall.runner.run(LabStage(lab, block, "iscsi").fault("link", 7, on=True))


async def interrupted_and_hung(lab: WallLab, monkeypatch: pytest.MonkeyPatch) -> None:
    block, other = schedule(lab.study, 2)
    # interrupted while the path is gone: it comes back first
    stage = LabStage(lab, block, "nvme-tcp")
    workload = registry.load("workloads", "failover")
    long = replace(block.cell, params={**block.cell.params, "outage": 600 * 10**9})
    drive = asyncio.ensure_future(workload.drive(long, stage.devices, block.seed, stage))
    while not drive.done() and await carrier(lab) != ["0", "0"]:
        await asyncio.sleep(0.5)
    drive.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drive
    assert await carrier(lab) == ["1", "1"]
    lab.broken("nvme-tcp", "a load was left running in the guest")

    # a load that does not end: the trial fails with its reason, the block goes on, on machines built anew
    monkeypatch.setattr(failover, "_PATIENCE", 0.0)
    monkeypatch.setattr(failover.PLUGIN, "_script", lambda *_, **__: "sleep 3600")
    short = replace(other, order=("iscsi",))
    hung = seen(short, (await carried_out(lab, short))["iscsi"])
    assert re.search(r"\b0 s\b", hung.failed), "the load's patience is over"
    first = lab.vms[0].process.pid
    monkeypatch.undo()
    again = seen(short, (await carried_out(lab, short))["iscsi"])
    assert not again.failed
    assert lab.vms[0].process.pid != first


@pytest.mark.slow
def test_a_load_that_is_interrupted_or_hangs_leaves_its_path_as_it_was(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = WallLab(parse_study(STUDY, "study.yaml"))
    wait_for_room(lab)

    async def whole() -> None:
        try:
            await lab.open(print)
            await interrupted_and_hung(lab, monkeypatch)
        finally:
            await lab.close()

    runner.run(whole())
