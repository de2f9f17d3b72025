"""sysbench 0.4 to 1.x: the output of ``sysbench fileio run`` and of the oltp tests.

Format: ``src/sysbench.c`` (options, general figures), ``src/tests/fileio/sb_fileio.c``, ``src/db_driver.c`` and
``src/sb_histogram.c`` of sysbench's source, 0.4.12, 0.5, 1.0.20 and the later 1.1, which each word some lines anew.

An *event* of fileio is a read, a write or an fsync: latencies are of all of them, IOPS of reads and writes alone.
Before 1.0 a report has counts in place of rates, and the sum of times in seconds.
With ``--report-checkpoints`` each report counts from the one before: events and times add up, percentiles do not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent, same
from fairlane.importers._reading import MIB, MS
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import of_mix
from fairlane.records import Figures, Histogram
from fairlane.stats.histogram import percentiles

_BANNER = re.compile(r"\s*sysbench (\d[\w.+-]{0,40})(?: \(using|:\s+multi-threaded system evaluation benchmark)")
_RUNNING = "Running the test with following options:"
"""A line of a run; ``prepare`` and ``cleanup`` print the banner, too."""
_N = r"([0-9][0-9.]{0,30})"
_LINES: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "threads": r"Number of threads: (\d{1,9})$",
        "interval": r"Report intermediate results every (\d{1,9}) second",
        "rate": r"Target transaction rate: (\d{1,12})/sec",
        "warmup": r"Warmup time: (\d{1,9})s",
        "flags": r"Extra file open flags: (.{0,60})",
        "total": r"(\S{1,20}) total file size$",
        "bs": r"Block size (\S{1,20})$",
        "merged": r"Merging requests up to",
        "ratio": rf"Read/Write ratio for combined random IO test: {_N}$",
        "engine": r"Using (\S{1,20}) I/O mode$",
        "mode": r"Doing (.{1,60}) test$",
        "read_iops": rf"\s*(?:reads/s:|read:\s+IOPS=)\s*{_N}",
        "write_iops": rf"\s*(?:writes/s:|write:\s+IOPS=)\s*{_N}",
        "fsyncs": rf"\s*(?:fsyncs/s:|fsync:\s+IOPS=)\s*{_N}",
        "read_mib": rf"\s*(?:read, MiB/s:\s*|read:\s+IOPS=\S+ ){_N}",
        "write_mib": rf"\s*(?:written, MiB/s:\s*|write:\s+IOPS=\S+ ){_N}",
        "transactions": rf"\s*transactions:\s+([0-9]{{1,18}})\s*\({_N} per sec",
        "errors": r"\s*(?:ignored errors|deadlocks):\s+([0-9]{1,18})\s*\(",
        "time": rf"\s*(?:total time|time elapsed):\s+{_N}s$",
        "events": r"\s*total number of events:\s+([0-9]{1,18})$",
        "avg": rf"\s*avg:\s+{_N}(?:ms)?$",
        "percentile": rf"\s*(?:approx\.\s+)?([0-9]{{1,3}})(?:th)? percentile:\s+{_N}(?:ms)?$",
        "sum": rf"\s*sum:\s+{_N}$",
        # before 1.0
        "done": r"Operations performed:\s+([0-9]{1,18}) [Rr]eads?, ([0-9]{1,18}) [Ww]rites?, ([0-9]{1,18}) Other",
        "rate_done": rf"\s*{_N} Requests/sec executed$",
        "seconds": rf"\s*total time taken by event execution:\s+{_N}s?$",
        "fairness": r"\s*execution time \(avg/stddev\):",
    }.items()
}
_SERIES = re.compile(
    rf"\[ ?\s{{0,6}}[0-9]{{1,9}}s ?\] (?:reads: {_N} Mi?B/s writes: {_N} Mi?B/s|(?:thds|threads): \d+,? tps: {_N}[ ,])"
)
_BIN = re.compile(r"\s*([0-9]{1,9}\.[0-9]{1,6}) \|[* ]* ([0-9]{1,18})$")
_MODES = {
    "sequential write (creation)": "write",
    "sequential rewrite": "write",
    "sequential read": "read",
    "random read": "randread",
    "random write": "randwrite",
    "random r/w": "randrw",
}
_O_DIRECT = 0x4000
_STEP = 0.005
"""Milliseconds by which a printed latency may be off: sysbench prints two decimals, in the histogram three."""
_BIN_ERROR = 0.009
"""Share by which a percentile may be off: 1024 bins, evenly on a logarithmic scale from 1 us to 100 s."""


@dataclass
class _Run:
    """One run, as read."""

    version: str
    line: int
    options: dict[str, str] = field(default_factory=dict)
    reports: list[dict[str, tuple[str, ...]]] = field(default_factory=list)
    """One per report; the last one is open until its ``sum`` is read."""
    bins: dict[int, int] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)
    fatal: str = ""
    open: bool = False
    running: bool = False

    @property
    def old(self) -> bool:
        """Whether its version is before 1.0."""
        return self.version.startswith("0.")


class Sysbench(Importer):
    """A file may hold several runs, one after the other."""

    title = "sysbench 0.4 to 1.x fileio and oltp, text output"
    source = "sysbench's source: src/sysbench.c, src/tests/fileio/sb_fileio.c, src/db_driver.c, src/sb_histogram.c"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        if b"sysbench " not in head:  # quick: most files of a large import are others
            return False
        return any(_BANNER.match(line) for line in head.decode(errors="replace").splitlines())

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            every = 0
            for run in _runs(file):
                if run.running or run.fatal:
                    every += 1
                    yield _record(run, file.name)
            if not every:
                raise Unreadable("cut-off", f"expected a line {_RUNNING!r}: cut off, or not of a run", where=file.name)


def _runs(file: Source) -> Iterator[_Run]:
    run: _Run | None = None
    for number, line in reading.lines(file):
        if banner := _BANNER.match(line):
            if run:
                yield run
            run = _Run(banner[1], number)
        elif run:
            _line(run, line.strip(), f"{file.name}:{number}")
    if run is None:
        raise Unreadable("not-this-tool", "expected a line like 'sysbench 1.0.20 (using ...)'", where=file.name)
    yield run


def _line(run: _Run, line: str, where: str) -> None:
    if line.startswith("FATAL: "):
        run.fatal = run.fatal or reading.shown(line, 300)
    elif line.startswith(_RUNNING):
        run.running = True
    elif point := _SERIES.match(line):
        if len(run.rates) <= reading.POINTS:
            rates = [reading.number(text, where, "a rate") for text in point.groups() if text]
            run.rates.append(sum(rates))
    elif bin_ := _BIN.match(line):
        ns = round(reading.number(bin_[1], where, "a latency") * MS)
        run.bins[ns] = run.bins.get(ns, 0) + reading.whole(bin_[2], where, "a count")
    else:
        for name, pattern in _LINES.items():
            if match := pattern.match(line):
                _keep(run, name, match.groups(), where)


def _keep(run: _Run, name: str, groups: tuple[str, ...], where: str) -> None:
    if not _is_result(name):
        run.options.setdefault(name, groups[0] if groups else "yes")
        return
    if name == "fairness" and not run.old:
        return
    if not run.open:
        run.reports.append({})
        run.open = True
    if name in run.reports[-1]:
        raise Unreadable("report-twice", f"{name} stands twice in one report", where=where)
    run.reports[-1][name] = groups
    if name == ("fairness" if run.old else "sum"):
        run.open = False


def _is_result(name: str) -> bool:
    return list(_LINES).index(name) >= list(_LINES).index("read_iops")


def _record(run: _Run, name: str) -> Record:
    where = f"{name}:{run.line}"
    params = _params(run, where)
    conditions = {"tool": "sysbench", "tool_version": run.version}
    if run.fatal:
        return Record(params, failed=run.fatal)
    reports = run.reports
    if not reports or run.open:
        raise Unreadable("cut-off", "the run ends before its report: cut off?", where=where)
    last = reports[-1]
    load: dict[str, Any] = {"reports": len(reports)}
    if all("events" in report for report in reports):  # fileio of 1.1 does not count them
        load["events"] = int(sum(_figure(report, "events", where) for report in reports))
        if not load["events"]:
            return Record(params, failed="sysbench completed no event")
    if "time" in last:
        load["runtime_ms"] = _figure(last, "time", where) * 1000
    if "transactions" in last:
        metrics = {"tps": _rate(reports, where)}
        load |= {"errors": int(sum(_figure(report, "errors", where) for report in reports if "errors" in report))}
        kind, key = "tx", "tps"
    elif "read_iops" in last:
        metrics = _io(reports, load, where)
        kind, key = "all", "iops"
    elif "done" in last:
        metrics = _io_counted(last, params, load, where)
        kind, key = "all", "iops"
    else:
        raise Unreadable(
            "report-unsupported",
            "expected a fileio or oltp report: other sysbench tests say nothing of storage",
            where=where,
        )
    whole = len(reports) == 1
    histograms: dict[str, Histogram] = {f"{kind}.lat": reading.histogram(run.bins, where)} if run.bins and whole else {}
    steps = _latencies(reports, metrics, where)
    ranked = {name: ns for name, ns in percentiles(histograms).items() if ns}
    metrics |= ranked
    steps |= {name: _STEP / 10 * MS / ns + _BIN_ERROR for name, ns in ranked.items()}
    load |= _series(run, key)
    context = {"load": load, "conditions": conditions}
    if "warmup" not in run.options:
        _agree(reports, where)
    # under --rate latency includes the time before an event is sent
    in_flight = None if "rate" in run.options else params.get("numjobs")
    return consistent(Record(params, Figures(metrics, histograms, context, steps)), where, in_flight=in_flight)


def _agree(reports: list[dict[str, tuple[str, ...]]], where: str) -> None:
    """Figures that a report has twice. Raises Unreadable."""
    if len(reports) > 1:
        return
    report = reports[0]
    if "transactions" in report and "time" in report and (seconds := _figure(report, "time", where)) > 1:
        count, rate = (_figure(report, "transactions", where, place) for place in (0, 1))
        same(count / seconds, rate, "transactions / total time, and their rate", where)
    if {"events", "sum", "avg"} <= report.keys() and (events := _figure(report, "events", where)):
        total, mean = _figure(report, "sum", where), _figure(report, "avg", where)
        if mean > 100 * _STEP:
            same(total / events, mean, "sum of latencies / events, and the average, ms", where)


def _figure(report: dict[str, tuple[str, ...]], key: str, where: str, place: int = 0) -> float:
    if key not in report:
        raise Unreadable("key-missing", f"a report without its line {key!r}", where=where)
    return reading.number(report[key][place], where, key)


def _rate(reports: list[dict[str, tuple[str, ...]]], where: str) -> float:
    if len(reports) == 1:
        return _figure(reports[0], "transactions", where, 1)
    seconds = _figure(reports[-1], "time", where)
    if not seconds:
        raise Unreadable("no-time", "a run of 0 seconds", where=where)
    return sum(_figure(report, "transactions", where) for report in reports) / seconds


def _io(reports: list[dict[str, tuple[str, ...]]], load: dict[str, Any], where: str) -> dict[str, float]:
    if len(reports) > 1:
        raise Unreadable(
            "report-unsupported",
            "checkpoint reports of fileio are rates without their times and do not add up",
            where=where,
        )
    report = reports[0]
    iops = {way: _figure(report, f"{way}_iops", where) for way in ("read", "write")}
    size = {way: _figure(report, f"{way}_mib", where) * MIB for way in ("read", "write")}
    load |= {"iops": iops, "fsyncs": _figure(report, "fsyncs", where)}
    return {"iops": sum(iops.values()), "bw": sum(size.values()), **of_mix("iops", iops), **of_mix("bw", size)}


def _io_counted(
    report: dict[str, tuple[str, ...]], params: dict[str, Any], load: dict[str, Any], where: str
) -> dict[str, float]:
    """Before 1.0: counts, whose rates are over the whole time. Bytes are printed in four digits; of one block size the
    count is exact."""
    seconds = _figure(report, "time", where)
    ios = {way: _figure(report, "done", where, place) for place, way in enumerate(("read", "write"))}
    rate = sum(ios.values()) / seconds if seconds else 0.0
    if abs(rate - _figure(report, "rate_done", where)) > 0.01 + 0.01 * rate:
        raise Unreadable(
            "contradiction", f"{rate:.2f} requests per second are not those of 'Requests/sec executed'", where=where
        )
    if not rate:
        raise Unreadable("no-io", "no read and no write completed", where=where)
    iops = {way: count / seconds for way, count in ios.items()}
    load |= {"iops": iops, "fsyncs": _figure(report, "done", where, 2) / seconds}
    metrics = {"iops": rate, **of_mix("iops", iops)}
    if bs := params.get("bs"):
        metrics |= {"bw": rate * bs, **of_mix("bw", {way: value * bs for way, value in iops.items()})}
    return metrics


def _latencies(reports: list[dict[str, tuple[str, ...]]], metrics: dict[str, float], where: str) -> dict[str, float]:
    """Puts mean and percentile into ``metrics`` and returns the steps of their figures."""
    steps = {}
    if all("events" in report for report in reports):
        # the quotient that the printed average is, which has two decimals only: 0.00 for anything below 5 us
        events = sum(_figure(report, "events", where) for report in reports)
        total = sum(
            _figure(report, "seconds", where) * 1000 if "seconds" in report else _figure(report, "sum", where)
            for report in reports
        )
        mean, step = total / events, _STEP * len(reports) / total if total else 0.0
    else:
        mean = _figure(reports[0], "avg", where)
        step = _STEP / mean if mean else 0.0
    if mean:
        metrics["lat_mean"], steps["lat_mean"] = mean * MS, step
    if len(reports) == 1 and "percentile" in reports[0]:
        percent, value = (_figure(reports[0], "percentile", where, place) for place in (0, 1))
        name = reading.percentile_name(percent)
        if name and value:
            metrics[name] = value * MS
            steps[name] = _STEP / value + _BIN_ERROR
    return steps


def _series(run: _Run, key: str) -> dict[str, Any]:
    interval = float(run.options.get("interval", "0")) * 1000
    rates = run.rates
    if key == "iops":  # printed as MiB/s: I/Os if all have one size
        bs = reading.size(run.options.get("bs", "")) or 0
        if not bs or "merged" in run.options:
            return {}
        rates = [rate * MIB / bs for rate in rates]
    return reading.series(interval, rates, key)


def _params(run: _Run, where: str) -> dict[str, Any]:
    options = run.options
    rw = _MODES.get(options.get("mode", ""))
    mix: float | None = None
    if rw == "randrw" and "ratio" in options:
        ratio = reading.number(options["ratio"], where, "the read/write ratio")
        mix = round(100 * ratio / (1 + ratio), 2)
    return reading.known(
        rw=rw,
        bs=reading.size(options.get("bs", "")),
        numjobs=int(options["threads"]) if "threads" in options else None,
        rwmixread=mix,
        size=reading.size(options.get("total", "")),
        direct=_direct(run),
        engine=options.get("engine"),
        ramp=int(options["warmup"]) * 10**9 if "warmup" in options else None,
        rate_tps=int(options["rate"]) if "rate" in options else None,
    )


def _direct(run: _Run) -> bool | None:
    """Whether files were opened with O_DIRECT; before 1.0 the flags are a number, as on x86."""
    flags = run.options.get("flags")
    if flags is None or not run.old:
        return None if flags is None else "directio" in flags
    if not flags.isdecimal():
        return None
    return {0: False}.get(int(flags), True if int(flags) & _O_DIRECT else None)


PLUGIN = Sysbench()
