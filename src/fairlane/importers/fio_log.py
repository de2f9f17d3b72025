"""fio's logs of single I/Os (``write_lat_log``, ``write_iops_log``, ``write_bw_log``): rates, latencies, their course.

Format: fio's HOWTO, "Log File Formats", and ``iolog.c`` (see ``formats.fio_log``). Logs of one prefix in a folder
(``PREFIX_lat.1.log``, ``PREFIX_clat.2.log``, with the host's name behind them in client/server mode) are one trial:
jobs whose directions or block sizes differ are records of their own. The logs lack groups: equal jobs of one prefix
that ``stonewall`` kept apart look like clones, unless log_unix_epoch was set.

* Rates and latencies come from the lat log; without it from clat, as of json (``percentiles: clat``).
* With ``log_avg_msec`` the logs are averages: IOPS and bandwidth are their mean, there are no latencies, because
  averages over intervals have no weights and no percentiles.
* Where the unit of the latencies is not known, there are only rates, unless the option ``unit`` gives it.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from fairlane.errors import Garbage
from fairlane.formats.fio_log import SLOT_MS, WAYS, Log, Unit, read_log
from fairlane.formats.record import Record
from fairlane.importers._reading import series, shown
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import of_mix, own_metric
from fairlane.records import Figures
from fairlane.stats.histogram import Bins, merge, percentiles
from fairlane.study.strict import Strict

_NAME = re.compile(r"(?P<prefix>.*)_(?P<kind>lat|clat|slat|iops|bw)(?:\.(?P<job>\d{1,9}))?\.log(?:\.(?P<host>.+))?")
_ROW = re.compile(r"\s*\d{1,18}(?:\s*,\s*(?:\d{1,18}|0x[0-9a-f]{1,8})){3,8}\s*", re.IGNORECASE)
_LATENCIES = ("lat", "clat", "slat")
_SECOND_FROM = 10_000
"""ms; from this length on the series is by the second, in shorter logs by slots."""
_AVERAGED = "latency logs are averages (log_avg_msec): neither a mean nor percentiles of the I/Os can be had from them"
_UNIT = (
    "nothing tells whether latencies are us (fio 2) or ns (fio 3): left out; fio_log: {unit: ns} in a map takes them"
)
_CLAT_ONLY = "latencies are of clat (completion alone) and left out; fio_log: {percentiles: clat} in a map takes them"


class FioLogOptions(Strict):
    """Options of fio's logs."""

    unit: Literal["ns", "us"] | None = None
    """Unit of latencies where the log does not tell: us (fio 2) or ns (fio 3)."""
    percentiles: Literal["lat", "clat"] = "lat"
    """Which latency is meant: lat (submission to completion), or clat (completion alone)."""


@dataclass
class _Logs:
    """The logs of one prefix: kind -> job -> log."""

    of: dict[str, dict[str, Log]] = field(default_factory=dict)

    def single(self, kind: str) -> dict[str, Log]:
        return {job: log for job, log in self.of.get(kind, {}).items() if log.ios}

    def averaged(self, kind: str) -> dict[str, Log]:
        return {job: log for job, log in self.of.get(kind, {}).items() if log.averages}

    def keep(self, jobs: Sequence[str]) -> "_Logs":
        return _Logs({kind: {job: logs[job] for job in jobs if job in logs} for kind, logs in self.of.items()})


class FioLog(Importer):
    title = "fio logs of single I/Os or of intervals: lat, clat, slat, iops, bw"
    source = "fio's HOWTO (Log File Formats), and iolog.c"
    Options = FioLogOptions

    def claims(self, name: str, head: bytes) -> bool:
        first = head.decode(errors="replace").partition("\n")[0]
        return bool(_NAME.fullmatch(posixpath.basename(name)) and _ROW.fullmatch(first))

    def group(self, name: str) -> str:
        folder, base = posixpath.split(name)
        match = _NAME.fullmatch(base)
        return posixpath.join(folder, match["prefix"]) if match else name

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        logs = _Logs()
        prefix = ""
        for file in files:
            match = _NAME.fullmatch(posixpath.basename(file.name))
            if not match:
                raise Unreadable(
                    "file-name", "the name of a log of fio's ends in _lat.1.log, _iops.1.log or so", where=file.name
                )
            prefix, kind = match["prefix"], match["kind"]
            job = "/".join(filter(None, (match["host"], match["job"])))
            try:
                with file.open() as content:
                    logs.of.setdefault(kind, {})[job] = read_log(content, latencies=kind in _LATENCIES)
            except Garbage as reason:
                raise Unreadable(reason.kind, str(reason), where=file.name) from None
        loads = list(_loads(logs))
        if not loads:
            raise Unreadable("empty", "the logs are empty", where=files[0].name)
        for load in loads:
            yield self._record(load, prefix)

    def _record(self, logs: _Logs, prefix: str) -> Record:
        rates = _rates(logs)
        figures = self._singles(logs, rates) if rates else _averages(logs)
        jobs = sorted({job for kind in logs.of.values() for job in kind})
        hosts = {host for job in jobs if (host := job.rpartition("/")[0])}
        params: dict[str, Any] = {"numjobs": len(jobs) // max(len(hosts), 1)}
        if hosts:
            params["fleet"] = len(hosts)
        sizes = {size for log in rates.values() for size in log.sizes}
        if len(sizes) == 1:
            params["bs"] = min(sizes)
        starts = [log.start_ms for log in rates.values() if log.unix]
        return Record(
            params=params,
            figures=figures,
            name=shown(prefix, 80),
            labels={"log": shown(prefix)},
            started=min(starts) / 1000 if starts else None,
        )

    def _singles(self, logs: _Logs, rates: Mapping[str, Log]) -> Figures:
        start, end = min(log.start_ms for log in rates.values()), max(log.last_ms + 1 for log in rates.values())
        unix = all(log.unix for log in rates.values())
        runtime = end - start if unix else max(log.runtime_ms for log in rates.values())
        ways = [way for way in WAYS if way != "trim" or any(way in log.ways for log in rates.values())]
        ios = {way: sum(log.ways[way].ios for log in rates.values() if way in log.ways) for way in ways}
        size = {way: sum(log.ways[way].size for log in rates.values() if way in log.ways) for way in ways}
        total = sum(ios.values())
        metrics = {
            "iops": total * 1000 / runtime,
            "bw": sum(size.values()) * 1000 / runtime,
            **of_mix("iops", {way: n * 1000 / runtime for way, n in ios.items()}),
            **of_mix("bw", {way: n * 1000 / runtime for way, n in size.items()}),
        }
        steps = {
            name: 1 / n + 1 / runtime
            for way, n in {"": total, **ios}.items()
            for name in (own_metric("iops", way), own_metric("bw", way))
            if name in metrics
        }
        load: dict[str, Any] = {
            "ios": ios,
            "bytes": size,
            "iops": {way: ios[way] * 1000 / runtime for way in ways},
            "runtime_ms": runtime,
            "runtime_ms_min": min(log.runtime_ms for log in rates.values()),
            "jobs": len(rates),
            **_course(rates, start if unix else 0),
        }
        if unix and len(rates) > 1:
            load["parts"] = [
                {"name": job, "ios": log.ios, "start_ms": log.start_ms, "end_ms": log.last_ms + 1}
                for job, log in rates.items()
            ]
        latencies, histograms, definition, notes = self._latencies(logs)
        fio: dict[str, Any] = {"jobs": len(rates)} | ({"warnings": "\n".join(notes)} if notes else {})
        context = {"load": load, "fio": fio, "conditions": {"tool": "fio", **definition}}
        return Figures(metrics | latencies, histograms, context, steps)

    def _latencies(self, logs: _Logs) -> tuple[dict[str, float], dict[str, Bins], dict[str, str], list[str]]:
        """Metrics, histograms, conditions, notes."""
        if any(logs.averaged(kind) for kind in _LATENCIES):
            return {}, {}, {}, [_AVERAGED]
        singles = {kind: by_job for kind in _LATENCIES if (by_job := logs.single(kind))}
        unit = self.options.unit or _unit(singles)
        if unit is None:
            return {}, {}, {}, [_UNIT] if singles else []
        histograms = {
            f"{way}.{kind}": bins
            for kind, by_job in singles.items()
            for way in WAYS
            if (bins := merge(log.bins(way, unit) for log in by_job.values() if way in log.ways))
        }
        kind = self.options.percentiles
        definition = {} if kind == "lat" else {"metric_definition": "latency is clat: completion alone"}
        if kind == "clat":
            histograms = {name: bins for name, bins in histograms.items() if not name.endswith(".lat")}
            histograms |= {name[:-4] + "lat": b for name, b in histograms.items() if name.endswith(".clat")}
        if kind not in singles:
            return {}, histograms, definition, [_CLAT_ONLY] if "clat" in singles else []
        sums = [(way, log.mean(way, unit), log.ways[way].ios) for log in singles[kind].values() for way in log.ways]
        mean = sum(value * n for _, value, n in sums) / sum(n for _, _, n in sums)
        by_way = {
            way: sum(value * n for name, value, n in sums if name == way) / sum(n for name, _, n in sums if name == way)
            for way in {way for way, _, _ in sums}
        }
        latencies = {"lat_mean": mean, **of_mix("lat_mean", by_way), **percentiles(histograms)}
        return latencies, histograms, definition, []


def _loads(logs: _Logs) -> Iterator[_Logs]:
    """The logs of jobs that did the same; those of intervals all together."""
    rates = _rates(logs)
    if not rates:
        if logs.averaged("iops") or logs.averaged("bw"):
            yield logs
        return
    alike: dict[tuple[Any, ...], list[str]] = {}
    for job, log in rates.items():
        alike.setdefault((tuple(sorted(log.ways)), tuple(sorted(log.sizes))), []).append(job)
    for jobs in alike.values():
        yield logs.keep(jobs)


def _rates(logs: _Logs) -> dict[str, Log]:
    """The logs in which the I/Os are counted; empty if there are averages alone."""
    return next((by_job for kind in (*_LATENCIES[:2], "iops", "bw", "slat") if (by_job := logs.single(kind))), {})


def _unit(singles: Mapping[str, Mapping[str, Log]]) -> Unit | None:
    """Unit common to all logs: submission alone may take less than a microsecond."""
    units = {log.unit for kind in ("lat", "clat") for log in singles.get(kind, {}).values()} - {None}
    return units.pop() if len(units) == 1 else None


def _course(rates: Mapping[str, Log], start: int) -> dict[str, Any]:
    """IOPS over time, without the last interval, which is cut off. Jobs begin where their own time does."""
    shifted = [(max(log.start_ms - start, 0) // SLOT_MS, log.slots) for log in rates.values()]
    length = max(at + len(slots) for at, slots in shifted)
    if not all(len(slots) for _, slots in shifted) or length > 10**6:
        return {}
    total = [0] * length
    for at, slots in shifted:
        for i, n in enumerate(slots.tolist(), start=at):
            total[i] += n
    each = 1000 // SLOT_MS if length * SLOT_MS >= _SECOND_FROM else 1
    interval = each * SLOT_MS
    whole = (length - 1) // each * each
    return series(interval, [sum(total[i : i + each]) * 1000 / interval for i in range(0, whole, each)])


def _averages(logs: _Logs) -> Figures:
    """Metrics of averages over intervals: mean rates, and the course."""
    metrics, load, steps = {}, {}, {}
    for metric, kind, factor in (("iops", "iops", 1), ("bw", "bw", 1024)):
        interval, rates = _sums(logs.averaged(kind))
        if rates:
            metrics[metric] = sum(rates) / len(rates) * factor
            steps[metric] = 1 / len(rates)
            load.update(series(interval, rates) if metric == "iops" else {})
    context: dict[str, Any] = {
        "load": {**load, "jobs": max((len(kind) for kind in logs.of.values()), default=0)},
        "fio": {"warnings": _AVERAGED} if any(logs.averaged(kind) for kind in _LATENCIES) else {},
        "conditions": {"tool": "fio", "metric_definition": "mean of fio's averages over intervals (log_avg_msec)"},
    }
    return Figures(metrics, {}, context, steps)


def _sums(logs: Mapping[str, Log]) -> tuple[float | None, list[float]]:
    """Interval in ms, and the rates of all jobs and directions in each that all of them have."""
    courses = [values for log in logs.values() for values in log.averages.values()]
    times = sorted({time for values in courses for time in values})
    gaps = [b - a for a, b in pairwise(times) if b - a > 2]  # now and then fio is a millisecond late
    if not gaps:
        return None, [sum(sum(values.values()) / len(values) for values in courses)] if courses else []
    interval = median(gaps)
    slots: dict[int, list[float]] = {}
    for values in courses:
        for slot, value in {round(time / interval): value for time, value in values.items()}.items():
            slots.setdefault(slot, []).append(value)
    return interval, [sum(rates) for _, rates in sorted(slots.items()) if len(rates) == len(courses)]


PLUGIN = FioLog(FioLogOptions())
