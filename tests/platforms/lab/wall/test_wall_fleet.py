"""A fleet of two machines with two disks each, in one lab for all tests: started at one instant, watched everywhere."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_hall import SharedLab

from fairlane.platforms.base import Opened, RawTrial
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.records import Block, Observation
from fairlane.runs.observe import observe
from fairlane.study.schedule import schedule

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hall"), pytest.mark.timeout(3600)]

STUDY = """
name: fleet
platform:
  {kind: lab, clock: wall, accel: tcg, fleet: 2, disks: 2, memory: 384m, array: {memory: 384m}, medium: {size: 64m},
   hugepages: 0, capabilities: false}
baseline: iscsi
lanes: {iscsi: {transport: iscsi}, nvme-tcp: {transport: nvme_tcp}}
workloads: {main: {kind: fio, rw: [randread], bs: [4k], runtime: 2s, prefill: false}}
"""


@dataclass
class Fleet:
    lab: WallLab
    opened: Opened
    runner: asyncio.Runner

    def trials(self, block: Block) -> list[RawTrial]:
        async def carry_out() -> list[RawTrial]:
            return [trial async for trial in self.lab.run_block(block)]

        return self.runner.run(carry_out())

    def block(self, number: int) -> Block:
        return schedule(self.lab.study, number + 1)[number]


@pytest.fixture(scope="module")
def fleet(hall: SharedLab) -> Iterator[Fleet]:
    with hall.study(STUDY) as (lab, opened):
        yield Fleet(lab, opened, hall.runner)


@pytest.fixture(scope="module")
def seen(fleet: Fleet) -> dict[str, tuple[Observation, RawTrial]]:
    """Lane -> one trial of it."""
    block = fleet.block(0)
    return {trial.lane: (observe(block, trial.lane, trial.outputs), trial) for trial in fleet.trials(block)}


@pytest.mark.slow
def test_no_machine_begins_before_the_instant_and_all_tell_when(seen: dict[str, tuple[Observation, RawTrial]]) -> None:
    assert set(seen) == {"iscsi", "nvme-tcp"}
    for observation, trial in seen.values():
        assert not observation.failed
        starts = [json.loads(trial.outputs[f"vm{n}/start.json"]) for n in (0, 1)]
        assert starts[0]["planned"] == starts[1]["planned"]
        for start in starts:
            assert start["opened"] - start["ahead"] >= start["planned"] - 1e-5
            assert 0 < start["within"] < 60
        window, vms = observation.context["window"], observation.context["vms"]
        assert window["skew_ms"] == pytest.approx(abs(vms[0]["start_ms"] - vms[1]["start_ms"]))
        assert 0 <= window["share"] <= 1
        assert trial.load_seconds
        assert trial.load_seconds >= 2


def test_all_disks_of_all_machines_are_loaded_and_counted(seen: dict[str, tuple[Observation, RawTrial]]) -> None:
    for observation, trial in seen.values():
        reports = [json.loads(trial.outputs[f"vm{n}/fio.json"]) for n in (0, 1)]
        jobs = [job for report in reports for job in report["jobs"]]
        assert len(jobs) == 4
        assert all(job["read"]["total_ios"] > 0 for job in jobs)
        ios = sum(job["read"]["total_ios"] for job in jobs)
        assert observation.context["load"]["ios"]["read"] == pytest.approx(ios, abs=4)
        assert observation.context["disk"]["reads"] == pytest.approx(ios, abs=8)  # nothing else reads meanwhile
        assert observation.metrics["iops"] == pytest.approx(sum(vm["iops"] for vm in observation.context["vms"]))


def test_cpu_is_told_of_guest_array_and_hypervisor(seen: dict[str, tuple[Observation, RawTrial]]) -> None:
    for lane, (observation, _) in seen.items():
        metrics, context = observation.metrics, observation.context
        assert all(metrics[f"cpu_per_io{place}"] > 0 for place in ("", "_target", "_hypervisor"))
        assert context["cpu_hypervisor"]["by_place"]["vcpu"] > context["cpu_hypervisor"]["by_place"]["main"]
        served = {"iscsi": "iscsi_trx", "nvme-tcp": "kworker"}[lane]
        assert context["cpu_target"]["by_place"][served] > 0
        assert 0 <= context["system"]["pressure_cpu"] <= 1
        assert context["system_target"]["switches_per_io"] > 0
        assert "path0" in context["system_target"]["nics"]
        assert context["system_hypervisor"]["busy"] > 0


def test_what_watching_costs_was_measured(fleet: Fleet) -> None:
    costs = fleet.opened.description["platform"]["probes"]
    assert set(costs) == {"guest", "array", "host"}
    assert all(cost["cpu_ms"] > 0 and cost["wall_ms"] > 0 for cost in costs.values())


@pytest.mark.slow
def test_a_machine_that_cannot_load_ends_the_trial_with_its_name_and_holds_up_nobody(fleet: Fleet) -> None:
    block = fleet.block(1)
    fleet.runner.run(fleet.lab.guests[1].ask("mount --bind /bin/false /usr/bin/fio"))
    try:
        trials = fleet.trials(block)
    finally:
        fleet.runner.run(fleet.lab.guests[1].ask("umount /usr/bin/fio"))
    told = {trial.lane: observe(block, trial.lane, trial.outputs).failed for trial in trials}
    assert set(told) == {"iscsi", "nvme-tcp"}
    assert all(re.match(r"vm1\b.*\b1\b", reason) for reason in told.values())
    (again,) = [trial for trial in fleet.trials(fleet.block(2)) if trial.lane == "iscsi"]
    assert not observe(fleet.block(2), "iscsi", again.outputs).failed
