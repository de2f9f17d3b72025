"""Vdbench: ``flatfile.html``, or where that is not there ``summary.html`` or ``totals.html``, of an output directory.

Formats: the Vdbench Users Guide ("Report file descriptions", "Selective flatfile parsing") and ``Flat.java`` and
``Report.java`` of its source, 5.03 to 5.04.07: columns by name in the flatfile, by order in the others.

Each run definition's average (``avg_2-5``: warm-up left out) is a trial; response times are means in ms. Runs that only
format (``SD_format``, ``format_for_...``) are passed over. ``threads`` is per storage definition.
"""

import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent, same
from fairlane.importers._reading import MIB, MS, US
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import METRICS, of_mix
from fairlane.records import Figures

_FILES = ("flatfile.html", "summary.html", "totals.html")
"""Best first."""
_AVERAGE = re.compile(r"avg_[0-9]{1,9}-[0-9]{1,9}")
_FORMAT = re.compile(r"SD_format|format_for_|\w+_format\b")
_START = re.compile(r"Starting RD=([^;<\s]{1,80});(.{0,400})")
_REQUESTED = {"runtime": re.compile(r"\belapsed=([0-9]{1,9})\b"), "ramp": re.compile(r"\bwarmup=([0-9]{1,9})\b")}
_TOD = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2}\.[0-9]{3})")
_TAG = re.compile(r"<[^<>]{0,300}>")
_UNLIMITED = 900_000
"""Vdbench prints an unlimited rate as a number just below a million."""
_STEP = {"rate": 0.00005, "resp": 0.00005}
"""The flatfile has four decimals."""
_DIRECTIONS = ("read", "write")


@dataclass(frozen=True)
class _Started:
    """A run and its options, from ``Starting RD=``."""

    run: str
    requested: Mapping[str, int]


class Vdbench(Importer):
    """The three files of a folder describe the same runs: one of them is read."""

    title = "Vdbench flatfile.html, summary.html, totals.html"
    source = "the Vdbench Users Guide; Flat.java and Report.java of Vdbench's source"

    def claims(self, name: str, head: bytes) -> bool:
        base = posixpath.basename(name)
        if base == "flatfile.html":
            return b"Vdbench" in head and b"reqrate" in head.lower()
        return base in _FILES and (b"Vdbench" in head or b"vdbench" in head or b"Starting RD=" in head)

    def group(self, name: str) -> str:
        return posixpath.join(posixpath.dirname(name), "vdbench")

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        named = {posixpath.basename(file.name): file for file in files}
        best = next((named[name] for name in _FILES if name in named), files[0])
        records = list((_flat if posixpath.basename(best.name) == _FILES[0] else _summary)(best))
        if not records:
            raise Unreadable(
                "cut-off", "expected the average of a run (avg_2-...), found none: cut off?", where=best.name
            )
        other = named.get("summary.html") if best is not named.get("summary.html") else None
        yield from _with_requested(records, other) if other else records


# --- flatfile.html


def _flat(file: Source) -> Iterator[Record]:
    columns: list[str] = []
    points: list[tuple[float, float]] = []
    last = 0
    for number, line in reading.lines(file):
        where = f"{file.name}:{number}"
        fields = line.split()
        if "Interval" in fields and "Run" in fields and not line.startswith("*"):
            columns = fields
        elif columns and len(fields) == len(columns):
            row = {name.lower(): text for name, text in zip(columns, fields, strict=True)}
            if not _AVERAGE.fullmatch(row["interval"]):
                interval = reading.whole(row["interval"], where, "an interval") if row["interval"].isdecimal() else 0
                points, last = (points, last) if interval != 1 else ([], 0)
                if interval and interval <= last:
                    raise Unreadable("time-back", f"interval {interval} after interval {last}", where=where)
                last = interval
                if len(points) <= reading.POINTS and "rate" in row:
                    points.append((_time(row.get("tod", "")), reading.number(row["rate"], where, "a rate")))
                continue
            if not _FORMAT.match(row["run"]):
                yield _of_row(row, _series(points), where)
            points, last = [], 0
        elif columns and fields and not line.startswith(("*", "<")):
            raise Unreadable("columns", f"expected {len(columns)} columns, found {len(fields)}: cut off?", where=where)
    if not columns:
        raise Unreadable("column-missing", "expected a line of column names with Run and Interval", where=file.name)


def _time(text: str) -> float:
    """Seconds since midnight of ``10:01:02.345``; NaN for anything else."""
    match = _TOD.fullmatch(text)
    return int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3]) if match else math.nan


def _series(points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Rates per interval; its length comes from the times of the lines: whole seconds, give or take a late line."""
    gaps = [(after - before) % 86400 for (before, _), (after, _) in pairwise(points)]
    interval = round(gaps[0]) if gaps and math.isfinite(gaps[0]) else 0
    if not interval or not all(abs(gap - interval) < 0.5 for gap in gaps):
        return {}
    return reading.series(interval * 1000, [rate for _, rate in points])


def _of_row(row: Mapping[str, str], series: Mapping[str, Any], where: str) -> Record:
    def number(name: str) -> float | None:
        text = row.get(name, "n/a")
        return None if text in ("n/a", "NaN") else reading.number(text, where, name)

    files = "read_rate" in row  # workloads on file systems have columns of their own
    way_rates = {way: number(f"{way}_rate") for way in _DIRECTIONS} if files else {}
    rate = sum(filter(None, way_rates.values())) if files else number("rate")
    read_share = number("read%")
    if not files and rate is not None and read_share is not None:
        way_rates = {**_shared(rate, read_share, where)}
    resp = {way: number(f"{way}_resp") for way in _DIRECTIONS}
    mean = _weighted(resp, way_rates) if files else number("resp")
    ways = {way: r for way, r in way_rates.items() if r is not None}
    figures = _figures(rate, number("mb/sec"), mean, ways, resp)
    if "iops_read" in figures.metrics:
        size = of_mix("bw", {way: (number(f"mb_{way}") or 0.0) * MIB for way in _DIRECTIONS})
        figures = replace(figures, metrics={**figures.metrics, **size})
    if not figures.metrics:
        return Record(_params(number, files), labels={"run": reading.shown(row["run"])}, failed="no I/O completed")
    context = dict(figures.context)
    if not files and (depth := number("queue_depth")):
        context["vdbench"] = {"queue_depth": depth}
    if (busy := number("cpu_used")) is not None:
        context["machine"] = {"busy": busy / 100}
    context["load"] = {**context["load"], **({} if files else series)}  # of files: all operations, not I/Os alone
    version = reading.shown(row.get("version", ""), 40)
    context["conditions"] = reading.known(
        tool="vdbench", tool_version="" if version == "n/a" else version.removeprefix("vdbench")
    )
    params = _params(number, files)
    name = "" if "rw" in params else reading.shown(row["run"], 60)
    record = Record(params, replace(figures, context=context), name, labels={"run": reading.shown(row["run"])})
    return consistent(record, where)


def _weighted(resp: Mapping[str, float | None], rates: Mapping[str, float | None]) -> float | None:
    """Mean over both directions, in ms."""
    parts = [(resp.get(way), rate) for way, rate in rates.items() if rate]
    if not parts or any(time is None for time, _ in parts):
        return None
    return sum((time or 0.0) * rate for time, rate in parts) / sum(rate for _, rate in parts)


def _params(number: Any, files: bool) -> dict[str, Any]:
    size, threads, rate = (
        number("xfersize"),
        number("threads") if _positive(number, "threads") else None,
        number("reqrate"),
    )
    reads = number("rdpct") if not files else None
    return reading.known(
        rw=_pattern(number, reads) if reads is not None else None,
        bs=int(size) if size else None,
        numjobs=int(threads) if threads else None,
        rwmixread=reads if reads is not None and 0 < reads < 100 else None,
        rate_iops=rate if rate and rate < _UNLIMITED and not files else None,
    )


def _positive(number: Any, name: str) -> bool:
    """Whether the value is a single one: -1 means several."""
    try:
        return bool(number(name))
    except Unreadable:
        return False


def _pattern(number: Any, reads: float) -> str | None:
    kind = {100.0: "read", 0.0: "write"}.get(reads, "rw")
    try:
        seek = number("seekpct")
    except Unreadable:  # -1: sequential, up to the end only
        seek = 0.0
    return {100.0: f"rand{kind}", 0.0: kind}.get(seek) if seek is not None else None


def _figures(
    rate: float | None,
    mb: float | None,
    mean: float | None,
    ways: Mapping[str, float],
    resp: Mapping[str, float | None],
) -> Figures:
    """``ways``: rates by direction, ``resp``: mean response times in ms."""
    metrics: dict[str, float] = of_mix("iops", ways)
    # a direction's rate is the rate times its share, which has as many decimals in percent
    steps = {name: (_STEP["rate"] + (rate or 0.0) * _STEP["rate"] / 100) / value for name, value in metrics.items()}
    if metrics:
        own = of_mix("lat_mean", {way: (ms or 0.0) * MS for way, ms in resp.items()})
        metrics |= own
        steps |= {name: _STEP["resp"] * MS / ns for name, ns in own.items()}
    if rate:
        metrics["iops"], steps["iops"] = rate, _STEP["rate"] / rate
        if mb:
            metrics["bw"], steps["bw"] = mb * MIB, _STEP["rate"] / mb
        if mean:
            metrics["lat_mean"], steps["lat_mean"] = mean * MS, _STEP["resp"] / mean
    return Figures(metrics, {}, {"load": {"iops": dict(ways)}}, steps)


# --- summary.html, totals.html


def _started(file: Source) -> Iterator[tuple[int, str, _Started | None]]:
    """Number and text of each line without its tags, and the run that it starts."""
    for number, line in reading.lines(file):
        text = _TAG.sub("", line)
        match = _START.search(text)
        requested = {key: int(option[1]) for key, p in _REQUESTED.items() if match and (option := p.search(match[2]))}
        yield number, text, _Started(reading.shown(match[1]), requested) if match else None


def _summary(file: Source) -> Iterator[Record]:
    run: _Started | None = None
    unit: int | None = None
    for number, text, started in _started(file):
        where = f"{file.name}:{number}"
        run = started or run
        if "1024**2" in text or "1000**2" in text:
            unit = MIB if "1024**2" in text else 10**6
        elif ".Interval." in text:
            raise Unreadable(
                "report-unsupported", "a workload on a file system: its flatfile.html is read", where=where
            )
        fields = text.split()
        if len(fields) < 2 or not _AVERAGE.fullmatch(fields[1]):
            continue
        if run is None:
            raise Unreadable("no-run", "an average before any 'Starting RD='", where=where)
        if not _FORMAT.match(run.run):
            yield _of_average(run, fields, unit, where)


def _shared(rate: float, reads: float, where: str) -> dict[str, float]:
    """Rates of the directions, of a share of reads in percent."""
    if reads > 100:
        raise Unreadable("not-a-number", f"expected a share of reads, found {reads:g} %", where=where)
    return {"read": rate * reads / 100, "write": rate * (1 - reads / 100)}


def _of_average(run: _Started, fields: Sequence[str], unit: int | None, where: str) -> Record:
    """``time avg_2-5 rate MB/sec bytes read% resp read_resp write_resp ...``."""
    if len(fields) < 9:
        raise Unreadable("cut-off", "expected an average of 8 figures and more: cut off?", where=where)
    names = ("rate", "MB/sec", "bytes/io", "read%", "resp", "read resp", "write resp")
    values = {name: reading.number(text, where, name) for name, text in zip(names, fields[2:9], strict=True)}
    labels = {"run": run.run}
    params = {key: seconds * 10**9 for key, seconds in run.requested.items()}
    reads, rate = values["read%"], values["rate"]
    if not rate:
        return Record(params, labels=labels, name=run.run, failed="no I/O completed")
    ways = _shared(rate, reads, where)
    mb = values["MB/sec"] * unit / MIB if unit else None
    figures = _figures(rate, mb, values["resp"], ways, {way: values[f"{way} resp"] for way in _DIRECTIONS})
    steps = {"iops": 0.005 / rate} | ({"bw": 0.005 / values["MB/sec"]} if mb else {})
    for name, value in figures.metrics.items():
        if name.startswith("lat_"):
            steps[name] = 0.5 * US / value
        elif METRICS[name].way:
            steps[name] = (0.005 + rate * 0.005 / 100) / value
    context = {**figures.context, "conditions": {"tool": "vdbench"}}
    if unit and values["MB/sec"] > 1 and values["bytes/io"]:
        same(rate * values["bytes/io"] / unit, values["MB/sec"], "rate x bytes/io, and MB/sec", where)
    return consistent(Record(params, replace(figures, context=context, steps=steps), run.run, labels=labels), where)


def _with_requested(records: list[Record], summary: Source) -> list[Record]:
    """``records`` of the flatfile with the requested times of summary.html, if that has the same runs."""
    starts = [start for _, _, start in _started(summary) if start and not _FORMAT.match(start.run)]
    if [start.run for start in starts] != [record.labels["run"] for record in records]:
        return records
    return [
        replace(record, params={**record.params, **{key: s * 10**9 for key, s in start.requested.items()}})
        for record, start in zip(records, starts, strict=True)
    ]


PLUGIN = Vdbench()
