"""DISKSPD: the text that it prints without ``-Rxml``.

Format: ``ResultParser.cpp`` (_PrintSection, _PrintLatencyChart) and ``Common.cpp`` (GetText) of DISKSPD's source, 2.0.x
to 2.2. Each time span is a trial: its targets ran together. Figures are the ``total:`` lines, percentiles those of all
I/Os of all threads (``-L``). A parameter is kept if all targets share it. DISKSPD for Linux prints another text, which
is not read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import MS, US
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.importers.diskspd import measured, moment, pattern
from fairlane.metrics import WAYS, own_metric
from fairlane.records import Figures

_PARAMETERS: dict[str, re.Pattern[str]] = {
    name: re.compile(text)
    for name, text in {
        "duration": r"duration: ([0-9]{1,9})s$",
        "warmup": r"warm up time: ([0-9]{1,9})s$",
        "path": r"path: '(.{0,300})'$",
        "cache": r"(using software cache|software cache disabled|local software cache disabled)",
        "test": r"performing (read|write|mix) test(?: \(read/write ratio: ([0-9]{1,3})/[0-9]{1,3}\))?$",
        "bs": r"block size: ([0-9.]{1,18}[KMGT]?(?:i?B)?)$",
        "order": r"using (?:interlocked )?(random|sequential|mixed random/sequential) I/O",
        "depth": r"number of outstanding I/O operations(?: per thread)?: ([0-9]{1,9})$",
        "limit": r"throughput rate-limited to (.{1,40})$",
        "host": r"computer name: (.{1,200})$",
        "started": r"start time: (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d UTC)$",
        "cpus": r"(?:proc|cpu) count:\s*([0-9]{1,6})$",
    }.items()
}
_OF_SPAN = ("duration", "warmup")
_OF_SYSTEM = ("host", "started", "cpus")
_SPAN = re.compile(r"timespan:\s+([0-9]{1,6})$")
_RESULTS = re.compile(r"Results for timespan ([0-9]{1,6}):")
_SECONDS = re.compile(r"actual test time:\s*([0-9.]{1,20})s")
_THREADS = re.compile(r"thread count:\s*([0-9]{1,6})$")
_BUSY = re.compile(r"avg\.\|\s*([0-9.]{1,8})%")
_PART = re.compile(r"(Total|Read|Write) IO$")
_COLUMNS = {"bytes": "bytes", "I/Os": "ios", "AvgLat": "lat"}
_RANKS = {
    **{f"{n}th": float(n) for n in (25, 50, 75, 90, 95, 99)},
    **{f"{n}-nines": 100 - 10.0 ** (2 - n) for n in range(3, 10)},
}
_INTERRUPTED = "The test was interrupted before the measurements began"
_MOST = 1000
"""Most time spans of a file."""


@dataclass
class _Span:
    """One time span, as read."""

    line: int
    targets: list[dict[str, str]] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    seconds: str = ""
    threads: str = ""
    busy: str = ""
    totals: dict[str, dict[str, str]] = field(default_factory=dict)
    """By direction (read, write; empty: both): column -> text."""
    ranks: dict[float, list[str]] = field(default_factory=dict)
    """Percent -> read, write, total in ms."""
    interrupted: bool = False


@dataclass
class _Result:
    """What one call of DISKSPD printed."""

    spans: dict[str, _Span] = field(default_factory=dict)
    system: dict[str, str] = field(default_factory=dict)


class DiskspdText(Importer):
    """Each time span of a file is a trial; a file may hold several results, one after the other."""

    title = "DISKSPD's text output"
    source = "DISKSPD's source: ResultParser.cpp, Common.cpp"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        if b"Results for timespan " not in head and b"timespan:" not in head:
            return False
        return b"Input parameters:" in head and re.search(rb"^\s*timespan:\s+1\s*$", head, re.MULTILINE) is not None

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            parser = _Parser(file.name)
            for number, line in reading.lines(file):
                parser.line(number, line.strip())
            if not any(result.spans for result in parser.results):
                raise Unreadable("cut-off", "expected 'timespan: 1' and its results: cut off?", where=file.name)
            for result in parser.results:
                for span in result.spans.values():
                    yield consistent(_record(span, result, file.name), f"{file.name}:{span.line}")


class _Parser:
    def __init__(self, name: str) -> None:
        self.name = name
        self.results = [_Result()]
        self._count = 0
        self._span: _Span | None = None
        self._way: str | None = None
        self._columns: list[str] = []
        self._ranks = False

    def line(self, number: int, text: str) -> None:
        where = f"{self.name}:{number}"
        if span := _SPAN.match(text):
            self._count += 1
            if self._count > _MOST:
                raise Unreadable("too-large", f"more than {_MOST} time spans", where=where)
            if span[1] in self.results[-1].spans:
                self.results.append(_Result())
            self._span = self.results[-1].spans[span[1]] = _Span(number)
        elif results := _RESULTS.match(text):
            self._span, self._way, self._ranks = self.results[-1].spans.get(results[1]), None, False
            if self._span is None:
                raise Unreadable("cut-off", "results of a time span whose parameters are missing", where=where)
        elif self._span is None:
            return
        elif self._span.seconds or self._span.interrupted:
            self._result(self._span, text, where)
        elif seconds := _SECONDS.match(text):
            self._span.seconds = seconds[1]
        elif text.startswith(_INTERRUPTED):
            self._span.interrupted = True
        else:
            self._parameter(self._span, text)

    def _parameter(self, span: _Span, text: str) -> None:
        for name, form in _PARAMETERS.items():
            if match := form.match(text):
                if name == "path":
                    span.targets.append({})
                if name in _OF_SYSTEM:
                    self.results[-1].system.setdefault(name, match[1])
                elif name in _OF_SPAN or not span.targets:
                    span.settings.setdefault(name, match[1])
                else:
                    span.targets[-1].setdefault(name, match[1])
                    if name == "test":
                        span.targets[-1].setdefault("reads", match[2] or {"read": "100"}.get(match[1], "0"))

    def _result(self, span: _Span, text: str, where: str) -> None:
        if threads := _THREADS.match(text):
            span.threads = threads[1]
        elif cpus := _PARAMETERS["cpus"].match(text):
            self.results[-1].system.setdefault("cpus", cpus[1])
        elif busy := _BUSY.match(text):
            span.busy = busy[1]
        elif part := _PART.match(text):
            self._way = "" if part[1] == "Total" else part[1].lower()
        elif text.startswith("thread |"):
            self._columns = [column.strip() for column in text.split("|")[1:]]
        elif text.startswith("total:") and self._way is not None and "|" in text:
            cells = [cell.strip() for cell in text.removeprefix("total:").split("|")]
            if len(cells) > len(self._columns):
                raise Unreadable("columns", f"expected {len(self._columns)} columns, found {len(cells)}", where=where)
            pairs = zip(self._columns, cells, strict=False)
            span.totals.setdefault(self._way, {_COLUMNS[name]: cell for name, cell in pairs if name in _COLUMNS})
        elif text.startswith("%-ile |"):
            self._ranks = not span.ranks
        elif self._ranks and "|" in text:
            name, *cells = (cell.strip() for cell in text.split("|"))
            if name in _RANKS and len(cells) == 3:
                span.ranks[_RANKS[name]] = cells


def _record(span: _Span, result: _Result, name: str) -> Record:
    where, system = f"{name}:{span.line}", result.system
    labels = reading.known(host=reading.shown(system.get("host", "")))
    params = _params(span, where)
    if span.interrupted:
        return Record(params, labels=labels, failed=f"{_INTERRUPTED}.")
    seconds = reading.number(span.seconds, where, "'actual test time'") if span.seconds else 0.0
    if not seconds or not {"", *WAYS} <= span.totals.keys():
        raise Unreadable(
            "cut-off",
            "expected 'actual test time' above 0 and the totals of 'Total IO', 'Read IO' and 'Write IO'",
            where=where,
        )
    ios, size = (
        {way: reading.number(span.totals[way].get(column, ""), where, f"the {column} of {way}") for way in ("", *WAYS)}
        for column in ("ios", "bytes")
    )
    for column in (ios, size):
        if column[""] != column["read"] + column["write"]:
            raise Unreadable("contradiction", "reads and writes do not add up to the total", where=where)
    metrics, steps, load = measured({w: ios[w] for w in WAYS}, {w: size[w] for w in WAYS}, seconds, where)
    mix = all(ios[way] for way in WAYS)
    for way in ("", *WAYS) if mix else ("",):
        text = span.totals[way].get("lat", "N/A")
        if text != "N/A" and (mean := reading.number(text, where, "a mean latency")):
            metrics[own_metric("lat_mean", way)] = mean * MS
        for percent, cells in span.ranks.items():
            rank = reading.percentile_name(percent)
            cell = cells[("read", "write", "").index(way)]
            if rank and cell != "N/A" and (value := reading.number(cell, where, "a latency in ms")):
                metrics[own_metric(rank, way)] = value * MS
    steps |= {metric: 0.5 * US / value for metric, value in metrics.items() if metric.startswith("lat_")}
    context: dict[str, Any] = {"load": load, "conditions": {"tool": "diskspd"}}
    if span.busy:
        cpus = int(system["cpus"]) if "cpus" in system else None
        context["machine"] = reading.known(busy=reading.number(span.busy, where, "CPU usage") / 100, cpus=cpus)
    started = moment(system.get("started", "")) if len(result.spans) == 1 else None
    return Record(params, Figures(metrics, {}, context, steps), labels=labels, started=started)


def _params(span: _Span, where: str) -> dict[str, Any]:
    if not span.targets:
        raise Unreadable("cut-off", "expected a 'path:' in the input parameters", where=where)

    def shared(key: str) -> str | None:
        values = {target.get(key) for target in span.targets}
        return values.pop() if len(values) == 1 else None

    reads, order, depth, cache = shared("reads"), shared("order"), shared("depth"), shared("cache")
    depth = depth or span.settings.get("depth")
    share = min(int(reads), 100) if reads is not None else None
    limits = [target.get("limit", "none") for target in span.targets[:32]]
    return reading.known(
        rw=pattern("mixed" if order and "mixed" in order else order, 100 - share)
        if share is not None and order
        else None,
        bs=reading.size(shared("bs") or ""),
        iodepth=int(depth) if depth and int(depth) else None,
        numjobs=int(span.threads) if span.threads and int(span.threads) else None,
        disks=len(span.targets),
        rwmixread=float(share) if share is not None and 0 < share < 100 else None,
        runtime=_ns(span.settings.get("duration")) or None,
        ramp=_ns(span.settings.get("warmup")),
        direct=None if cache is None else cache == "software cache disabled",
        throughput=reading.shown(", ".join(limits)) if set(limits) != {"none"} else None,
    )


def _ns(seconds: str | None) -> int | None:
    return int(seconds) * 10**9 if seconds else None


PLUGIN = DiskspdText()
