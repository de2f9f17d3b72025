import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from pydantic import ValidationError

from fairlane.errors import FairlaneError
from fairlane.metrics import METRICS
from fairlane.records import Cell
from fairlane.workloads.base import Garbage, Stage
from fairlane.workloads.clone import PLUGIN, CloneSpec


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


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "cannot be read"),
        ({"clones.json": b"{}"}, "cannot be read"),
        ({"clones.json": b'{"vms": 3}'}, "no list"),
        (outputs(), "tells of 0 machines, 1 were asked for"),
        (outputs({"name": "clone0", "created": 1.0, "booted": 2.0}), "without its times"),
        (outputs(machine(1.0, True, 3.0)), "without its times"),
        (outputs(machine(2.0, 1.0, 3.0)), "not in order"),
        (outputs(machine(0.0, 1.0, 3.0)), "not in order"),
        (outputs(machine(1.0, 2.0, float("inf"))), "not in order"),
        (outputs(machine(1.0, float("nan"), 3.0)), "not in order"),
    ],
)
def test_what_is_no_storm_is_garbage(data: dict[str, bytes], reason: str) -> None:
    with pytest.raises(Garbage, match=reason):
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


def test_a_guest_alone_cannot_make_machines() -> None:
    with pytest.raises(FairlaneError, match="while it is measured"):
        PLUGIN.script(cell(1), (), 1)
