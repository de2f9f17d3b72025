"""Generate the text of fio 3.33's ``json+`` from a chosen latency distribution instead of a device.

The fake platform thereby tests the same chain as real output: raw file, parser, histograms, verdicts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

from fairlane.records import Cell
from fairlane.workloads._fio_keys import SYNCS, mean_size
from fairlane.workloads._fio_script import jobs_of
from fairlane.workloads.base import Invention

_GROUPS, _BUCKETS = 29, 64
"""fio's stat.h: FIO_IO_U_PLAT_GROUP_NR groups of 2^FIO_IO_U_PLAT_BITS buckets."""
_PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
"""fio's default percentile_list."""
_NORMAL = NormalDist()

_SERVICE_NS = 4_000
"""Time of the device for one more I/O in its queue, ns, without the time per byte."""
_BYTES_PER_NS = 3.0
_FLUSH = 2.0
"""Time of a sync in multiples of a small I/O's."""
_SUBMISSION = 0.05
"""Share of submission in the latency."""


@dataclass(frozen=True)
class Latency:
    """Latency of I/Os in ns: log-normal, and a share of slow ones that is log-normal around a multiple."""

    mean: float
    """Mean of all I/Os."""
    tail: float = 1.0
    """Factor on the slow ones alone."""

    SIGMA = 0.2
    SLOW = 0.02
    """Share of slow I/Os."""
    SLOWER = 4.0
    """Their mean in multiples of the fast ones' mean."""

    def share_below(self, ns: float) -> float:
        """Distribution function."""
        if ns <= 0:
            return 0.0
        fast = self.mean / (1 - self.SLOW + self.SLOW * self.SLOWER * self.tail)
        return (1 - self.SLOW) * self._below(ns, fast) + self.SLOW * self._below(ns, fast * self.SLOWER * self.tail)

    def _below(self, ns: float, mean: float) -> float:
        # the mean of a log-normal is exp(mu + sigma^2 / 2)
        return _NORMAL.cdf((math.log(ns / mean) + self.SIGMA**2 / 2) / self.SIGMA)


@dataclass(frozen=True)
class Side:
    """One direction of one job."""

    ios: int
    submission: Latency
    completion: Latency
    total: Latency


def invented(cell: Cell, invention: Invention) -> bytes:
    """The output that fio would write: a queue of depth iodepth x numjobs in front of a device, so that IOPS = depth /
    latency (Little's law), and figures are consistent as real ones are. Named jobs share the queue."""
    whole = cell.params
    begin, seconds, runtime_ms = whole["ramp"] / 1e9, whole["runtime"] / 1e9, whole["runtime"] // 10**6
    entries = []
    for name, params in jobs_of(whole).items():
        load = _load(params, whole, invention, begin, seconds)
        entries += [_invented_job(name or "job", params, load, invention.tail, runtime_ms)] * params["numjobs"]
    return _document(entries)


def _invented_job(name: str, params: Mapping[str, Any], load: "_Load", tail: float, runtime_ms: int) -> dict[str, Any]:
    """The entry of one process of a job."""
    per_job, mean = load.iops / params["numjobs"] * runtime_ms / 1000, load.mean
    mix = _mix(params)
    ios = {"read": round(per_job * mix), "write": round(per_job) - round(per_job * mix)}
    sides = {
        way: Side(
            count,
            Latency(mean * _SUBMISSION),
            Latency(mean * (1 - _SUBMISSION), tail),
            Latency(mean, tail),
        )
        for way, count in ios.items()
    }
    every = next((params[key] for key in SYNCS if params.get(key)), 0)
    syncs = (Latency(load.sync, tail), ios["write"] // every) if every else (_IDLE.total, 0)
    return _entry(name, params, sides, runtime_ms, cpu=(5.0, 20.0), syncs=syncs)


def invented_series(cell: Cell, invention: Invention) -> bytes:
    """The interval log that fio would write beside it, shared by the jobs."""
    params = cell.params
    interval_ms, text = params["series"] // 10**6, ""
    for job in jobs_of(params).values():
        mix = _mix(job)
        shares = [(way, share) for way, share in ((0, mix), (1, 1 - mix)) if share]
        rows = []
        for end in range(interval_ms, params["runtime"] // 10**6 + 1, interval_ms):
            begin = params["ramp"] / 1e9 + (end - interval_ms) / 1000
            per_job = _load(job, params, invention, begin, interval_ms / 1000).iops / job["numjobs"]
            rows += [f"{end}, {round(per_job * share)}, {way}, 0, 0\n" for way, share in shares]
        text += "".join(rows * job["numjobs"])
    return text.encode()


@dataclass(frozen=True)
class _Load:
    """What a job, all its processes, gets of the device."""

    iops: float
    mean: float
    """Mean latency of I/Os, ns."""
    sync: float
    """Mean latency of syncs, ns."""


def _load(
    params: Mapping[str, Any], whole: Mapping[str, Any], invention: Invention, begin: float, seconds: float
) -> _Load:
    """The job ``params`` of the cell ``whole`` from ``begin``, in seconds since the load began."""
    own = params["iodepth"] * params["numjobs"]
    depth = sum(job["iodepth"] * job["numjobs"] for job in jobs_of(whole).values())
    mix = _mix(params)
    size = mix * mean_size(params, "read") + (1 - mix) * mean_size(params, "write")
    service = _SERVICE_NS + size / _BYTES_PER_NS
    speed = invention.speed * _mean_of(invention.course, begin, begin + seconds)
    mean = (invention.latency + depth * service) / speed * _mean_factor(invention.tail)
    sync = _FLUSH * invention.latency / speed * _mean_factor(invention.tail)
    pause = params.get("thinktime", 0) / params.get("thinktime_blocks", 1)
    pause += sum((1 - mix) * sync / params[key] for key in SYNCS if params.get(key))
    iops = own / (mean + pause) * 1e9
    if params["rate_iops"] is not None and iops > (limit := params["rate_iops"] * params["numjobs"]):
        iops, mean = limit, (invention.latency + service) / speed * _mean_factor(invention.tail)
    return _Load(iops, mean, sync)


def _mean_of(course: Sequence[float], begin: float, end: float) -> float:
    """Mean of the factors between two moments; 1 where there are none."""
    parts = [(max(0.0, min(end, t + 1) - max(begin, t)), factor) for t, factor in enumerate(course)]
    known = sum(share for share, _ in parts)
    return sum(share * factor for share, factor in parts) / known if known else 1.0


def _mix(params: Mapping[str, Any]) -> float:
    """Share of reads."""
    pure = {"read": 1.0, "randread": 1.0, "write": 0.0, "randwrite": 0.0}
    return pure.get(params["rw"], (params["rwmixread"] or 0) / 100)


def _mean_factor(tail: float) -> float:
    """By how much slow I/Os that are ``tail`` times slower raise the mean of all."""
    slow = Latency.SLOW * Latency.SLOWER
    return (1 - Latency.SLOW + slow * tail) / (1 - Latency.SLOW + slow)


@cache
def edges() -> tuple[tuple[int, float], ...]:
    """fio's bins: (midpoint as it prints it, upper edge) in ns, rising (plat_idx_to_val in fio's stat.c)."""
    bins: list[tuple[int, float]] = [(i, i + 1.0) for i in range(2 * _BUCKETS)]
    for group in range(2, _GROUPS):
        width = 1 << (group - 1)
        base = width * _BUCKETS
        bins += [(int(base + (k + 0.5) * width), base + (k + 1.0) * width) for k in range(_BUCKETS)]
    return tuple(bins)


def bins(latency: Latency, ios: int) -> dict[int, int]:
    """``ios`` I/Os in fio's bins, as near to the distribution as whole numbers allow."""
    counts: dict[int, int] = {}
    before = 0
    for midpoint, edge in edges():
        if edge < latency.mean / 10:
            continue  # so far below the mean the share is 0
        upto = round(ios * latency.share_below(edge))
        if upto > before:
            counts[midpoint] = upto - before
            before = upto
        if before >= ios:
            break
    return counts


def report(cell: Cell, sides: Mapping[str, Side], runtime_ms: int, usr_cpu: float, sys_cpu: float) -> bytes:
    """The file that fio writes for ``cell``. ``sides``: ``read`` and ``write`` of one job; all jobs are alike."""
    entry = _entry("job", cell.params, sides, runtime_ms, cpu=(usr_cpu, sys_cpu), syncs=(_IDLE.total, 0))
    return _document([entry] * cell.params["numjobs"])


def _entry(
    name: str, params: Mapping[str, Any], sides: Mapping[str, Side], runtime_ms: int, *, cpu: tuple[float, float],
    syncs: tuple[Latency, int],
) -> dict[str, Any]:  # fmt: skip
    """One entry of ``jobs``. ``cpu``: percent of a core, user and kernel; ``syncs``: their latency and number."""
    options = {"rw": params["rw"], **({"bs": str(params["bs"])} if params["bs"] else {"bssplit": params["bssplit"]})}
    options |= {"ioengine": params["engine"]} if syncs[1] else {}
    return {
        "jobname": name,
        "groupid": 0,
        "error": 0,
        "eta": 2147483647,
        "elapsed": runtime_ms // 1000 + 1,
        "job options": options,
        **{way: _side(sides[way], mean_size(params, way), runtime_ms) for way in ("read", "write")},
        "trim": _side(_IDLE, 0, runtime_ms),
        "sync": {"total_ios": 0, "lat_ns": _latency(*syncs)},
        "job_runtime": runtime_ms,
        "usr_cpu": cpu[0],
        "sys_cpu": cpu[1],
        "ctx": sum(side.ios for side in sides.values()),
        "majf": 0,
        "minf": 37,
        **_levels(params["iodepth"]),
        "latency_depth": params["iodepth"],
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    }


def _document(entries: Sequence[Mapping[str, Any]]) -> bytes:
    whole = {
        "fio version": "fio-3.33",
        "timestamp": 0,
        "timestamp_ms": 0,
        "time": "Thu Jan  1 00:00:00 1970",
        "jobs": list(entries),
        "disk_util": [],
    }
    return (_text(whole, 0) + "\n").encode()


_IDLE = Side(0, Latency(0), Latency(0), Latency(0))


def _side(side: Side, bs: float, runtime_ms: int) -> dict[str, Any]:
    size = round(side.ios * bs)
    seconds = runtime_ms / 1000
    return {
        "io_bytes": size,
        "io_kbytes": size >> 10,
        "bw_bytes": int(size / seconds),
        "bw": int(size / seconds / 1024),
        "iops": side.ios / seconds,
        "runtime": runtime_ms if side.ios else 0,
        "total_ios": side.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": _latency(side.submission, side.ios),
        "clat_ns": _latency(side.completion, side.ios),
        "lat_ns": _latency(side.total, side.ios),
        **dict.fromkeys(("bw_min", "bw_max"), 0),
        **dict.fromkeys(("bw_agg", "bw_mean", "bw_dev"), 0.0),
        **dict.fromkeys(("bw_samples", "iops_min", "iops_max"), 0),
        **dict.fromkeys(("iops_mean", "iops_stddev"), 0.0),
        "iops_samples": 0,
    }


def _latency(latency: Latency, ios: int) -> dict[str, Any]:
    if not ios:
        return {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    counts = bins(latency, ios)
    spread = sum(n * (ns - latency.mean) ** 2 for ns, n in counts.items()) / ios
    return {
        "min": min(counts),
        "max": max(counts),
        "mean": latency.mean,
        "stddev": math.sqrt(spread),
        "N": ios,
        "percentile": _percentiles(counts, ios),
        "bins": {str(ns): n for ns, n in counts.items()},
    }


def _percentiles(counts: Mapping[int, int], ios: int) -> dict[str, int]:
    out, below = {}, 0
    wanted = list(_PERCENTILES)
    for ns, n in counts.items():
        below += n
        while wanted and below >= math.ceil(wanted[0] / 100 * ios):
            out[f"{wanted.pop(0):.6f}"] = ns
    return out


def _levels(depth: int) -> dict[str, Any]:
    """Levels of fio's queue: always full."""
    steps = ("1", "2", "4", "8", "16", "32", ">=64")
    full = min(depth.bit_length() - 1, len(steps) - 1)
    batch_sizes = ("0", "4", "8", "16", "32", "64", ">=64")
    batches = {name: 100.0 if name == "4" else 0.0 for name in batch_sizes}
    fine = ("2", "4", "10", "20", "50", "100", "250", "500", "750", "1000")
    return {
        "iodepth_level": {name: 100.0 if i == full else 0.0 for i, name in enumerate(steps)},
        "iodepth_submit": batches,
        "iodepth_complete": batches,
        "latency_ns": dict.fromkeys(fine, 0.0),
        "latency_us": dict.fromkeys(fine, 0.0),
        "latency_ms": dict.fromkeys((*fine, "2000", ">=2000"), 0.0),
    }


def _text(value: Any, depth: int) -> str:
    """JSON as fio prints it: two spaces, a space before the colon, six decimals."""
    pad, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        inner = (f'{pad}"{key}" : {_text(item, depth + 1)}' for key, item in value.items())
        return "{\n" + ",\n".join(inner) + f"\n{end}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(pad + _text(item, depth + 1) for item in value) + f"\n{end}]"
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, dict | list):  # empty ones
        return "{\n}" if isinstance(value, dict) else "[\n]"
    return f'"{value}"' if isinstance(value, str) else str(value)
