"""HdrHistogram: logs of intervals (.hlog) and tables of percentiles (.hgrm), as jHiccup, YCSB, wrk2 and others write.

Formats: ``HistogramLogWriter`` (log versions 1.2 and 1.3, encoding V2) and ``outputPercentileDistribution`` of
HdrHistogram's source.

Neither says in which unit the values are, nor what was timed: the map's ``unit`` and ``rate`` do. Each tag of a log is
a trial, its intervals merged. Of a table each percentile is that of the first row at or beyond it; rows are up to a
tenth of the rest apart, and the step of the figure is how far the row before lies below.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fairlane.errors import Garbage
from fairlane.formats.hdr_histogram import decode
from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures, Histogram
from fairlane.stats.histogram import BEYOND, PERCENTILES, beyond, mean, percentiles
from fairlane.study.strict import Strict

_LONGEST = 4 * 2**20
"""Most bytes of a line: an interval may have tens of thousands of bins."""
_LOG = b"#[Histogram log format version "
_START = re.compile(r"#\[StartTime: ([0-9]{1,12}(?:\.[0-9]{1,9})?) \(seconds since epoch\)")
_INTERVAL = re.compile(
    r"(?:Tag=([^,]{1,200}),)?([0-9]{1,12}(?:\.[0-9]{1,9})?),([0-9]{1,12}(?:\.[0-9]{1,9})?),[0-9.eE+-]{1,40},(HIST[\w+/=]+)$"
)
_HEADER = re.compile(r"\s*Value\s+Percentile\s+TotalCount\s+1/\(1-Percentile\)")
_ROW = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,12})?)\s+([01]\.[0-9]{1,12})\s+([0-9]{1,18})(?:\s+\S{1,30})?$")
_MEAN = re.compile(r"#\[Mean\s+=\s+([0-9]{1,18}(?:\.[0-9]{1,12})?)")
_TOTAL = re.compile(r"#\[Max\s+=\s+[0-9.]{1,40}, Total ?[cC]ount\s+=\s+([0-9]{1,18})(?:\.0{1,6})?\]")
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_UNKNOWN = "does not say the unit of its values; say it in a map: hdrhistogram: {unit: us} (ns, us, ms or s)"
_MOST = 1000
"""Most tags of a log, or tables of a file."""


class HdrHistogramOptions(Strict):
    """What a log or table of HdrHistogram does not say."""

    unit: Literal["ns", "us", "ms", "s"]
    """Unit of the recorded values; of a table, of the column Value as it is printed."""
    rate: Literal["", "tps", "iops"] = ""
    """What the counts per second of a log are. Empty: not a rate (jHiccup, or counts corrected for coordinated
    omission)."""


@dataclass
class _Tag:
    """The intervals of one tag."""

    bins: dict[int, int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    digits: int = 5
    last: float = 0.0


@dataclass
class _Table:
    line: int
    rows: list[tuple[float, int]] = field(default_factory=list)
    """Value, and how many values were up to it."""
    mean: float | None = None


class HdrHistogram(Importer):
    """Each tag of a log is a trial, each table is one."""

    title = "HdrHistogram logs of intervals (.hlog, encoding V2) and percentile tables (.hgrm)"
    source = "HdrHistogram's source: HistogramLogWriter, EncodableHistogram, outputPercentileDistribution"
    Options = HdrHistogramOptions

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        if _LOG in head:
            return True
        return b"TotalCount" in head and any(map(_HEADER.match, head.decode(errors="replace").splitlines()))

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            if self.options is None:
                raise Unreadable("unit-unknown", f"HdrHistogram {_UNKNOWN}", where=file.name)
            if _LOG in file.head():
                yield from self._log(file)
            else:
                yield from self._tables(file)

    def _log(self, file: Source) -> Iterator[Record]:
        tags: dict[str, _Tag] = {}
        started: float | None = None
        for number, line in reading.lines(file, _LONGEST):
            where = f"{file.name}:{number}"
            if start := _START.match(line):
                if tags:
                    raise Unreadable("several-reports", "a second log begins here: split the file", where=where)
                started = float(start[1])
            elif interval := _INTERVAL.match(line.strip()):
                if len(tags) > _MOST:
                    raise Unreadable("too-large", f"more than {_MOST} tags", where=where)
                tag = tags.setdefault(reading.shown(interval[1] or ""), _Tag())
                self._interval(tag, interval, where)
            elif line.strip() and not line.startswith(("#", '"')):
                raise Unreadable("cut-off", "expected an interval 'start,length,max,HIST...': cut off?", where=where)
        for name, tag in tags.items():
            if tag.bins:
                yield consistent(self._of_tag(name, tag, started, file.name), file.name)
        if not any(tag.bins for tag in tags.values()):
            raise Unreadable("empty", "the log has no interval with a value", where=file.name)

    def _interval(self, tag: _Tag, interval: re.Match[str], where: str) -> None:
        begin, length = float(interval[2]), float(interval[3])
        if begin < tag.last:
            raise Unreadable("contradiction", "an interval begins before the one above: two logs in one?", where=where)
        try:
            histogram = decode(interval[4])
        except Garbage as reason:
            raise Unreadable(reason.kind, str(reason), where=where) from None
        factor = _UNITS[self.options.unit]
        for value, count in zip(histogram.values.tolist(), histogram.counts.tolist(), strict=True):
            ns = value * factor
            if ns > reading.LARGEST_FIGURE:
                raise Unreadable("too-large", "a latency that is longer than there can be: another unit?", where=where)
            tag.bins[ns] = tag.bins.get(ns, 0) + count
        tag.counts.append(int(histogram.counts.sum()))
        tag.lengths.append(length)
        tag.digits, tag.last = min(tag.digits, histogram.digits), begin

    def _of_tag(self, name: str, tag: _Tag, started: float | None, where: str) -> Record:
        bins = reading.histogram(tag.bins, where)
        histograms: dict[str, Histogram] = {"all.lat": bins}
        metrics = {"lat_mean": mean(bins), **percentiles(histograms)}
        metrics = {metric: ns for metric, ns in metrics.items() if ns}
        steps = dict.fromkeys(metrics, 10.0**-tag.digits)
        load: dict[str, object] = {"events": sum(tag.counts), "runtime_ms": sum(tag.lengths) * 1000}
        seconds = sum(tag.lengths)
        if self.options.rate and seconds:
            metrics = {self.options.rate: sum(tag.counts) / seconds, **metrics}
            longest = max(tag.lengths)
            if longest - min(tag.lengths) <= 0.05 * longest:
                rates = [count / length for count, length in zip(tag.counts, tag.lengths, strict=True)]
                load |= reading.series(round(1000 * seconds / len(rates), 3), rates, self.options.rate)
        if not metrics:
            raise Unreadable("no-latency", "all values are 0", where=where)
        context = {"load": load, "conditions": {"tool": "HdrHistogram"}}
        labels = reading.known(tag=name)
        return Record({}, Figures(metrics, histograms, context, steps), name=name, labels=labels, started=started)

    def _tables(self, file: Source) -> Iterator[Record]:
        table: _Table | None = None
        count = 0
        for number, line in reading.lines(file):
            where = f"{file.name}:{number}"
            if _HEADER.match(line):
                table = _Table(number)
            elif table and (row := _ROW.match(line)):
                value, total = reading.number(row[1], where, "a value"), reading.whole(row[3], where, "a count")
                if table.rows and (value < table.rows[-1][0] or total < table.rows[-1][1]):
                    raise Unreadable("contradiction", "values or counts fall: two tables in one?", where=where)
                table.rows.append((value, total))
            elif table and (middle := _MEAN.match(line)):
                table.mean = reading.number(middle[1], where, "a mean")
            elif table and (end := _TOTAL.match(line)):
                if not table.rows or table.rows[-1][1] != int(end[1]):
                    raise Unreadable("contradiction", "the last row does not hold the total count", where=where)
                count += 1
                if count > _MOST:
                    raise Unreadable("too-large", f"more than {_MOST} tables", where=where)
                yield consistent(self._of_table(table, f"{file.name}:{table.line}"), f"{file.name}:{table.line}")
                table = None
        if table or not count:
            raise Unreadable("cut-off", "expected a line '#[Max = ..., Total count = ...]': cut off?", where=file.name)

    def _of_table(self, table: _Table, where: str) -> Record:
        factor = _UNITS[self.options.unit]
        total = table.rows[-1][1]
        metrics = {"lat_mean": table.mean * factor} if table.mean else {}
        steps: dict[str, float] = {}
        for name, q in PERCENTILES[""].items():
            if beyond({1: total}, q) < BEYOND:
                continue
            at = next(n for n, (_, up_to) in enumerate(table.rows) if up_to >= q * total)
            if value := table.rows[at][0]:
                metrics[name] = value * factor
                steps[name] = 1 - table.rows[at - 1][0] / value if at else 0.0
        if not metrics or not total:
            raise Unreadable("empty", "a table without values", where=where)
        context = {"load": {"events": total}, "conditions": {"tool": "HdrHistogram"}}
        return Record({}, Figures(metrics, {}, context, steps), name="percentiles")


PLUGIN = HdrHistogram()
