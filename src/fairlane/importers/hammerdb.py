"""HammerDB: its text log, the JSON of ``jobs ID result``, the job reports of ``jobs ID save``, and response times
in the same file.

Formats: HammerDB's DocBook manual ("Command Line Interface", "CLI Jobs Interface", "Time Profiling"), and
``modules/jobs-1.0.tm`` (getjobresult, getjobtiming, jobs_report_json) and ``modules/xtprof-1.0.tm`` of its source,
4.x to 6.0; logs of 2.x and 3.x name TPM first ("achieved 66511 Oracle TPM at 22273 NOPM"). TPROC-H (queries) is not
read.

Response times are per stored procedure. Their mean over all calls is the mean of all transactions; percentiles
of procedures do not make one of the whole, and stay in the context. A run with a failed virtual user still prints a
result: it is a failed trial, as is one of 0 NOPM.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent, ordered
from fairlane.importers._reading import MS
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures

_DATABASE = r"([A-Za-z][A-Za-z0-9/ ]{0,40}?)"
_RESULT = re.compile(
    rf"TEST RESULT : System achieved (?:([0-9]{{1,18}}) NOPM from ([0-9]{{1,18}}) {_DATABASE} TPM"
    rf"|([0-9]{{1,18}}) {_DATABASE} TPM at ([0-9]{{1,18}}) NOPM)"  # before 4.0
)
_JOB = re.compile(r"[0-9A-F]{16,32}")
_ACTIVE = re.compile(r"([0-9]{1,9}) Active Virtual Users configured|= ([0-9]{1,9}) Active Sessions configured")
_VERSION = re.compile(r"HammerDB CLI v?([0-9][\w.]{0,20})")
_WAREHOUSES = re.compile(
    r"(?:Changed tpcc:\w{0,20}count_ware from \S{1,20} to ([0-9]{1,9}) for "
    r"|Value ([0-9]{1,9}) for tpcc:\w{0,20}count_ware is the same)"
)
_RAMP = re.compile(r"Beginning rampup time of ([0-9]{1,6}) minutes")
_TIMED = re.compile(r"Timing test period of ([0-9]{1,6}) in minutes")
_FAILED = re.compile(r"Vuser ([0-9]{1,9}):FINISHED FAILED")
_ERROR = re.compile(r"Error in Virtual User [0-9]{1,9}: (.{0,300})")
_PROCEDURE = re.compile(r">>>>> PROC: (\w{1,40})$")
_SUMMARY = re.compile(r">>>>> SUMMARY OF [0-9]{1,9} ACTIVE VIRTUAL USERS")
_CALLS = re.compile(r"CALLS: ([0-9]{1,18})\s.*\sTOTAL: ([0-9.]{1,30})ms")
_RANKS = re.compile(r"P99: ([0-9.]{1,30})ms\s+P95: ([0-9.]{1,30})ms(?:.*\sP50: ([0-9.]{1,30})ms)?")
_MARKS = (b"HammerDB CLI ", b"Hammerdb Log @ ", b"TEST RESULT : System achieved ", b'"hammerdb-job-report-v1"')
_KEYS = {"p99_ms": "lat_p99", "p95_ms": "lat_p95", "p50_ms": "lat_p50"}
_MOST = 10_000
"""Tests in a log."""
_LONGEST = 2**20
"""Characters of the JSON of response times in a log."""


@dataclass
class _Block:
    """JSON in a log, as far as it has been read."""

    lines: list[str] = field(default_factory=list)
    size: int = 0


@dataclass
class _Run:
    """One test, as read."""

    where: str
    nopm: str = ""
    tpm: str = ""
    database: str = ""
    users: str = ""
    version: str = ""
    warehouses: str = ""
    ramp: str = ""
    timed: str = ""
    stamp: str = ""
    error: str = ""
    job: str = ""
    procedures: dict[str, dict[str, float]] = field(default_factory=dict)


class Hammerdb(Importer):
    """A log may hold several tests (an autopilot's); a JSON file holds one."""

    title = "HammerDB 2 to 6, TPROC-C (TPC-C): text log, jobs result (JSON), job report (JSON)"
    source = "HammerDB's manual (DocBook/docs.xml) and modules/jobs-1.0.tm, modules/xtprof-1.0.tm"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        return any(mark in head for mark in _MARKS)

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            runs = _of_json(file) if file.head().lstrip()[:1] in (b"[", b"{") else _of_text(file)
            if not runs:
                raise Unreadable(
                    "not-this-tool", "expected a line 'TEST RESULT : System achieved ...', found none", where=file.name
                )
            for run in runs:
                yield _record(run)


@dataclass
class _Log:
    """A text log, line by line. A CI log has a result twice: of virtual user 1, and as ``jobs result``, which counts
    only if the other is missing."""

    run: _Run
    done: list[_Run] = field(default_factory=list)
    restated: list[_Run] = field(default_factory=list)
    block: _Block = field(default_factory=_Block)
    summary: bool = False
    """Whether the line is in the part of a time profile for all virtual users."""
    procedure: str = ""

    def next_test(self, where: str) -> None:
        """An autopilot's next test begins, if this one is over."""
        if self.run.nopm:
            self.done.append(self.run)
            self.run = _Run(where, version=self.run.version, warehouses=self.run.warehouses)

    def tests(self) -> list[_Run]:
        """All tests, when all lines were read."""
        last = self.run
        if last.nopm or last.error:
            return [*self.done, last]
        for run in () if self.done else self.restated:
            run.version, run.warehouses, run.procedures = last.version, last.warehouses, last.procedures
            run.users = run.users or last.users
        return self.done or self.restated


def _result(text: str) -> tuple[str, str, str] | None:
    """NOPM, TPM and database."""
    match = _RESULT.search(text)
    if match is None:
        return None
    nopm, tpm, database, old_tpm, old_database, old_nopm = match.groups()
    return (nopm, tpm, database) if nopm else (old_nopm, old_tpm, old_database)


def _of_text(file: Source) -> list[_Run]:
    log = _Log(_Run(f"{file.name}:1"))
    for number, line in reading.lines(file):
        where = f"{file.name}:{number}"
        quoted = line.lstrip().startswith('"')
        if log.block.lines or line == "{":
            _collect(log.block, line, log.run, where)
        elif result := _result(line):
            if quoted:
                log.restated.append(_Run(where, *result, log.run.users))
                continue
            log.next_test(where)
            log.run.where = where
            log.run.nopm, log.run.tpm, log.run.database = result
        elif match := _ACTIVE.search(line):
            if not quoted:
                log.next_test(where)
            log.run.users = match[1] or match[2]
        elif not _of_profile(log, line, where):
            if _RAMP.search(line) or _TIMED.search(line):
                log.next_test(where)
            _setting(log.run, line)
        if len(log.done) + len(log.restated) > _MOST:
            raise Unreadable("too-large", f"more than {_MOST} tests", where=where)
    if log.block.lines:
        raise Unreadable("cut-off", "the JSON in it is cut off", where=file.name)
    return log.tests()


def _of_profile(log: _Log, line: str, where: str) -> bool:
    """Reads a line of a time profile (hdbxtprofile.log) in the same file; False: another kind of line."""
    if line.startswith(">>>>> "):
        match = _PROCEDURE.match(line)
        if match:
            log.procedure = match[1]
        else:
            log.summary = _SUMMARY.match(line) is not None
        return True
    if not (log.summary and log.procedure) or not line.startswith(("CALLS: ", "P99: ")):
        return False
    if log.procedure in log.run.procedures or len(log.run.procedures) < _MOST:
        _profile(log.run.procedures.setdefault(log.procedure, {}), line, where)
    return True


def _setting(run: _Run, line: str) -> None:
    if match := _VERSION.search(line):
        run.version = match[1]
    elif match := _WAREHOUSES.search(line):
        run.warehouses = match[1] or match[2]
    elif match := _RAMP.search(line):
        run.ramp = match[1]
    elif match := _TIMED.search(line):
        run.timed = match[1]
    elif match := _ERROR.search(line):
        run.error = run.error or reading.shown(match[1], 300)
    elif match := _FAILED.search(line):
        run.error = run.error or f"virtual user {match[1]} failed"


def _collect(block: _Block, line: str, run: _Run, where: str) -> None:
    """Collects the lines of the JSON object with response times."""
    block.lines.append(line)
    block.size += len(line) + 1
    if block.size > _LONGEST:
        raise Unreadable("cut-off", "JSON in a log that does not end", where=where)
    if line.rstrip() == "}":
        try:
            tree = json.loads("\n".join(block.lines))
        except (ValueError, RecursionError):
            raise Unreadable("not-this-tool", "expected the JSON of 'jobs timing'", where=where) from None
        block.lines, block.size = [], 0
        _timing(run, tree.items(), where)


def _timing(run: _Run, entries: Any, where: str) -> None:
    for name, entry in entries:
        if isinstance(entry, dict) and "calls" in entry and "total_ms" in entry:
            times = {key: reading.figure(entry, key, where) for key in ("calls", "total_ms", *_KEYS)}
            run.procedures[reading.shown(name, 40)] = {key: value for key, value in times.items() if value is not None}


def _profile(figures: dict[str, float], line: str, where: str) -> None:
    if match := _CALLS.match(line):
        figures["calls"] = reading.number(match[1], where, "calls")
        figures["total_ms"] = reading.number(match[2], where, "a time in ms")
    elif match := _RANKS.match(line):
        for key, text in zip(_KEYS, match.groups(), strict=True):
            if text:
                figures[key] = reading.number(text, where, "a time in ms")


def _of_json(file: Source) -> list[_Run]:
    tree = reading.tree(file)
    run = _Run(file.name)
    if isinstance(tree, list):
        _of_list(run, tree)
    elif isinstance(tree, dict):
        _of_report(run, tree)
    return [run] if run.nopm else []


def _of_list(run: _Run, entries: list[Any]) -> None:
    """``jobs ID result``: job, time, virtual users, result."""
    texts = [text for text in entries if isinstance(text, str)]
    for text in texts:
        if result := _result(text):
            run.nopm, run.tpm, run.database = result
        elif match := _ACTIVE.search(text):
            run.users = match[1] or match[2]
    if texts and _JOB.fullmatch(texts[0]):
        run.job, run.stamp = texts[0], texts[1] if len(texts) >= 3 else ""


def _of_report(run: _Run, report: Mapping[str, Any]) -> None:
    """``jobs ID save``."""

    def part(name: str) -> Mapping[str, Any]:
        value = report.get(name)
        return value if isinstance(value, dict) else {}

    job, config, result = part("job"), part("benchmark_config"), part("result")
    run.nopm, run.tpm, run.users = (_digits(result.get(key)) for key in ("nopm", "tpm", "active_virtual_users"))
    run.warehouses, run.ramp, run.timed = (
        _digits(config.get(key)) for key in ("warehouses", "rampup_minutes", "duration_minutes")
    )
    run.job, run.version, run.database, run.stamp = (
        reading.shown(job.get(key), 60) for key in ("jobid", "hdb_version", "database_display", "timestamp")
    )
    rows = part("response_times").get("rows")
    if isinstance(rows, list):
        _timing(run, [(row.get("name"), row) for row in rows if isinstance(row, dict)], run.where)


def _digits(value: Any) -> str:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if text.isascii() and text.isdigit() and len(text) < 19 else ""


def _record(run: _Run) -> Record:
    minutes = {"ramp": run.ramp, "runtime": run.timed}
    params = reading.known(
        numjobs=int(run.users) if run.users else None,
        scale=int(run.warehouses) if run.warehouses else None,
        **{name: int(text) * 60 * 10**9 for name, text in minutes.items() if text},
    )
    labels = reading.known(job=run.job, database=reading.shown(run.database))
    conditions = (
        {"tool": "HammerDB"} | reading.known(tool_version=run.version.removeprefix("v")) | reading.day(run.stamp)
    )
    if run.error:
        return Record(params, labels=labels, failed=run.error)
    if not int(run.nopm):
        return Record(params, labels=labels, failed="HammerDB achieved 0 NOPM")
    metrics = {"nopm": float(run.nopm)}
    if run.tpm and int(run.tpm):
        metrics["tpm"] = float(run.tpm)
    calls, total = (
        sum(procedure.get(key, 0.0) for procedure in run.procedures.values()) for key in ("calls", "total_ms")
    )
    if calls and total:
        metrics["lat_mean"] = total / calls * MS
    procedures = {
        name: {"calls": procedure.get("calls", 0)}
        | {_KEYS[key]: ms * MS for key, ms in procedure.items() if key in _KEYS}
        for name, procedure in run.procedures.items()
    }
    hammerdb = reading.known(procedures=procedures or None, database=reading.shown(run.database))
    context = {"conditions": conditions, "hammerdb": hammerdb}
    for name, times in procedures.items():
        ordered([times[key] for key in ("lat_p50", "lat_p95", "lat_p99") if key in times], f"{name}, ns", run.where)
    if "tpm" in metrics:  # a new order is one of the transactions
        ordered([metrics["nopm"], metrics["tpm"]], "NOPM and TPM", run.where)
    record = Record(params, Figures(metrics, {}, context, {"nopm": 1 / metrics["nopm"]}), labels=labels)
    return consistent(record, run.where)


PLUGIN = Hammerdb()
