import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from pydantic import ValidationError

from fairlane.errors import FairlaneError
from fairlane.metrics import METRICS
from fairlane.records import Block, Cell
from fairlane.runs.observe import observe
from fairlane.workloads.base import Garbage, Stage
from fairlane.workloads.clone import PLUGIN, CloneSpec, stragglers
from tests.words import kind


def spec(**changes: Any) -> CloneSpec:
    return CloneSpec.model_validate({"kind": "clone"} | changes)


def cell(count: int) -> Cell:
    (only,) = spec(counts=[count]).cells("storm")
    return only


def outputs(*vms: Mapping[str, Any]) -> dict[str, bytes]:
    return {"clones.json": json.dumps({"vms": vms}).encode(), "status": b"0\n"}


def machine(created: float, booted: float, answered: float, name: str = "clone0") -> dict[str, Any]:
    return {"name": name, "created": created, "booted": booted, "answered": answered}


def test_each_count_is_a_cell_once() -> None:
    cells = spec(counts=[1, 5, 2, 5]).cells("storm")
    assert [c.name for c in cells] == ["1 VM", "5 VMs", "2 VMs"]
    assert [c.key for c in cells] == ["storm.1-VM", "storm.5-VMs", "storm.2-VMs"]
    assert [spec().known(c)["fleet"] for c in cells] == [1, 5, 2]


@pytest.mark.parametrize(
    "wrong", [{"counts": []}, {"counts": [0]}, {"counts": [1001]}, {"data": "1000"}, {"data": "0"}]
)
def test_what_makes_no_storm_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(**wrong)


def test_times_are_means_over_machines_and_the_job_ends_with_the_last() -> None:
    figures = PLUGIN.observe(cell(2), outputs(machine(0.5, 3.0, 4.0), machine(1.5, 4.0, 6.0, "clone1")))
    assert figures.metrics == {
        "vm_created_mean": 1.0e9, "vm_booted_mean": 3.5e9, "vm_ready_mean": 5.0e9, "job_time": 6.0e9,
    }  # fmt: skip
    assert figures.metrics.keys() <= METRICS.keys()
    assert figures.context["vms"] == [
        {"name": "clone0", "created_ms": 500.0, "booted_ms": 3000.0, "answered_ms": 4000.0},
        {"name": "clone1", "created_ms": 1500.0, "booted_ms": 4000.0, "answered_ms": 6000.0},
    ]


@pytest.mark.parametrize(("count", "told"), [(19, ()), (20, ("p50",)), (199, ("p50",)), (200, ("p50", "p95"))])
def test_percentiles_are_told_with_ten_machines_beyond_them(count: int, told: Sequence[str]) -> None:
    vms = [machine(0.1, 0.2, 1.0 + number, f"clone{number}") for number in range(count)]
    metrics = PLUGIN.observe(cell(count), outputs(*vms)).metrics
    assert {name for name in metrics if name.startswith("vm_ready_p")} == {f"vm_ready_{p}" for p in told}
    if told:
        assert metrics["vm_ready_p50"] == (count + 1) // 2 * 1e9  # nearest rank


NO_STORMS = [
    ({}, "output-damaged"),
    ({"clones.json": b"{}"}, "output-damaged"),
    ({"clones.json": b'{"vms": 3}'}, "output-damaged"),
    (outputs(), "machines-missing"),
    (outputs({"name": "clone0", "created": 1.0, "booted": 2.0}), "times-missing"),
    (outputs(machine(1.0, True, 3.0)), "times-missing"),
    (outputs(machine(2.0, 1.0, 3.0)), "times-order"),
    (outputs(machine(0.0, 1.0, 3.0)), "times-order"),
    (outputs(machine(1.0, 2.0, float("inf"))), "times-order"),
    (outputs(machine(1.0, float("nan"), 3.0)), "times-order"),
]
"""Outputs and the kind of the error."""


@pytest.mark.parametrize(("data", "reason"), NO_STORMS)
def test_what_is_no_storm_is_garbage(data: dict[str, bytes], reason: str) -> None:
    with pytest.raises(Garbage, check=kind(reason)):
        PLUGIN.observe(cell(1), data)


class Recorder:
    """The one part of a stage that a storm uses."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        return [{"created": 1.0, "booted": 2.0, "answered": 3.0 + number} for number in range(count)]

    def keep(self, name: str, data: bytes) -> None:
        self.kept[name] = data


def test_what_a_trial_leaves_is_what_is_read_again() -> None:
    stage = Recorder()
    asyncio.run(PLUGIN.drive(cell(3), lambda _: (), 1, cast(Stage, stage)))
    assert stage.kept["status"] == b"0\n"
    figures = PLUGIN.observe(cell(3), stage.kept)
    assert figures.metrics["job_time"] == 5.0e9
    assert [vm["name"] for vm in figures.context["vms"]] == ["clone0", "clone1", "clone2"]


def storm(**changes: Any) -> bytes:
    told = {
        "strategy": "csi-clone", "used": ["csi-clone"], "warnings": {"clone5": ["FailedMount: busy"]}, "gaps": [[1, 2]],
        "rates": {"qps": 50, "burst": 100, "waited": 1.5, "requests": {"create virtualmachines": 6, "list events": 1},
                  "retried": {"429": 2}},
        "removal": {"objects": 3.0, "volumes": None},
    }  # fmt: skip
    return json.dumps(told | changes).encode()


def clustered(number: int, answered: float, **more: Any) -> dict[str, Any]:
    phases = {"bound": 1.0, "scheduled": 1.5, "running": 2.0 + number, "answers": 3.0, "first_io": answered}
    return machine(1.0, 3.0, answered, f"clone{number}") | {"phases": phases, "node": "worker-1"} | more


def test_a_cluster_tells_phases_strategy_rates_and_who_straggled() -> None:
    vms = [clustered(n, 10.0 if n < 5 else 60.0) for n in range(6)]
    figures = PLUGIN.observe(cell(6), outputs(*vms) | {"storm.json": storm()})
    assert figures.metrics["vm_scheduled_mean"] == 1.5e9
    assert figures.metrics["vm_running_mean"] == 4.5e9
    assert figures.metrics.keys() <= METRICS.keys()
    assert figures.context["vms"][0]["phases_ms"]["running"] == 2000.0
    assert figures.context["vms"][0]["node"] == "worker-1"
    told = figures.context["storm"]
    assert told["stragglers"] == [{"name": "clone5", "answered_ms": 60000.0, "warnings": ["FailedMount: busy"]}]
    assert (told["requests"], told["retried"], told["gaps"]) == (7, 2, 1)
    assert told["rates"] == {"qps": 50, "burst": 100, "waited": 1.5}
    assert told["removal"] == {"objects": 3.0}  # nobody could see the volumes go


def test_a_phase_that_one_machine_does_not_tell_has_no_mean() -> None:
    vms = [clustered(0, 10.0), clustered(1, 10.0, phases={"scheduled": 1.0})]
    metrics = PLUGIN.observe(cell(2), outputs(*vms)).metrics
    assert "vm_running_mean" not in metrics
    assert metrics["vm_scheduled_mean"] == 1.25e9


def test_figures_are_no_more_exact_than_the_attempts_to_reach_a_machine() -> None:
    """Half a second of 2 s is known of one machine's boot, of the other all; the job ends with the second."""
    vms = [clustered(0, 4.0, within={"answers": 0.5, "first_io": 0.6}), clustered(1, 5.0, within={"first_io": 1.0})]
    steps = PLUGIN.observe(cell(2), outputs(*vms)).steps
    assert steps == {
        "vm_booted_mean": pytest.approx(0.25 / 3.0),
        "vm_ready_mean": pytest.approx(0.8 / 4.5),
        "job_time": pytest.approx(1.0 / 5.0),
    }
    assert not PLUGIN.observe(cell(1), outputs(machine(1.0, 2.0, 3.0))).steps


@pytest.mark.parametrize(
    ("times", "slow"),
    [
        ([10, 10, 10, 60], []),  # of four nobody can say
        ([10, 10, 10, 10, 60], [4]),
        ([10, 10, 10, 10, 14], []),  # outside the fence, and not half as long again
        ([10, 20, 30, 40, 60], []),  # they are all over the place
        ([70, 10, 11, 10, 9, 10, 12, 90, 10, 11, 10, 9], [7, 0]),
    ],
)
def test_a_straggler_is_far_out_and_half_as_long_again(times: Sequence[float], slow: Sequence[int]) -> None:
    assert stragglers({f"vm{n}": float(t) for n, t in enumerate(times)}) == [f"vm{n}" for n in slow]


@pytest.mark.parametrize("data", [b"{", b"[]", b"3"])
def test_a_record_that_is_none_is_garbage(data: bytes) -> None:
    with pytest.raises(Garbage, check=kind("output-damaged")):
        PLUGIN.observe(cell(1), outputs(machine(1.0, 2.0, 3.0)) | {"storm.json": data})


@pytest.mark.parametrize(
    "wrong", [{"rates": 3}, {"rates": {"requests": [1]}}, {"warnings": []}, {"used": "x"}, {"removal": 1}, {"gaps": 0}]
)
def test_what_a_record_tells_wrongly_is_left_out(wrong: dict[str, Any]) -> None:
    assert PLUGIN.observe(cell(1), outputs(machine(1.0, 2.0, 3.0)) | {"storm.json": storm(**wrong)}).context["storm"]


def test_a_storm_with_failures_is_a_failed_trial_with_its_evidence() -> None:
    class Lossy(Recorder):
        async def clones(self, count: int) -> Sequence[Mapping[str, Any]]:
            return [
                {"name": f"a--x-{n}", "failed": f"its DataVolume a--x-{n}-root was deleted", "last": "bound"}
                if n % 2
                else machine(1.0, 2.0, 3.0, f"a--x-{n}")
                for n in range(count)
            ]

    stage = Lossy()
    asyncio.run(PLUGIN.drive(cell(5), lambda _: (), 1, cast(Stage, stage)))
    observation = observe(Block(cell(5), 0, ("a",), 1), "a", stage.kept)
    assert re.findall(r"\b\d+\b", observation.failed)[:3] == ["1", "2", "5"], "exit code, failed, machines"
    assert "a--x-1" in observation.failed
    assert "DataVolume" in observation.failed
    assert [vm.get("last") for vm in json.loads(stage.kept["clones.json"])["vms"]] == [
        None,
        "bound",
        None,
        "bound",
        None,
    ]


def test_a_guest_alone_cannot_make_machines() -> None:
    with pytest.raises(FairlaneError, check=kind("clones-unsupported")):
        PLUGIN.script(cell(1), (), 1)
