"""SLOB (Oracle): the table of ``misc/awr_info.sh``, and the reports that ``runit.sh`` leaves: awr.txt, statspack.txt.

Formats: ``runit.sh`` and ``misc/awr_info.sh`` of SLOB 2.5; the reports are Oracle's (AWR and Statspack in text form, of
one instance), of which the same lines are read as by awr_info.sh.

``runit.sh`` itself prints no figures. IOPS are the I/O requests of the database per second: with a report all of them
(``physical read/write total IO requests``, whose bytes bandwidth counts), in awr_info's table those to data files, so
that there bandwidth, which includes the redo log, has no matching number of requests and stays in the context. The one
latency is the mean wait for single-block reads (``db file sequential read``): ``lat_read_mean``. The sessions are the
end of a report's name (awr.txt.128), as SLOB has it.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent, same
from fairlane.importers._reading import MIB, US
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import of_mix
from fairlane.records import Figures

_HEADER = ("FILE", "SESSIONS", "ELAPSED", "PREADS", "PWRITES")
_REPORT = re.compile(r"(?:awr|statspack)\.txt(?:\.([0-9]{1,6}))?$")
_TITLES = (b"WORKLOAD REPOSITORY report for", b"STATSPACK report for")
_ROW = re.compile(r"(physical (?:read|write) total (?:IO requests|bytes))\s+(\S{1,30})\s+(\S{1,30})\s+(\S{1,30})\s*$")
_ELAPSED = re.compile(r"\s*Elapsed:\s+([0-9.,]{1,20})\s+\(mins\)")
_SEQUENTIAL = "db file sequential read"
_WAIT = re.compile(rf"{_SEQUENTIAL}\s+(\S.{{0,120}})$")
_PLAIN = re.compile(r"[0-9,]{1,20}(?:\.[0-9]{1,6})?")
_RELEASE = re.compile(r"\s([0-9]{1,2}(?:\.[0-9]{1,3}){3,4})\s+(?:YES|NO)\s*$")
_KINDS = {"physical read total": "read", "physical write total": "write"}


class Slob(Importer):
    """Each line of the table is a trial, each report is one."""

    title = "SLOB: awr_info.sh table, awr.txt and statspack.txt"
    source = "SLOB's runit.sh and misc/awr_info.sh; Oracle's AWR and Statspack reports as text"

    def claims(self, name: str, head: bytes) -> bool:
        if head.startswith(b"FILE|SESSIONS|ELAPSED|"):
            return True
        return _REPORT.search(posixpath.basename(name)) is not None and any(title in head for title in _TITLES)

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            yield from _table(file) if file.head().startswith(b"FILE|") else [_report(file)]


def _table(file: Source) -> Iterator[Record]:
    columns: list[str] = []
    rows = 0
    for number, line in reading.lines(file):
        where = f"{file.name}:{number}"
        fields = line.split("|")
        if fields[0] == "FILE":  # awr_info.sh was run again
            columns = fields
            if missing := [name for name in _HEADER if name not in columns]:
                raise Unreadable("column-missing", f"expected a column {missing[0]} in the header", where=where)
        elif line.strip():
            if len(fields) != len(columns):
                raise Unreadable(
                    "columns", f"expected {len(columns) - 1} columns, found {len(fields) - 1}", where=where
                )
            rows += 1
            yield _of_row({name: text.strip() for name, text in zip(columns, fields, strict=True) if name}, where)
    if not rows:
        raise Unreadable("empty", "expected a line per test under the header, found none", where=file.name)


def _of_row(row: Mapping[str, str], where: str) -> Record:
    def figure(name: str) -> float | None:
        return reading.number(row[name], where, name) if row.get(name) else None

    iops = {"read": figure("PREADS") or 0.0, "write": figure("PWRITES") or 0.0}
    params = reading.known(numjobs=_sessions(row.get("SESSIONS", "")))
    labels = reading.known(file=reading.shown(row["FILE"]))
    if not sum(iops.values()):
        return Record(params, labels=labels, failed="awr_info.sh found no I/O")
    slob = {key.lower(): value for key in ("EXECUTES", "LIO", "REDO_MBS") if (value := figure(key)) is not None}
    size = {way: mb * MIB for way, key in (("read", "READ_MBS"), ("write", "WRITE_MBS")) if (mb := figure(key))}
    slob |= {f"{way}_total_bytes_per_s": value for way, value in size.items()}
    wait = (figure("DFSR_LAT") or 0.0) * US
    return consistent(replace(_record(iops, {}, wait, figure("ELAPSED"), slob), params=params, labels=labels), where)


def _report(file: Source) -> Record:
    per_second: dict[str, float] = {}
    seconds: float | None = None
    release, wait = "", None
    foreground = False
    for number, line in reading.lines(file):
        where = f"{file.name}:{number}"
        foreground = _section(line, foreground)
        if match := _ROW.match(line):
            # total, per second, per transaction; the last ones are rounded to what their column holds
            rate = reading.number(match[3], where, f"{match[1]} per second")
            if seconds and rate > 1 and _PLAIN.fullmatch(match[2]):
                total = reading.number(match[2], where, match[1])
                same(total / seconds, rate, f"{match[1]} / elapsed time, and per second", where, unsure=0.3 / seconds)
            per_second.setdefault(match[1], rate)
        elif seconds is None and (elapsed := _ELAPSED.match(line)):
            seconds = reading.number(elapsed[1], where, "minutes") * 60
        elif foreground and wait is None and (waits := _WAIT.match(line)):
            wait = _mean_wait(waits[1].split(), where)
        elif not release and (version := _RELEASE.search(line)):
            release = version[1]
    iops, size = (
        {way: per_second[f"{kind} {what}"] for kind, way in _KINDS.items() if f"{kind} {what}" in per_second}
        for what in ("IO requests", "bytes")
    )
    if len(iops) < 2:
        raise Unreadable(
            "cut-off", "expected 'physical read/write total IO requests' per second: cut off?", where=file.name
        )
    sessions = _REPORT.search(posixpath.basename(file.name))
    params = reading.known(numjobs=_sessions(sessions[1] or "") if sessions else None)
    if not sum(iops.values()):
        return Record(params, failed="the database read and wrote nothing")
    slob = reading.known(database=release)
    record = replace(_record(iops, size if len(size) == 2 else {}, wait, seconds, slob), params=params)
    return consistent(record, file.name)


def _section(line: str, foreground: bool) -> bool:
    """Whether the next lines are in the table of foreground waits, not of background waits."""
    title = line.lstrip()  # a report is paged by form feeds
    if title.startswith("Foreground Wait Events"):
        return True
    return foreground and not title.startswith("Background Wait Events")


def _mean_wait(fields: Sequence[str], where: str) -> float | None:
    """Mean wait in ns. Fields: waits, share of time-outs (may be missing), total seconds, ...; their number decides, as
    in awr_info.sh."""
    place = {6: 2, 5: 1}.get(len(fields))
    if place is None:
        return None
    if not all(_PLAIN.fullmatch(fields[at]) for at in (0, place)):  # 16.4K: rounded too far
        return None
    waits, seconds = (reading.number(fields[at], where, "waits and their time") for at in (0, place))
    return seconds / waits * 1e9 if waits and seconds else None


def _sessions(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) else None


def _record(
    iops: Mapping[str, float],
    size: Mapping[str, float],
    wait: float | None,
    seconds: float | None,
    slob: Mapping[str, Any],
) -> Record:
    metrics = {"iops": sum(iops.values()), **of_mix("iops", iops), **of_mix("bw", size)}
    if size:
        metrics["bw"] = sum(size.values())
    if wait:
        metrics["lat_read_mean"] = wait
    load: dict[str, Any] = {"iops": dict(iops)}
    load |= reading.known(runtime_ms=seconds * 1000 if seconds else None)
    context = {"load": load, "slob": dict(slob), "conditions": {"tool": "SLOB"}}
    return Record(figures=Figures(metrics, {}, context))


PLUGIN = Slob()
