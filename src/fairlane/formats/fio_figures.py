"""Figures of fio's reports: jobs, directions and machines merged by their I/Os and bins, nothing averaged.

``summary`` takes what a file holds and leaves missing values out; ``figures`` reads a trial of our own, strictly. All
figures are of the time measured, without the ramp.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from fairlane.errors import Garbage
from fairlane.formats.fio_disks import ENOUGH_MS
from fairlane.formats.fio_jobs import KINDS, WAYS, Job, Latency, Side
from fairlane.formats.fio_json import Report, reports
from fairlane.formats.fio_named import of_name, together
from fairlane.formats.fio_options import duration, integer
from fairlane.metrics import METRICS, SYNC, of_mix, own_metric
from fairlane.metrics import WAYS as DIRECTIONS
from fairlane.records import Figures, Histogram
from fairlane.stats.histogram import BEYOND, BIN_ERROR, PERCENTILES, SYNCS, Apart, Bins, beyond, merge, percentiles

Kind = Literal["lat", "clat"]

_TIMED = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2"})
"""Engines whose syncs fio times rightly. On one disk fdatasync took 42 us (p50) by the clock around the system call,
and by fio 3.33 43 us with psync, 66 us with libaio and 30 us with io_uring; with a rate or thinktime libaio's hold the
pause until the next I/O."""


def figures(raw: bytes | None, names: Sequence[str] = (), judged: str = "") -> Figures:
    """The figures of one ``fio.json`` of a run: json+ with the bins of lat. See ``summary``. Raises Garbage.

    ``names``: of jobs at once, see ``fio_named``; ``judged``: that whose figures are the trial's; empty: all together.
    """
    if raw is None:
        raise Garbage("output-missing", "fio wrote no fio.json")
    parsed = reports(raw, "fio.json")
    if len(parsed) > 1:
        raise Garbage("several-reports", f"fio.json contains {len(parsed)} reports of fio instead of one")
    report = parsed[0]
    for entry in report.jobs:
        if entry.error:
            raise Garbage("tool-error", f"fio reports error {entry.error} in job {entry.name!r}")
    result = summary(report, report.jobs, disk=True)
    if names:
        parts = {name: summary(report, of_name(report.jobs, name)) for name in names}
        result = together(result, parts, judged)
    if not _has_bins(result.histograms):
        raise Garbage("bins-missing", "fio.json has no latency bins: json+ and lat_percentiles=1 are needed")
    if "lat_mean" not in result.metrics:
        raise Garbage("mean-missing", "fio.json: lat_ns has no mean")
    return replace(result, histograms=dict(result.histograms))  # arrays: a tenth of what they were printed as


def summary(report: Report, jobs: Sequence[Job], *, kind: Kind = "lat", disk: bool = False) -> Figures:
    """``jobs`` of ``report`` as one. They must have run together, which is not checked.

    Metrics: iops, bw, and of latency the mean and every percentile of the registry that ten I/Os lie beyond: from the
    merged bins, or fio's own where a single job of one direction has no bins. Of a mix the same of reads and of writes.
    ``kind``: what counts as latency; with ``clat`` (completion alone) all latency figures and ``lat`` histograms are
    clat's. ``disk``: ``jobs`` are all that loaded the disks, so that their counters belong to them.

    Context as ``checks.base`` has it, and for the CPU probe ``generator``, fio's own CPU time in ns per I/O (user,
    kernel), with ``generator_step``, how far their sum may be off. Raises Garbage: no I/O, no time.
    """
    sides = [(way, side) for entry in jobs for way, side in entry.sides.items()]
    total, runtime = sum(side.ios for _, side in sides), max((side.runtime for _, side in sides), default=0)
    if not total:
        raise Garbage("no-io", "fio completed no I/O in the time measured")
    if not runtime:
        raise Garbage("no-time", "fio reports a run time of 0 ms")
    synced = _syncs(jobs)
    histograms = _Histograms(_printed(sides, kind) | ({SYNCS: synced} if synced else {}))
    ios, size = _by_way(sides, "ios"), _by_way(sides, "size")
    metrics = {
        "iops": total * 1000 / runtime,
        # of the bytes, not of fio's bw_bytes: those are rates of single jobs, rounded
        "bw": sum(size.values()) * 1000 / runtime,
        **of_mix("iops", {way: n * 1000 / runtime for way, n in ios.items()}),
        **of_mix("bw", {way: n * 1000 / runtime for way, n in size.items()}),
        **_latencies(sides, histograms, kind),
        **({"sync_lat_mean": mean} if (mean := _mean_of(synced)) else {}),
    }
    sums = [members(entry, jobs) for entry in jobs]
    # Run times are rounded up to whole milliseconds, and their ends may catch one I/O more or less. Submissions that
    # stand for completions lack the I/Os in flight when the ramp ended.
    unsure = 1 + sum(_unsure(entry, count) for entry, count in zip(jobs, sums, strict=True))
    counted = {"": total} | {way: n for way in DIRECTIONS if (n := ios.get(way))}
    steps = {
        name: unsure / n + 0.5 / runtime
        for way, n in counted.items()
        for name in (own_metric("iops", way), own_metric("bw", way))
        if name in metrics
    }
    context: dict[str, Any] = {
        "load": _load(sides, jobs, sum(sums), runtime, {"ios": ios, "bytes": size}),
        "fio": _fio(report, sides, jobs, sums),
        "conditions": {"tool": "fio", "tool_version": report.version.removeprefix("fio-")},
    }
    if syncs := sum((entry.sync.ios or 0) for entry in jobs if entry.sync):
        context["load"]["syncs"] = syncs
    if disk and report.disk and runtime >= ENOUGH_MS:
        context["disk"] = dict(report.disk)
    if len({entry.host for entry in jobs}) > 1:
        context["vms"] = _machines(jobs, kind)
    # fio's CPU shares are whole milliseconds per job, divided by the job's own run time
    context["generator"] = {
        mode: sum(
            getattr(entry, key) / 100 * (runtime * n if entry.job_runtime is None else entry.job_runtime)
            for entry, n in zip(jobs, sums, strict=True)
        )
        * 1e6
        / total
        for mode, key in (("user", "usr_cpu"), ("kernel", "sys_cpu"))
        if all(getattr(entry, key) is not None for entry in jobs)
    }
    # user and kernel time are each cut down to whole milliseconds: 1 ms off per job, on average
    context["generator_step"] = sum(sums) * 1e6 / total
    ranked = [name for name in metrics if METRICS[name].percentile is not None]
    if not _has_bins(histograms):  # fio's own percentiles come from the same bins
        steps |= dict.fromkeys((name for name in ranked if METRICS[name].way != SYNC), BIN_ERROR)
    if unit := max(side.latency[kind].unit for _, side in sides) - 1:  # fio 2 cuts latencies to whole microseconds
        own = [name for name in ranked if METRICS[name].way != SYNC]
        steps |= {name: max(steps.get(name, 0.0), unit / metrics[name]) for name in own if metrics[name]}
    return Figures(metrics, histograms, context, steps)


def members(entry: Job, jobs: Iterable[Job]) -> int:
    """Number of jobs that an entry of ``jobs`` adds up: more than one under group_reporting, which json does not state.

    By their added run times (since 3.8); before, by numjobs, if there are fewer entries of the name.
    """
    if entry.job_runtime is not None and entry.runtime:
        return max(1, round(entry.job_runtime / entry.runtime))
    requested = numjobs(entry)
    alike = sum((other.name, other.group, other.host) == (entry.name, entry.group, entry.host) for other in jobs)
    return requested if alike < requested else 1


def numjobs(entry: Job) -> int:
    """The option ``numjobs``; 1 if it is not set, or cannot be read."""
    try:
        return min(max(1, integer((entry.options or {}).get("numjobs", "1"))), 10**6)
    except ValueError:
        return 1


class _Histograms(Apart):
    """Histograms by name (``read.lat``), merged when first asked for: an import of thousands of files needs ``lat``
    alone."""

    def __init__(self, printed: Mapping[str, Sequence[Latency]]) -> None:
        self._printed, self._merged = printed, dict[str, Bins]()

    def __getitem__(self, name: str) -> Bins:
        if name not in self._merged:
            self._merged[name] = merge(latency.bins for latency in self._printed[name])
        return self._merged[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._printed else default  # Mapping's own raises an exception first

    @cached_property
    def whole(self) -> Bins:
        return merge(self[name] for name in self if name.endswith(".lat"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._printed)

    def __len__(self) -> int:
        return len(self._printed)


def _printed(sides: Sequence[tuple[str, Side]], kind: Kind) -> dict[str, list[Latency]]:
    """What makes up each histogram. A kind of latency without bins of some job is left out: it would lack I/Os."""
    parts: dict[str, list[Latency]] = {}
    for component in KINDS:
        # psync has no slat at all
        with_any = [(way, side) for way, side in sides if component != "slat" or side.latency[component].ios != 0]
        if (component == "lat" and kind != "lat") or not all(side.latency[component].printed for _, side in with_any):
            continue
        for way, side in with_any:
            parts.setdefault(f"{way}.{component}", []).append(side.latency[component])
            if component == kind != "lat":
                parts.setdefault(f"{way}.lat", []).append(side.latency[component])
    return parts


def _syncs(jobs: Sequence[Job]) -> list[Latency]:
    """Times of the jobs' syncs; empty where there are none, or any job's engine does not have right ones."""
    having = [entry for entry in jobs if entry.sync]
    known = all((entry.options or {"ioengine": ""}).get("ioengine", "psync") in _TIMED for entry in having)
    return [entry.sync for entry in having if entry.sync] if known else []


def _mean_of(synced: Sequence[Latency]) -> float:
    total = sum(latency.ios or 0 for latency in synced)
    return sum((latency.mean or 0.0) * (latency.ios or 0) for latency in synced) / total if total else 0.0


def _has_bins(histograms: Mapping[str, Histogram]) -> bool:
    """Whether there are bins of ``lat``."""
    return any(name.endswith(".lat") for name in histograms)


def _latencies(sides: Sequence[tuple[str, Side]], histograms: Mapping[str, Histogram], kind: Kind) -> dict[str, float]:
    """Means and percentiles: of all I/Os, and of a mix those of reads and of writes."""
    metrics: dict[str, float] = {}
    if mean := _mean([side for _, side in sides], kind):
        metrics["lat_mean"] = mean
    ways = {way: [side for name, side in sides if name == way] for way in DIRECTIONS}
    mixed = all(ways.values())
    if mixed:
        metrics |= of_mix("lat_mean", {way: _mean(own, kind) for way, own in ways.items()})
    if _has_bins(histograms):
        return metrics | percentiles(histograms)
    parts = {"": [side for _, side in sides]} | (ways if mixed else {})
    for way, own in parts.items():
        if len(own) == 1:
            lat = own[0].latency[kind]
            ios = {1: lat.ios or own[0].ios}
            known = {name: q for name, q in PERCENTILES[way].items() if q in lat.percentiles}
            metrics |= {name: float(lat.percentiles[q]) for name, q in known.items() if beyond(ios, q) >= BEYOND}
    return metrics


def _mean(sides: Sequence[Side], kind: Kind) -> float | None:
    """Mean latency of all their I/Os; None where one of them has none."""
    means = [(lat.mean, lat.ios or side.ios) for side in sides if (lat := side.latency[kind]).mean]
    if len(means) < len(sides):
        return None
    return sum((mean or 0.0) * ios for mean, ios in means) / sum(ios for _, ios in means)


def _by_way(sides: Sequence[tuple[str, Side]], count: Literal["ios", "size"]) -> dict[str, int]:
    """I/Os or bytes: reads and writes, and other directions that there are."""
    ways = [way for way in WAYS if way in DIRECTIONS or any(name == way for name, _ in sides)]
    return {way: sum(getattr(side, count) for name, side in sides if name == way) for way in ways}


def _unsure(entry: Job, count: int) -> float:
    """Error of an entry's count of I/Os, beyond one."""
    unsure = sum(side.slack for side in entry.sides.values())
    if any(not side.exact and not side.slack for side in entry.sides.values()):
        options = entry.options or {}
        try:
            ramp = duration(options.get("ramp_time", "0")) if entry.options is not None else None
            depth = min(integer(options["iodepth"]), entry.depth) if "iodepth" in options else entry.depth
        except ValueError:
            ramp, depth = None, entry.depth
        if ramp != 0:
            unsure += depth * count
    return unsure


def _load(
    sides: Sequence[tuple[str, Side]], jobs: Sequence[Job], count: int, runtime: int, sums: Mapping[str, dict[str, int]]
) -> dict[str, Any]:
    """``sums``: I/Os and bytes by direction."""
    load: dict[str, Any] = {
        **sums,
        "iops": {way: ios * 1000 / runtime for way, ios in sums["ios"].items()},
        "runtime_ms": runtime,
        # shows jobs that stopped early, or did not run together
        "runtime_ms_min": min(side.runtime for _, side in sides),
        "jobs": count,
    }
    samples = {
        way: dict(zip(("count", "mean", "stddev"), side.samples, strict=True)) for way, side in sides if side.samples
    }
    if samples and count == 1:  # of several jobs each has its own, and they do not add up
        load["samples"] = samples
    if len(jobs) > 1:
        first = min(entry.group for entry in jobs)
        load["parts"] = [
            {
                "name": entry.name,
                "ios": sum(side.ios for side in entry.sides.values()),
                "group": entry.group,
                # json lacks the option; another cause of a new group (new_group) is rare
                "stonewall": entry.group != first,
                **({"start_ms": entry.started, "end_ms": entry.started + entry.runtime} if entry.started else {}),
            }
            for entry in jobs
        ]
    return load


def _fio(report: Report, sides: Sequence[tuple[str, Side]], jobs: Sequence[Job], sums: Sequence[int]) -> dict[str, Any]:
    fio: dict[str, Any] = {"version": report.version, "jobs": sum(sums)}
    for key in ("usr_cpu", "sys_cpu"):
        shares = [getattr(entry, key) for entry in jobs]
        if None not in shares:
            fio[key] = sum(share * n for share, n in zip(shares, sums, strict=True))
    fio["short_ios"] = sum(side.short for _, side in sides)
    fio["dropped_ios"] = sum(side.dropped for _, side in sides)
    if all(side.submitted is not None for _, side in sides):
        fio["submitted"] = {
            way: sum(side.submitted or 0 for name, side in sides if name == way) for way in ("read", "write")
        }
    if report.warnings:
        fio["warnings"] = report.warnings
    return fio


def _machines(jobs: Sequence[Job], kind: Kind) -> list[dict[str, Any]]:
    """Per machine of a client's report: IOPS over its own run time; p99 and start if known."""
    machines = []
    for name in dict.fromkeys(entry.host for entry in jobs):
        own = [entry for entry in jobs if entry.host == name]
        sides = [(way, side) for entry in own for way, side in entry.sides.items()]
        runtime = max((side.runtime for _, side in sides), default=0)
        machine: dict[str, Any] = {"name": name, "iops": 0.0}
        if runtime:
            machine["iops"] = sum(side.ios for _, side in sides) * 1000 / runtime
            p99 = _latencies(sides, _Histograms(_printed(sides, kind)), kind).get("lat_p99")
            machine |= {} if p99 is None else {"lat_p99": p99}
        starts = [entry.started for entry in own if entry.started]
        machine |= {"start_ms": min(starts)} if starts else {}
        machines.append(machine)
    return machines
