"""Clone storms: so many virtual machines made at once of one golden image, and when each had its first I/O answered.

The load of Red Hat's virt-clone study (kube-burner, 1 to 50 machines per node), with the time of each machine taken
apart: its volume was there, its system had booted, a read and a flushed write of its volume were answered.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from fairlane.errors import FairlaneError, Garbage
from fairlane.records import Cell, Figures
from fairlane.study.base import MetricName, WorkloadSpec
from fairlane.study.units import Size, format_size
from fairlane.workloads.base import Stage, Workload

_STAGES = {"created": "vm_created_mean", "booted": "vm_booted_mean", "answered": "vm_ready_mean"}
_BEYOND = 10
"""Machines that must lie beyond a percentile before it is told."""
_OUTPUT = "clones.json"
_NS = 1e9


class CloneSpec(WorkloadSpec):
    """Clone storms, one cell per number of machines. Lanes: clone_copy, clone_overlay, clone_reflink, ..."""

    kind: Literal["clone"]
    """Virtual machines provisioned at once of a golden image."""
    counts: tuple[int, ...] = Field((1, 2, 5, 10), min_length=1)
    """Machines of a storm; each has platform.cpus and platform.memory, and a clone of platform.medium.size as its
    root."""
    data: Size = Field(default=256 * 1024**2, ge=1024**2, multiple_of=1024**2)
    """Bytes of random data in the golden image beside its small system: what a full copy has to carry."""
    primary: MetricName = "job_time"
    """The one metric that may be headlined: job_time, until the last machine answered; vm_ready_mean, their mean."""

    @field_validator("counts")
    @classmethod
    def _possible(cls, counts: tuple[int, ...]) -> tuple[int, ...]:
        if wrong := [count for count in counts if not 1 <= count <= 1000]:
            raise ValueError(f"expected 1 to 1000 machines, found {wrong[0]}")
        return tuple(dict.fromkeys(counts))

    def cells(self, name: str) -> tuple[Cell, ...]:
        return tuple(
            Cell(name, "clone", f"{count} VM{'s' * (count > 1)}", {"count": count, "data": self.data})
            for count in self.counts
        )

    def known(self, cell: Cell) -> Mapping[str, Any]:
        return {
            "tool": "fairlane's clone storm",
            "fleet": cell.params["count"],
            "size": f"golden image with {format_size(cell.params['data'])} of data, read once before each storm",
        }

    def trial_seconds(self, cell: Cell) -> float:
        """A guess, for plans: emulated machines took 6 s of CPU each up to their first I/O."""
        return 5.0 + 3.0 * int(cell.params["count"])


class Clone(Workload):
    """Outputs: ``clones.json``: ``{"vms": [{"name", "created", "booted", "answered"}]}``, s since the storm began."""

    Spec = CloneSpec

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:  # noqa: ARG002
        raise FairlaneError(
            "clone storms need machines that can be made while it is measured",
            where=f"workloads.{cell.workload}",
            hint="platform: {kind: lab, clock: wall}",
        )

    async def drive(
        self,
        cell: Cell,
        devices: Callable[[int], Sequence[str]],  # noqa: ARG002
        seed: int,  # noqa: ARG002
        stage: Stage,
    ) -> None:
        vms = await stage.clones(int(cell.params["count"]))
        told = [{"name": f"clone{n}", **vm} for n, vm in enumerate(vms)]
        stage.keep(_OUTPUT, json.dumps({"vms": told}, indent=1).encode() + b"\n")
        stage.keep("status", b"0\n")

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        vms = [_machine(vm) for vm in _listed(outputs.get(_OUTPUT, b""))]
        asked = cell.params["count"]
        if len(vms) != asked:
            raise Garbage(f"{_OUTPUT} tells of {len(vms)} machines, {asked} were asked for")
        metrics = {metric: sum(vm[stage] for vm in vms) / len(vms) * _NS for stage, metric in _STAGES.items()}
        answered = sorted(vm["answered"] for vm in vms)
        metrics["job_time"] = answered[-1] * _NS
        for metric, share in _PERCENTILES.items():
            rank = -(-len(answered) * share // 100)  # nearest rank, from 1
            if len(answered) - rank >= _BEYOND:
                metrics[metric] = answered[int(rank) - 1] * _NS
        rows = [{"name": vm["name"], **{f"{s}_ms": round(1000 * vm[s], 3) for s in _STAGES}} for vm in vms]
        return Figures(metrics=metrics, context={"vms": rows})


_PERCENTILES = {"vm_ready_p50": 50, "vm_ready_p95": 95, "vm_ready_p99": 99}


def _listed(data: bytes) -> list[Any]:
    try:
        found = json.loads(data)["vms"]
    except (ValueError, KeyError, TypeError):
        raise Garbage(f"{_OUTPUT} cannot be read") from None
    if not isinstance(found, list):
        raise Garbage(f"{_OUTPUT} has no list of machines")
    return found


def _machine(vm: Any) -> dict[str, Any]:
    """One machine's times, which must be in order."""
    times = [vm.get(stage) for stage in _STAGES] if isinstance(vm, dict) else []
    told = [t for t in times if isinstance(t, int | float) and not isinstance(t, bool)]
    if len(told) != len(_STAGES):
        raise Garbage(f"{_OUTPUT}: a machine without its times")
    if not 0 < told[0] <= told[1] <= told[2] < float("inf"):
        raise Garbage(f"{_OUTPUT}: the times of {vm.get('name')} are not in order")
    return dict(vm)


PLUGIN = Clone()
