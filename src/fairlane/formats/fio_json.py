"""Reading fio's ``json+``: strict, because a figure read wrongly is worse than a trial lost."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from fairlane.errors import Garbage
from fairlane.metrics import METRICS
from fairlane.records import Figures, Histogram
from fairlane.stats.histogram import latency, merge, percentile, reportable

_DIRECTIONS = ("read", "write")
_KINDS = ("lat", "clat", "slat")
_LARGEST = 2**63
"""No count, size or time in fio's output reaches it; beyond lies garbage (and float overflow)."""


def figures(raw: bytes | None) -> Figures:
    """The figures of one ``fio.json``, jobs and directions merged.

    Context: ``load``, ``fio``, ``conditions``, and for the CPU probe ``generator``, fio's own CPU time in ns per I/O
    (user, kernel), with ``generator_step``, how far their sum may be off. All figures are of the time measured: fio
    leaves its ramp out.
    Raises Garbage with the reason.
    """
    report, preface = _json(raw)
    jobs = [_mapping(job, "a job") for job in _list(report.get("jobs"), "jobs")]
    if not jobs:
        raise Garbage("fio.json has no jobs")
    for job in jobs:
        if error := _count(job, "error"):
            raise Garbage(f"fio reports error {error} in job {job.get('jobname')!r}")
    sides = {way: [_mapping(job.get(way), way) for job in jobs] for way in _DIRECTIONS}
    # Completions, which are what latencies were taken of. fio's total_ios counts submissions: an I/O in flight at the
    # ramp's end is in the bytes and the latencies but not there, 4 % of a trial of 150 ms at 64k and depth 16.
    ios = {way: sum(map(_completions, parts)) for way, parts in sides.items()}
    size = {way: sum(_count(side, "io_bytes") for side in parts) for way, parts in sides.items()}
    runtimes = [_count(side, "runtime") for parts in sides.values() for side in parts if _completions(side)]
    total, runtime = sum(ios.values()), max(runtimes, default=0)
    if not total:
        raise Garbage("fio completed no I/O in the time measured")
    if not runtime:
        raise Garbage("fio reports a run time of 0 ms")

    histograms = dict(_histograms(sides))
    lat = latency(histograms)
    if not lat:
        raise Garbage("fio.json has no latency bins: json+ and lat_percentiles=1 are needed")
    metrics = {
        "iops": total * 1000 / runtime,
        # of the bytes, not of fio's bw_bytes: those are rates of single jobs, rounded
        "bw": sum(size.values()) * 1000 / runtime,
        "lat_mean": _mean_latency([side for parts in sides.values() for side in parts]),
    }
    for name, metric in METRICS.items():
        q = metric.percentile
        if q is not None and reportable(lat, q):
            metrics[name] = float(percentile(lat, q))
    version = str(report.get("fio version", ""))
    load = {
        "ios": ios,
        "bytes": size,
        "iops": {way: ios[way] * 1000 / runtime for way in _DIRECTIONS},
        "runtime_ms": runtime,
        # jobs that stopped early, or did not run together, show here
        "runtime_ms_min": min(runtimes),
        "jobs": len(jobs),
    }
    fio: dict[str, Any] = {
        "version": version,
        "jobs": len(jobs),
        "usr_cpu": sum(_number(job, "usr_cpu") for job in jobs),
        "sys_cpu": sum(_number(job, "sys_cpu") for job in jobs),
        "short_ios": sum(_count(side, "short_ios") for parts in sides.values() for side in parts),
        "dropped_ios": sum(_count(side, "drop_ios") for parts in sides.values() for side in parts),
        "submitted": {way: sum(_count(side, "total_ios") for side in parts) for way, parts in sides.items()},
    }
    if preface:
        fio["warnings"] = preface[:2000]
    # fio's CPU shares are whole milliseconds per job, divided by the job's own run time
    generator = {
        mode: sum(_number(job, key) / 100 * _count({"job_runtime": runtime, **job}, "job_runtime") for job in jobs)
        * 1e6
        / total
        for mode, key in (("user", "usr_cpu"), ("kernel", "sys_cpu"))
    }
    # Run times are rounded up to whole milliseconds, and their ends may catch one I/O more or less.
    step = 1 / total + 0.5 / runtime
    seen = {
        "load": load,
        "fio": fio,
        "conditions": {"tool": "fio", "tool_version": version},
        "generator": generator,
        # user and kernel time are each cut down to whole milliseconds: 1 ms off per job, on average
        "generator_step": len(jobs) * 1e6 / total,
    }
    return Figures(metrics, histograms, seen, {"iops": step, "bw": step})


def _json(raw: bytes | None) -> tuple[Mapping[str, Any], str]:
    """The report, and what fio printed before it (it warns into the same file)."""
    if raw is None:
        raise Garbage("fio left no fio.json")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Garbage(f"fio.json is not text (byte {error.start})") from None
    if not text.strip():
        raise Garbage("fio.json is empty")
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    if not start and not text.startswith("{"):
        raise Garbage(f"fio.json holds no JSON: {text.strip()[:80]!r}")
    try:
        report = json.loads(text[start:])
    except RecursionError:
        raise Garbage("fio.json is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, and integers of thousands of digits
        raise Garbage(f"fio.json is cut off or no JSON: {str(error)[:200]}") from None
    return _mapping(report, "fio.json"), text[:start].strip()


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Garbage(f"fio.json: {what} is not an object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise Garbage(f"fio.json: {what} is missing or not a list")
    return value


def _number(parent: Mapping[str, Any], key: str) -> float:
    """A finite, not negative number; 0 if it is missing."""
    value = parent.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        raise Garbage(f"fio.json: {key} is {str(value)[:40]!r}")
    return float(value)


def _count(parent: Mapping[str, Any], key: str) -> int:
    if key not in parent:
        raise Garbage(f"fio.json: {key} is missing")
    value = _number(parent, key)
    if value != math.floor(value):
        raise Garbage(f"fio.json: {key} is {value}, not a whole number")
    return int(parent[key])


def _completions(side: Mapping[str, Any]) -> int:
    return _count(_mapping(side.get("lat_ns"), "lat_ns"), "N")


def _mean_latency(sides: list[Mapping[str, Any]]) -> float:
    """Mean over all I/Os in ns: the jobs' means weighted by their I/Os."""
    total = weight = 0.0
    for side in sides:
        lat = _mapping(side.get("lat_ns"), "lat_ns")
        count = _count(lat, "N")
        weight += count
        total += count * _number(lat, "mean")
    if not total:
        raise Garbage("fio.json: lat_ns has no mean")
    return total / weight


def _histograms(sides: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[tuple[str, Histogram]]:
    """``read.lat`` and so on, for what has any I/O."""
    for way, parts in sides.items():
        for kind in _KINDS:
            merged = merge([_bins(_mapping(side.get(f"{kind}_ns", {}), f"{kind}_ns")) for side in parts])
            if merged:
                yield f"{way}.{kind}", merged


def _bins(latency: Mapping[str, Any]) -> Histogram:
    """Midpoint in ns -> count. Psync has no slat, a direction without I/O no bins."""
    bins = _mapping(latency.get("bins", {}), "bins")
    for key in bins:
        if not (key.isascii() and key.isdigit() and len(key) < 19):
            raise Garbage(f"fio.json: a latency bin is named {key[:40]!r}")
    return {int(key): count for key in bins if (count := _count(bins, key))}
