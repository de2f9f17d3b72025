"""Clone storms: many virtual machines created at once from one golden image, and the time to each one's first I/O.

The load of Red Hat's virt-clone study (kube-burner, 1 to 50 machines per node), with the time of each machine split:
its volume existed, its system had booted, a read and a flushed write of its volume were answered. A cluster reports
more: when each machine was scheduled and running, its API server's time stamps, and how the storm was made.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import quantiles
from typing import Any, Literal

from pydantic import Field, field_validator

from fairlane.errors import FairlaneError, Garbage
from fairlane.records import Cell, Figures
from fairlane.stats.histogram import percentiles_of
from fairlane.study.base import MetricName, WorkloadSpec
from fairlane.units import Size, format_size
from fairlane.workloads.base import Stage, Workload

_STAGES = {"created": "vm_created_mean", "booted": "vm_booted_mean", "answered": "vm_ready_mean"}
_PHASES = {"scheduled": "vm_scheduled_mean", "running": "vm_running_mean"}
"""Phases with a metric, if the platform reports them for every machine."""
_IN_STEPS = {"vm_booted_mean": "answers", "vm_ready_mean": "first_io", "job_time": "first_io"}
"""Metric -> phase whose instant is known to within the time between two attempts to reach a machine."""
_FENCE = 3.0
"""Interquartile ranges beyond the upper quartile: Tukey's outer fence (Exploratory Data Analysis, 1977, 2C)."""
_APART = 1.5
"""A straggler takes at least this many times the median: storms of equally quick machines have none."""
_ENOUGH = 5
"""Machines that a storm needs for a statement on stragglers."""
_OUTPUT = "clones.json"
_RECORD = "storm.json"
_NS = 1e9


class CloneSpec(WorkloadSpec):
    """Clone storms, one cell per number of machines. Lanes: clone_copy, clone_overlay, clone_reflink, ... in the lab,
    storage_class in a cluster."""

    kind: Literal["clone"]
    """Virtual machines provisioned at once from a golden image."""
    counts: tuple[int, ...] = Field((1, 2, 5, 10), min_length=1)
    """Machines of a storm, over all nodes; each has platform.cpus and platform.memory. Its root is a clone, of
    platform.medium.size in the lab and of platform.root_size in a cluster."""
    data: Size = Field(default=256 * 1024**2, ge=1024**2, multiple_of=1024**2)
    """Random data in the golden image, beside its small system: a full copy transfers it."""
    primary: MetricName = "job_time"
    """The only metric for headlines: job_time, until the last machine answered; vm_ready_mean, their mean."""

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
            "size": f"golden image with {format_size(cell.params['data'])} of data",
        }

    def trial_seconds(self, cell: Cell) -> float:
        """A guess, for plans: emulated machines took 6 s of CPU each up to their first I/O."""
        return 5.0 + 3.0 * int(cell.params["count"])


class Clone(Workload):
    """Outputs: ``clones.json``: ``{"vms": [{"name", "created", "booted", "answered"}]}``, s since the storm began.

    Of a cluster's machines also ``node``, ``phases`` (name -> s), ``within`` (phase -> s by which it may have been
    earlier), ``volume``, ``api`` (its own stamps), ``complaints``; a failed one has ``failed``,
    ``failure`` (its kind) and ``last`` in place of its times, and the trial fails. Beside it ``storm.json``: how the
    storm was made.
    """

    Spec = CloneSpec

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:  # noqa: ARG002
        raise FairlaneError(
            "clones-unsupported",
            "a clone storm needs a platform that creates machines during a trial",
            where=f"workloads.{cell.workload}",
            hint="platform: {kind: lab, clock: wall} or {kind: kubevirt}",
        )

    async def drive(
        self,
        cell: Cell,
        devices: Callable[[int], Sequence[str]],  # noqa: ARG002
        seed: int,  # noqa: ARG002
        stage: Stage,
    ) -> None:
        vms = await stage.clones(int(cell.params["count"]))
        records = [{"name": f"clone{n}", **vm} for n, vm in enumerate(vms)]
        stage.keep(_OUTPUT, json.dumps({"vms": records}, indent=1).encode() + b"\n")
        failed = [(str(vm["name"]), str(vm["failed"])) for vm in records if vm.get("failed")]
        if failed:
            stage.keep(f"{cell.kind}.err", f"{_lost(failed, len(records))}\n".encode())
        stage.keep("status", b"1\n" if failed else b"0\n")

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        vms = [_machine(vm) for vm in _listed(outputs.get(_OUTPUT, b""))]
        count = cell.params["count"]
        if len(vms) != count:
            raise Garbage("machines-missing", f"{_OUTPUT} has {len(vms)} machines instead of {count}")
        metrics = {metric: sum(vm[stage] for vm in vms) / len(vms) * _NS for stage, metric in _STAGES.items()}
        phases = [_seconds(vm.get("phases")) for vm in vms]
        for phase, metric in _PHASES.items():
            if all(phase in own for own in phases):
                metrics[metric] = sum(own[phase] for own in phases) / len(vms) * _NS
        answered = [vm["answered"] * _NS for vm in vms]
        metrics["job_time"] = max(answered)
        metrics |= percentiles_of(answered, _PERCENTILES)
        context: dict[str, Any] = {"vms": [_row(vm, own) for vm, own in zip(vms, phases, strict=True)]}
        if storm := _storm(outputs.get(_RECORD, b""), vms):
            context["storm"] = storm
        return Figures(metrics=metrics, context=context, steps=_steps(vms, metrics))


_PERCENTILES = {"vm_ready_p50": 0.5, "vm_ready_p95": 0.95, "vm_ready_p99": 0.99}


def _listed(data: bytes) -> list[Any]:
    try:
        machines = json.loads(data)["vms"]
    except (ValueError, KeyError, TypeError):
        raise Garbage("output-damaged", f"{_OUTPUT} cannot be read") from None
    if not isinstance(machines, list):
        raise Garbage("output-damaged", f"{_OUTPUT} has no list of machines")
    return machines


def _machine(vm: Any) -> dict[str, Any]:
    """One machine's record. Raises Garbage if its times are missing or not in order."""
    times = [vm.get(stage) for stage in _STAGES] if isinstance(vm, dict) else []
    numbers = [t for t in times if isinstance(t, int | float) and not isinstance(t, bool)]
    if len(numbers) != len(_STAGES):
        raise Garbage("times-missing", f"{_OUTPUT}: a machine has no times")
    if not 0 < numbers[0] <= numbers[1] <= numbers[2] < float("inf"):
        raise Garbage("times-order", f"{_OUTPUT}: the times of {vm.get('name')} are not in order")
    return dict(vm)


def _lost(lost: Sequence[tuple[str, str]], count: int) -> str:
    """The machines that failed: each reason once, the commonest first."""
    names: dict[str, list[str]] = {}
    for name, reason in lost:
        names.setdefault(reason.replace(name, "it"), []).append(name)
    reasons = [
        f"{own[0]}{f' and {len(own) - 1} more' if len(own) > 1 else ''}: {reason}"
        for reason, own in sorted(names.items(), key=lambda item: -len(item[1]))
    ]
    return f"{len(lost)} of {count} machines failed: {'; '.join(reasons[:3])}"[:280]


def _seconds(value: Any) -> dict[str, float]:
    """Name -> seconds; other values are left out."""
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(name): float(s) for name, s in pairs if _is_time(s)}


def _is_time(s: Any) -> bool:
    return isinstance(s, int | float) and not isinstance(s, bool) and 0 <= s < math.inf


def _row(vm: Mapping[str, Any], phases: Mapping[str, float]) -> dict[str, Any]:
    """A machine's row in the context of its trial."""
    row: dict[str, Any] = {"name": vm["name"], **{f"{s}_ms": round(1000 * vm[s], 3) for s in _STAGES}}
    if phases:
        row["phases_ms"] = {name: round(1000 * s, 3) for name, s in phases.items()}
    if isinstance(node := vm.get("node"), str):
        row["node"] = node
    return row


def _steps(vms: Sequence[Mapping[str, Any]], metrics: Mapping[str, float]) -> dict[str, float]:
    """Largest relative error of each metric: the mean of the machines' errors, for ``job_time`` that of the last
    machine."""
    within = [_seconds(vm.get("within")) for vm in vms]
    last = max(range(len(vms)), key=lambda n: vms[n]["answered"])
    steps = {}
    for metric, phase in _IN_STEPS.items():
        own = [within[last].get(phase, 0.0)] if metric == "job_time" else [w.get(phase, 0.0) for w in within]
        if any(own):
            steps[metric] = sum(own) / len(own) * _NS / metrics[metric]
    return steps


def _storm(data: bytes, vms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Way of making the storm, and its stragglers; empty: the platform reports neither."""
    try:
        record = json.loads(data) if data else {}
    except ValueError:
        raise Garbage("output-damaged", f"{_RECORD} cannot be read") from None
    if not isinstance(record, dict):
        raise Garbage("output-damaged", f"{_RECORD} is not the record of a storm")
    if not record:
        return {}
    answered = {str(vm["name"]): float(vm["answered"]) for vm in vms}
    warnings = record.get("warnings")
    complaints = warnings if isinstance(warnings, dict) else {}
    slow = [
        {"name": name, "answered_ms": round(1000 * answered[name], 3), "warnings": _words(complaints.get(name))}
        for name in stragglers(answered)
    ]
    rates, gaps = record.get("rates"), record.get("gaps")
    rates = rates if isinstance(rates, dict) else {}
    return {
        "strategy": str(record.get("strategy") or ""),
        "used": _words(record.get("used")),
        "rates": {key: rates[key] for key in ("qps", "burst", "waited") if _is_time(rates.get(key))},
        "requests": sum(_seconds(rates.get("requests")).values()),
        "retried": sum(_seconds(rates.get("retried")).values()),
        "removal": _seconds(record.get("removal")),
        "gaps": len(gaps) if isinstance(gaps, list) else 0,
        "stragglers": slow,
        "warned": sorted(str(name) for name in complaints),
    }


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []


def stragglers(answered: Mapping[str, float]) -> list[str]:
    """Names of the machines that took far longer than the others, the slowest first. ``answered``: name -> s."""
    times = list(answered.values())
    if len(times) < _ENOUGH:
        return []
    low, middle, high = quantiles(times, n=4, method="inclusive")
    fence = max(high + _FENCE * (high - low), _APART * middle)
    return sorted((name for name, s in answered.items() if s > fence), key=lambda name: -answered[name])


PLUGIN = Clone()
