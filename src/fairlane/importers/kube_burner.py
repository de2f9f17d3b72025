"""kube-burner: the job summary, vmiLatency quantiles and the measurement of each virtual machine.

Formats: kube-burner's documentation, "Measurements" and "Indexing" (job summary); ``pkg/burner/metadata.go``,
``pkg/measurements/vmi_latency.go`` and ``pkg/measurements/metrics/metrics.go`` of its source. The local indexer writes
lists of documents, one file per metric and job, into one folder per run; latencies are in ms since the virtual
machine's creation.

``vm_ready_*`` are of the condition VMReady; of VMIRunning where no VirtualMachine stands behind the instances, which
``metric_definition`` says. Times of pods stay in the context: a ready pod is no ready machine. The file's own quantiles
are taken, but none that fewer than ten machines lie beyond (``stats.histogram.enough``): kube-burner's P99 of six
machines is the mean of the two slowest. A job of N iterations has at least N machines.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent, ordered
from fairlane.importers._reading import MS
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures
from fairlane.stats.histogram import enough, percentiles_of

_NAMES = ("jobSummary", "vmiLatencyMeasurement", "vmiLatencyQuantilesMeasurement", "podLatencyQuantilesMeasurement")
_CLAIM = re.compile(rb'"metricName"\s*:\s*"(?:jobSummary|(?:vmi|pod)Latency(?:Quantiles)?Measurement)"')
_CONDITIONS = (("VMReady", "vmReadyLatency"), ("VMIRunning", "vmiRunningLatency"))
_QUANTILES = {"vm_ready_p50": ("P50", 0.5), "vm_ready_p95": ("P95", 0.95), "vm_ready_p99": ("P99", 0.99)}
"""Metric -> kube-burner's name, share."""


@dataclass
class _Job:
    """The documents of one job of one run."""

    where: str
    summary: Mapping[str, Any] | None = None
    quantiles: dict[str, dict[str, float]] = field(default_factory=dict)
    machines: list[Mapping[str, Any]] = field(default_factory=list)


class KubeBurner(Importer):
    """Documents of a folder belong together; ``uuid`` and ``jobName`` identify the trials."""

    title = "kube-burner job summary, vmiLatency quantiles and measurements (JSON)"
    source = "kube-burner's documentation (measurements, indexing) and pkg/measurements/vmi_latency.go"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        return head.lstrip()[:1] in (b"[", b"{") and _CLAIM.search(head) is not None

    def group(self, name: str) -> str:
        return posixpath.join(posixpath.dirname(name), "kube-burner")

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        jobs: dict[tuple[str, str], _Job] = {}
        for file in files:
            for index, document in enumerate(_documents(file)):
                _take(document, jobs, f"{file.name}[{index}]")
        records = [record for (uuid, name), job in jobs.items() if (record := _record(uuid, name, job))]
        if not records:
            raise Unreadable(
                "not-this-tool",
                "expected a job summary, or times of virtual machines (vmiLatency), found neither",
                where=files[0].name if files else "",
            )
        yield from records


def _documents(file: Source) -> list[Mapping[str, Any]]:
    tree = reading.tree(file)
    documents = tree if isinstance(tree, list) else [tree]
    for index, document in enumerate(documents):
        if not isinstance(document, dict):
            raise Unreadable(
                "not-this-tool", "expected a list of objects with a metricName", where=f"{file.name}[{index}]"
            )
    return documents


def _take(document: Mapping[str, Any], jobs: dict[tuple[str, str], _Job], where: str) -> None:
    metric = document.get("metricName")
    if metric not in _NAMES:
        return
    config = document.get("jobConfig")
    name = config.get("name") if metric == "jobSummary" and isinstance(config, dict) else document.get("jobName")
    key = reading.shown(document.get("uuid")), reading.shown(name)
    job = jobs.setdefault(key, _Job(where))
    if metric == "jobSummary":
        if job.summary is not None:
            raise Unreadable("report-twice", "a second summary of the same run and job", where=where)
        job.summary = document
    elif metric == "vmiLatencyMeasurement":
        if document.get("churnMetric") is not True:  # machines replaced under churn: another load
            job.machines.append(document)
    else:
        condition = ("Pod/" if metric.startswith("pod") else "") + reading.shown(document.get("quantileName"))
        if condition in job.quantiles:
            raise Unreadable(
                "report-twice", f"a second set of quantiles of {condition} for the same run and job", where=where
            )
        if times := _quantiles(document, where):
            job.quantiles[condition] = times


def _quantiles(document: Mapping[str, Any], where: str) -> dict[str, float]:
    """Name -> ns. Empty where a time is negative: kube-burner subtracts times that never came (no VirtualMachine)."""
    quantiles = {}
    for key in ("min", "avg", "P50", "P95", "P99", "max"):
        value = document.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
            return {}
        if (ms := reading.figure(document, key, where)) is not None:
            quantiles[key] = ms * MS
    ordered([quantiles[key] for key in ("min", "P50", "P95", "P99", "max") if key in quantiles], "quantiles, ns", where)
    # the mean is cut to whole ms
    between = [quantiles[key] + ms for key, ms in (("min", -MS), ("avg", 0.0), ("max", 0.0)) if key in quantiles]
    ordered(between, "min, avg and max, ns", where)
    return quantiles


def _record(uuid: str, name: str, job: _Job) -> Record | None:
    summary: Mapping[str, Any] = job.summary or {}
    params = reading.known(fleet=len(job.machines) or None)
    labels = reading.known(uuid=uuid, job=name)
    started = reading.moment(summary.get("timestamp"))
    version = summary.get("version")
    conditions = {"tool": "kube-burner"} | reading.known(tool_version=reading.shown(version))
    if summary.get("passed") is False:
        reason = reading.shown(summary.get("executionErrors"), 500) or "kube-burner says that the job did not pass"
        return Record(params, name=name, labels=labels, started=started, failed=reason)
    metrics: dict[str, float] = {}
    if (elapsed := reading.figure(summary, "elapsedTime", job.where)) is not None:
        metrics["job_time"] = elapsed * 1e9
    condition, times = _ready(job)
    if times:
        metrics |= times
        conditions["metric_definition"] = f"kube-burner {condition}"
    if not metrics:
        return None
    steps = {key: 0.5 * MS / value for key, value in times.items() if value}
    context = {"kube_burner": {"quantiles": job.quantiles}, "conditions": conditions}
    record = Record(params, Figures(metrics, {}, context, steps), name, labels=labels, started=started)
    return consistent(record, job.where)


def _ready(job: _Job) -> tuple[str, dict[str, float]]:
    """Condition and ``vm_ready_*`` in ns: kube-burner's own quantiles, or those of the machines, by nearest rank."""
    for condition, key in _CONDITIONS:
        quantiles = job.quantiles.get(condition, {})
        count = _machines(job)
        own = {name: quantiles.get(title) for name, (title, q) in _QUANTILES.items() if enough(count, q)}
        if times := {name: time for name, time in {"vm_ready_mean": quantiles.get("avg"), **own}.items() if time}:
            return condition, times
        latencies = _times(job, key)
        if latencies:
            ranked = percentiles_of(latencies, {name: q for name, (_, q) in _QUANTILES.items()})
            return condition, {"vm_ready_mean": sum(latencies) / len(latencies)} | ranked
    return "", {}


def _machines(job: _Job) -> int:
    """Least number of machines that the quantiles are of; 0: not known."""
    config = (job.summary or {}).get("jobConfig")
    iterations = config.get("jobIterations") if isinstance(config, dict) else None
    if job.machines or isinstance(iterations, bool) or not isinstance(iterations, int):
        return len(job.machines)
    return iterations if 0 < iterations < reading.LARGEST_FIGURE else 0


def _times(job: _Job, key: str) -> list[float]:
    """Times in ns of all machines; empty if one is unknown."""
    latencies = []
    for machine in job.machines:
        value = machine.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return []
        if not reading.SMALLEST_FIGURE <= value <= reading.LARGEST_FIGURE:
            return []
        latencies.append(value * MS)
    return latencies


PLUGIN = KubeBurner()
