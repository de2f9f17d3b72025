"""pgbench: its output (``-r``, ``-P`` or not), and the logs of ``-l``.

Formats: PostgreSQL's documentation of pgbench, sections "Per-Transaction Logging" and "Aggregated Logging", and
``src/bin/pgbench/pgbench.c`` (printResults, printProgressReport, doLog); versions 9.6 to 19.

* A log of transactions gives the histogram ``tx.lat``, and thereby percentiles. Under ``--rate`` latency counts from
  the time a transaction was scheduled for. With ``--sampling-rate`` the numbers of a client's transactions have holes:
  percentiles of the sample are valid, but it gives no rate.
* ``--aggregate-interval`` leaves sums: a mean and rates, no percentiles.
* ``latency average`` that pgbench derives from the run time is left out where it includes failed transactions.

Logs of one process (``pgbench_log.PID`` and ``pgbench_log.PID.THREAD``) are one trial. Its output is joined with them
if it is called ``pgbench.txt``, ``.out``, ``.log`` or so and lies in the same folder, and their transactions agree.

A file may hold several reports. A line of a report that came before, or comes earlier in a report, begins the next one,
whatever of either is missing: no figure is joined with that of another report. Where clients, rate and latency exclude
each other (Little's law), the file is refused.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from fairlane.formats import pgbench_log
from fairlane.formats.pgbench_log import Log, is_log, process
from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import MS
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures

_N = r"([0-9][0-9.]{0,40})"
_BANNER = re.compile(r"pgbench \((?:PostgreSQL\) )?([0-9][^,]{0,60}?)(?:, server ([^)]{1,60}))?\)?$")
_LINES: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "script": r"transaction type: (.{1,200})$",
        "scale": r"scaling factor: ([0-9]{1,12})$",
        "protocol": r"query mode: (\w{1,20})$",
        "clients": r"number of clients: ([0-9]{1,9})$",
        "threads": r"number of threads: ([0-9]{1,9})$",
        "duration": r"duration: ([0-9]{1,12}) s$",
        "processed": r"number of transactions actually processed: ([0-9]{1,18})(?:/[0-9]{1,18})?$",
        "failed": r"number of failed transactions: ([0-9]{1,18}) \(",
        "skipped": r"number of transactions skipped: ([0-9]{1,18}) \(",
        "average": rf"latency average[:=]? ?=? ?{_N} ms(.{{0,40}})$",
        "stddev": rf"latency stddev[:=]? ?=? ?{_N} ms$",
        "lag": rf"rate limit schedule lag: avg {_N} ",
    }.items()
}
_ORDER = {name: place for place, name in enumerate(_LINES)}
"""As printResults has them, in all versions."""
_TPS = re.compile(rf"tps = {_N}(?: \(([a-z ]{{1,60}})\))?$")
_BEST = ("without initial connection time", "excluding connections establishing", "including reconnection times", "")
"""Definitions of a rate, best first: connecting is no transaction, unless each transaction connects (-C)."""
_PROGRESS = re.compile(rf"progress: ([0-9.]{{1,20}}) s, {_N} tps, lat ")
_ABORTED = "Run was aborted"


_DERIVED, _MEASURED = 0.25, 0.1
"""Shares by which clients may differ from rate x latency: pgbench derives the latency from the other two, up to 9.5
from the time asked for; or it measures it, and clients may wait beside."""


@dataclass
class _Output:
    """The output of one run. Its report begins at ``line``, or else what there is of it."""

    line: int
    version: str = ""
    server: str = ""
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tps: dict[str, float] = field(default_factory=dict)
    progress: list[tuple[float, float]] = field(default_factory=list)
    error: str = ""

    @property
    def begun(self) -> bool:
        """Whether the report has a line."""
        return bool(self.fields or self.tps)

    def includes(self, key: str) -> bool:
        """Whether a line ``key`` cannot come next: pgbench prints each once, in this order, and rates last."""
        return bool(self.tps) or any(_ORDER[other] >= _ORDER[key] for other in self.fields)


class Pgbench(Importer):
    """Outputs are recognised by their lines, logs by name (``PREFIX.PID[.THREAD]``) and first lines."""

    title = "pgbench output, and its logs of transactions (-l), sampled or aggregated too"
    source = "PostgreSQL's documentation of pgbench, and src/bin/pgbench/pgbench.c"

    def claims(self, name: str, head: bytes) -> bool:
        if b"number of clients: " not in head and not process(posixpath.basename(name)):
            return False  # quick: most files of a large import are others
        text = head.decode(errors="replace").splitlines()
        if is_log(name, text):
            return True
        return sum(any(_LINES[key].match(line) for line in text) for key in ("script", "scale", "clients")) == 3

    def group(self, name: str) -> str:
        folder, base = posixpath.split(name)
        alone = not process(base) and base.partition(".")[0].lower() != "pgbench"
        return name if alone else posixpath.join(folder, "pgbench")

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        logs: dict[str, list[Source]] = {}
        outputs: list[tuple[str, _Output]] = []
        for file in files:
            pid = process(posixpath.basename(file.name))
            if pid:
                logs.setdefault(pid, []).append(file)
            else:
                outputs += [(file.name, run) for run in _runs(file)]
        joined = len(logs) == 1 and len(outputs) == 1
        if joined:
            log = _read_log(next(iter(logs.values())))
            name, run = outputs[0]
            if _same(log, run, name):
                yield _record(run, name, log)
            else:
                yield _record(run, name)
                yield _of_log(log)
            return
        for name, run in outputs:
            yield _record(run, name)
        for sources in logs.values():
            yield _of_log(_read_log(sources))


def _runs(file: Source) -> Iterator[_Output]:
    """The runs in a file. What precedes a report (version, progress, an error) is of that report."""
    run, following = _Output(1), _Output(1)
    for number, text in reading.lines(file):
        line, where = text.rstrip(), f"{file.name}:{number}"  # pasted ones have blanks at their ends
        if banner := _BANNER.match(line):
            if run.begun or run.error or run.version:
                yield _ended(run, following)
                run = following
            run.line, following = number, _Output(number)
            run.version, run.server = reading.shown(banner[1]), reading.shown(banner[2] or "")
        elif progress := _PROGRESS.match(line):
            _add_progress(following if run.tps else run, progress, where)
        elif line.startswith("pgbench: error:"):
            target = following if run.tps else run
            target.error = target.error or reading.shown(line, 300)
        elif _ABORTED in line:
            run.error = run.error or reading.shown(line, 300)
        else:
            key, value = _field(line, where)
            if value[0] in run.tps if key == "tps" else key and run.includes(key):
                yield _ended(run, following)
                run, following = following, _Output(number)
            if key and not run.begun:
                run.line = number
            if key == "tps":
                run.tps[value[0]] = float(value[1])
            elif key:
                run.fields[key] = value
    if "clients" not in run.fields and not run.begun and not run.error:
        raise Unreadable("cut-off", "expected pgbench's report ('number of clients: ...'); cut off?", where=file.name)
    run.error = run.error or following.error
    yield _ended(run, following)


def _ended(run: _Output, following: _Output) -> _Output:
    """``run``, with the progress behind it if it has no other: standard error may come behind standard output."""
    if not run.progress:
        run.progress, following.progress = following.progress, []
    return run


def _add_progress(run: _Output, progress: re.Match[str], where: str) -> None:
    time, rate = reading.number(progress[1], where, "a time"), reading.number(progress[2], where, "a rate")
    if run.progress and time <= run.progress[-1][0]:
        raise Unreadable("time-back", f"progress goes back from {run.progress[-1][0]:g} s to {time:g} s", where=where)
    if len(run.progress) <= reading.POINTS:
        run.progress.append((time, rate))


def _field(line: str, where: str) -> tuple[str, tuple[str, ...]]:
    """Name and values of a line of a report; empty for any other line."""
    if tps := _TPS.match(line):
        return "tps", (tps[2] or "", str(reading.number(tps[1], where, "a rate")))
    for name, pattern in _LINES.items():
        if match := pattern.match(line):
            return name, tuple(text or "" for text in match.groups())
    return "", ()


def _read_log(files: Sequence[Source]) -> Log:
    try:
        return pgbench_log.read_log([(file.name, reading.lines(file)) for file in files])
    except pgbench_log.Misread as reason:
        raise Unreadable(reason.kind, str(reason), where=reason.where) from None


def _same(log: Log, run: _Output, name: str) -> bool:
    processed = _count(run, "processed", name)
    return log.count == processed if log.complete else log.count <= processed


def _count(run: _Output, key: str, name: str) -> int:
    return reading.whole(run.fields[key][0], f"{name}:{run.line}", key) if key in run.fields else 0


def _record(run: _Output, name: str, log: Log | None = None) -> Record:
    where = f"{name}:{run.line}"
    params = _params(run, where)
    conditions = reading.known(tool="pgbench", tool_version=run.version)
    if run.error:
        return Record(params, name=_script(run), failed=run.error)
    if "processed" in run.fields and not _count(run, "processed", name):
        return Record(params, name=_script(run), failed="pgbench completed no transaction")
    if "clients" not in run.fields:
        raise Unreadable("cut-off", "a report without 'number of clients: ...'; cut off?", where=where)
    rates = [rate for words, rate in sorted(run.tps.items(), key=_rank) if rate]
    if not rates:
        raise Unreadable("cut-off", "a report without 'tps = ...'; cut off?", where=where)
    metrics = {"tps": rates[0]}
    steps = {}
    average, of_failed = run.fields.get("average", ("", ""))
    if average and "failures" not in of_failed:
        ns = reading.number(average, where, "a latency") * MS
        if ns:
            _agree(run, min(rates), ns, where)
            metrics["lat_mean"], steps["lat_mean"] = ns, 500 / ns
    load = {name: _count(run, name, where) for name in ("processed", "failed", "skipped") if name in run.fields}
    context: dict[str, Any] = {
        "load": load | _series(run),
        "conditions": conditions,
        "pgbench": reading.known(
            script=reading.shown(run.fields.get("script", ("",))[0]),
            protocol=run.fields.get("protocol", ("",))[0],
            server=run.server or None,
            latency="measured" if "stddev" in run.fields else "run time / transactions",
        ),
    }
    record = Record(params, Figures(metrics, {}, context, steps), _script(run))
    return consistent(record if log is None else _joined(record, log), where)


def _agree(run: _Output, tps: float, ns: float, where: str) -> None:
    """Little's law: clients = rate x latency, where pgbench derives the latency; else no more than clients. Under
    ``--rate`` latency includes the time before a transaction is sent, and follows from nothing. Raises Unreadable."""
    if "lag" in run.fields:
        return
    clients, busy = int(run.fields["clients"][0]), tps * ns / 1e9
    rounding = 1 + 500 / ns
    derived = "stddev" not in run.fields
    high = clients * (1 + (_DERIVED if derived else _MEASURED)) * rounding
    low = clients * (1 - _DERIVED) / rounding if derived else 0.0
    if not low <= busy <= high:
        raise Unreadable(
            "contradiction",
            f"{clients} clients, but {tps:g} tps x {ns / MS:g} ms are {busy:.3g}: not of one run",
            where=where,
        )


def _script(run: _Output) -> str:
    """The script as a cell's name: ``pgbench TPC-B``, ``pgbench select only``, ``pgbench own.sql``."""
    text = run.fields.get("script", ("",))[0]
    builtin = re.fullmatch(r"<builtin: (.*)>", text)
    script = builtin[1] if builtin else posixpath.basename(text)
    return f"pgbench {reading.shown(script.replace('(sort of)', ''), 60)}".strip()


def _rank(item: tuple[str, float]) -> int:
    return _BEST.index(item[0]) if item[0] in _BEST else len(_BEST)


def _joined(record: Record, log: Log) -> Record:
    """The output's rate and conditions with the log's latencies."""
    printed, logged = record.figures, log.figures()
    metrics = {**logged.metrics, "tps": printed.metrics["tps"]}
    load = {**logged.context["load"], **printed.context["load"]}
    context = {**printed.context, "load": load, "pgbench": {**printed.context["pgbench"], "latency": "logged"}}
    return replace(record, started=log.started, figures=Figures(metrics, logged.histograms, context, logged.steps))


def _of_log(log: Log) -> Record:
    figures = log.figures()
    context = {**figures.context, "conditions": {"tool": "pgbench"}}
    params = reading.known(numjobs=log.clients if log.complete else None)
    if not log.count:
        return Record(params, failed="pgbench completed no transaction", started=log.started)
    return Record(params, replace(figures, context=context), started=log.started)


def _series(run: _Output) -> dict[str, Any]:
    """Rates of -P, if they came at even intervals (seconds since the start, to one decimal)."""
    times = [time for time, _ in run.progress]
    gaps = [round(after - before, 1) for before, after in pairwise(times)]
    if not gaps or gaps[0] < 1 or any(abs(gap - gaps[0]) > 0.2 for gap in gaps):
        return {}
    return reading.series(round(gaps[0]) * 1000, [rate for _, rate in run.progress], "tps")


def _params(run: _Output, where: str) -> dict[str, Any]:
    fields = {name: groups[0] for name, groups in run.fields.items()}
    counts = {key: reading.whole(fields[key], where, key) for key in ("scale", "clients", "duration") if key in fields}
    # pgbench prints 1 for scripts of the user's own, whatever the tables are
    builtin = fields.get("script", "").startswith(("<builtin:", "TPC-B"))
    return reading.known(
        numjobs=counts.get("clients"),
        scale=counts.get("scale") if builtin else None,
        runtime=counts["duration"] * 10**9 if "duration" in counts else None,
    )


PLUGIN = Pgbench()
