"""fio's logs of single I/Os (``write_lat_log``, ``write_iops_log``, ``write_bw_log``): rates, latencies, their course.

Format: fio's HOWTO, "Log File Formats", and ``iolog.c`` (see ``formats.fio_log``). Logs of one prefix in a folder
(``PREFIX_lat.1.log``, ``PREFIX_clat.2.log``, with the host's name behind them in client/server mode;
``PREFIX_lat.log`` of all jobs one after the other) are read together: jobs whose directions or block sizes differ are
records of their own, and so are equal ones, unless it is known that they ran together (see ``_fio_jobs``).

* Rates and latencies come from the lat log; without it from clat, as of json (``percentiles: clat``).
* With ``log_avg_msec`` the logs are averages: IOPS and bandwidth are their mean, weighted by time, there are no
  latencies, because averages over intervals have no weights and no percentiles.
* Where the unit of the latencies is not known, there are only rates, unless the option ``unit`` gives it.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from fairlane.errors import Garbage
from fairlane.formats.fio_log import EPOCH_MS, SLOT_MS, WAYS, Log, Unit, read_logs
from fairlane.formats.record import Record
from fairlane.importers import _fio_jobs
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import POINTS, series, shown
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import of_mix, own_metric
from fairlane.records import Figures
from fairlane.stats.histogram import Bins, merge, percentiles
from fairlane.study.strict import Strict

_NAME = re.compile(r"(?P<prefix>.*)_(?P<kind>lat|clat|slat|iops|bw)(?:\.(?P<job>\d{1,9}))?\.log(?:\.(?P<host>.+))?")
_ROW = re.compile(r"\s*\d{1,18}(?:\s*,\s*(?:\d{1,18}|0x[0-9a-f]{1,8})){3,8}\s*", re.IGNORECASE)
_LATENCIES = ("lat", "clat", "slat")
_KINDS = ("lat", "clat", "iops", "bw", "slat")
"""Best first, for the count of I/Os."""
_SECOND_FROM = 10_000
"""ms; from this length on the series is by the second, in shorter logs by slots."""
_LATE = 1.8
"""Intervals between two rows, from which on there was one without I/O between them."""
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
    jobs: _fio_jobs.Stated = None
    """Whether equal jobs of a prefix ran together (clones of numjobs), so that they are one load and add up, or apart
    (stonewall). fio's logs do not say it."""


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

    def one_kind(self, wanted: str) -> "_Logs":
        """The kind ``wanted`` of latencies, else the first that there is."""
        kind = next((kind for kind in (wanted, *_KINDS) if self.single(kind)), "iops" if self.of.get("iops") else "bw")
        return _Logs({kind: self.of[kind]})


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
        logs, prefix = _read(files)
        loads = list(_loads(logs, self.options.jobs))
        if not loads:
            raise Unreadable("empty", "the logs are empty", where=files[0].name)
        singles = {kind: by_job for kind in _LATENCIES if (by_job := logs.single(kind))}
        unit = self.options.unit or _unit(singles)
        kind = next(kind for kind in _KINDS if logs.of.get(kind))
        where = next(file.name for file in files if f"_{kind}." in posixpath.basename(file.name))
        lines = {job: log.line for job, log in logs.of[kind].items()}
        for load, own in loads:
            record = self._record(own, load, prefix, unit)
            context = dict(record.figures.context)
            context["load"] = {**context["load"], **load.context(lines, where)}
            yield consistent(replace(record, figures=replace(record.figures, context=context)), where)

    def _record(self, logs: _Logs, load: _fio_jobs.Loaded, prefix: str, unit: Unit | None) -> Record:
        if load.part:  # which kind's rows of a shared file are of which job is not certain: one kind is
            logs = logs.one_kind(self.options.percentiles)
        rates = _rates(logs)
        figures = self._singles(logs, rates, unit) if rates else _averages(logs)
        jobs = sorted({job for kind in logs.of.values() for job in kind})
        hosts = {host for job in jobs if (host := job.rpartition("/")[0])}
        params: dict[str, Any] = {"numjobs": len(jobs) // max(len(hosts), 1)} if load.known else {}
        if hosts:
            params["fleet"] = len(hosts)
        sizes = {size for log in rates.values() for size in log.sizes}
        if len(sizes) == 1:
            params["bs"] = min(sizes)
        starts = [log.start_ms for log in rates.values() if log.unix]
        return Record(
            params=params,
            figures=figures,
            name=load.name(shown(prefix, 80)),
            labels={"log": shown(prefix)},
            started=min(starts) / 1000 if starts else None,
        )

    def _singles(self, logs: _Logs, rates: Mapping[str, Log], unit: Unit | None) -> Figures:
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
        latencies, histograms, definition, notes = self._latencies(logs, unit)
        fio: dict[str, Any] = {"jobs": len(rates)} | ({"warnings": "\n".join(notes)} if notes else {})
        context = {"load": load, "fio": fio, "conditions": {"tool": "fio", **definition}}
        return Figures(metrics | latencies, histograms, context, steps)

    def _latencies(
        self, logs: _Logs, unit: Unit | None
    ) -> tuple[dict[str, float], dict[str, Bins], dict[str, str], list[str]]:
        """Metrics, histograms, conditions, notes."""
        if any(logs.averaged(kind) for kind in _LATENCIES):
            return {}, {}, {}, [_AVERAGED]
        singles = {kind: by_job for kind in _LATENCIES if (by_job := logs.single(kind))}
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


def _read(files: Sequence[Source]) -> tuple[_Logs, str]:
    """The logs of all jobs, and their prefix. Raises Unreadable."""
    logs = _Logs()
    prefix, shared = "", dict[int, str]()
    for file in files:
        match = _NAME.fullmatch(posixpath.basename(file.name))
        if not match:
            raise Unreadable(
                "file-name", "the name of a log of fio's ends in _lat.1.log, _iops.1.log or so", where=file.name
            )
        prefix, kind = match["prefix"], match["kind"]
        try:
            with file.text() as content:
                of_file = read_logs(content, latencies=kind in _LATENCIES)
        except Garbage as reason:
            raise Unreadable(reason.kind, str(reason), where=file.name) from None
        if match["job"] and len(of_file) > 1:
            raise Unreadable(
                "time-back", "time goes back, in the log of one job", where=f"{file.name}:{of_file[1].line}"
            )
        if of_file and not match["job"]:
            shared.setdefault(len(of_file), file.name)
        for place, log in enumerate(of_file, 1):
            logs.of.setdefault(kind, {})[_fio_jobs.key(match["host"], match["job"], place, len(of_file))] = log
    if len(shared) > 1:
        (first, name), (other, second) = list(shared.items())[:2]
        raise Unreadable(
            "jobs-differ", f"{first} jobs in {posixpath.basename(name)}, but {other}: one of them is cut", where=second
        )
    return logs, prefix


def _loads(logs: _Logs, stated: _fio_jobs.Stated) -> Iterator[tuple[_fio_jobs.Loaded, _Logs]]:
    """Loads, each with the logs of its jobs, which did the same and ran together."""
    counted = _rates(logs) or logs.averaged("iops") or logs.averaged("bw")
    alike: dict[tuple[Any, ...], dict[str, Log]] = {}
    for job, log in counted.items():
        alike.setdefault((tuple(sorted(log.ways or log.averages)), tuple(sorted(log.sizes))), {})[job] = log
    for jobs in alike.values():
        spans = {job: (log.start_ms, log.last_ms + 1) if log.unix else None for job, log in jobs.items()}
        for load in _fio_jobs.loads(spans, stated):
            yield load, logs.keep(load.jobs)


def _rates(logs: _Logs) -> dict[str, Log]:
    """The logs in which the I/Os are counted; empty if there are averages alone."""
    return next((by_job for kind in _KINDS if (by_job := logs.single(kind))), {})


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
        courses = [sorted(of.items()) for log in logs.averaged(kind).values() for of in log.averages.values()]
        if courses:
            interval = _interval(courses)
            rate, intervals = _mean(courses, interval)
            metrics[metric], steps[metric] = rate * factor, 1 / intervals
            load.update(series(interval, _added(courses, interval)) if metric == "iops" else {})
    context: dict[str, Any] = {
        "load": {**load, "jobs": max((len(kind) for kind in logs.of.values()), default=0)},
        "fio": {"warnings": _AVERAGED} if any(logs.averaged(kind) for kind in _LATENCIES) else {},
        "conditions": {"tool": "fio", "metric_definition": "mean of fio's averages over intervals (log_avg_msec)"},
    }
    return Figures(metrics, {}, context, steps)


_Course = Sequence[tuple[int, float]]
"""Averages of one job and direction: end of the interval in ms, value. An interval without I/O has no row."""


def _interval(courses: Sequence[_Course]) -> float | None:
    """ms; None: there are no two intervals. The shortest usual time between two rows, but for the last, which may be of
    what was left; others are longer by intervals without I/O, and now and then fio is late, and the next one short."""
    gaps: list[int] = []
    for course in courses:
        times = [time for time, _ in course]
        own = [b - a for a, b in pairwise(times)]
        gaps += [gap for gap in (own[:-1] or own) if gap > 2]
        if 2 < times[0] <= EPOCH_MS and own:
            gaps.append(times[0])
    if not gaps:
        return None
    shortest = sorted(gaps)[len(gaps) // 20]
    return median(gap for gap in gaps if 0.6 * shortest < gap < 1.4 * shortest)


def _mean(courses: Sequence[_Course], interval: float | None) -> tuple[float, int]:
    """Rate of all courses together, and the number of intervals of the longest. What was left when a job ended is a row
    of an interval that is cut off, and is left out."""
    if interval is None:
        return sum(sum(value for _, value in course) / len(course) for course in courses), 1
    total = longest = 0.0
    for course in courses:
        start = last = max(course[0][0] - interval, 0.0)
        for time, value in course:
            if time - last > interval / 2:
                # a row after intervals without I/O is of its own alone; one that came late is of all its time
                total += value * (time - last if time - last < _LATE * interval else interval)
                last = float(time)
        longest = max(longest, last - start)
    return total / longest, max(len(course) for course in courses)


def _added(courses: Sequence[_Course], interval: float | None) -> list[float]:
    """The added rates of each interval that all courses have; empty if rows do not lie one to an interval."""
    if interval is None:
        return []
    slots = [{round(time / interval): value for time, value in course} for course in courses]
    first, last = max(min(course) for course in slots), min(max(course) for course in slots)
    if last - first > POINTS or any(
        len(by_slot) != len(course) for by_slot, course in zip(slots, courses, strict=True)
    ):
        return []
    return [sum(by_slot.get(slot, 0.0) for by_slot in slots) for slot in range(first, last + 1)]


PLUGIN = FioLog(FioLogOptions())
