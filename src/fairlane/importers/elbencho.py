"""elbencho: the CSV results file (``--csvfile``).

Format: ``docs/csv-docs.md`` of elbencho's source, and ``Statistics.cpp`` (printPhaseResultsToStringVec), 3.x.

One line is one phase. Figures are those of ``[last]``, when the slowest thread was done; ``[first]`` lacks the work of
slower threads. In a mix the plain columns are of the writes, those of ``rwmix read`` of the reads. Phases without
I/O (MKDIRS, RMFILES, SYNC, ...) are passed over. The file has no percentiles, even with ``--lat``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import MIB, US
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import of_mix
from fairlane.records import Figures

_HEADER = ("ISO date", "operation", "IOPS [last]", "MiB/s [last]", "time ms [last]", "threads", "block size")
_MIX = "rwmix read "


class Elbencho(Importer):
    """Each phase with I/O is a trial."""

    title = "elbencho CSV results"
    source = "elbencho's docs/csv-docs.md and source/Statistics.cpp"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        columns = head.partition(b"\n")[0].decode(errors="replace").rstrip("\r").split(",")
        return set(_HEADER) <= set(columns)

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            has_io = False
            for row, where in _rows(file):
                if record := _record(row, where):
                    has_io = True
                    yield record
            if not has_io:
                raise Unreadable("not-this-tool", "expected a phase that reads or writes, found none", where=file.name)


def _rows(file: Source) -> Iterator[tuple[Mapping[str, str], str]]:
    """elbencho quotes nothing: it takes the commas out of labels and command lines."""
    columns: list[str] = []
    for number, line in reading.lines(file):
        where = f"{file.name}:{number}"
        fields = line.split(",")
        if not columns:
            columns = fields
            if missing := [name for name in _HEADER if name not in columns]:
                raise Unreadable("column-missing", f"expected a column {missing[0]!r} in the header", where=where)
            continue
        if fields[0] == "ISO date" or not line:  # a later run may have written the header again
            continue
        if len(fields) != len(columns):
            raise Unreadable("columns", f"expected {len(columns)} columns, found {len(fields)}: cut off?", where=where)
        yield dict(zip(columns, fields, strict=True)), where


def _record(row: Mapping[str, str], where: str) -> Record | None:
    operation = reading.shown(row["operation"])
    plain, mixed = (_figures(row, prefix, where) for prefix in ("", _MIX))
    if not plain.get("iops") and not mixed.get("iops"):
        return None
    mix = bool(mixed.get("iops"))
    ways = {"read": mixed, "write": plain} if mix else {("read" if operation.startswith("READ") else "write"): plain}
    rw = _pattern(operation, row.get("random", ""), mix)
    if not rw:
        return None
    iops = {way: figures.get("iops", 0.0) for way, figures in ways.items()}
    metrics = {"iops": sum(iops.values())}
    steps = {"iops": len(ways) / metrics["iops"]}  # whole numbers, cut off
    if mib := sum(figures.get("mib", 0.0) for figures in ways.values()):
        metrics["bw"], steps["bw"] = mib * MIB, len(ways) / mib
    timed = [figures for figures in ways.values() if figures.get("iops")]
    if all(figures.get("us") for figures in timed):
        # both directions ran for the same time: their rates weigh their means
        mean = sum(figures["us"] * figures["iops"] for figures in timed) / metrics["iops"]
        metrics["lat_mean"], steps["lat_mean"] = mean * US, 1 / mean
    if mix:
        for name, key, unit in (("iops", "iops", 1), ("bw", "mib", MIB), ("lat_mean", "us", US)):
            own = of_mix(name, {way: figures.get(key, 0.0) * unit for way, figures in ways.items()})
            metrics |= own
            steps |= {metric: unit / value for metric, value in own.items()}
    load = {"iops": iops, "runtime_ms": reading.number(row["time ms [last]"], where, "a time in ms")}
    if first := row.get("time ms [first]"):
        load["runtime_ms_min"] = reading.number(first, where, "a time in ms")
    context: dict[str, Any] = {
        "load": load,
        "conditions": reading.known(tool="elbencho", tool_version=reading.shown(row.get("version", ""))),
    }
    if busy := row.get("CPU% [last]"):
        context["machine"] = {"busy": reading.number(busy, where, "CPU%") / 100}
    label = reading.shown(row.get("label", ""))
    params = _params(row, rw, operation, where)
    record = Record(
        params,
        Figures(metrics, {}, context, steps),
        labels=reading.known(label=label, operation=operation),
        started=reading.moment(row["ISO date"]),
    )
    in_flight = (params.get("numjobs") or 0) * (params.get("iodepth") or 1) * (params.get("fleet") or 1)
    return consistent(record, where, in_flight=in_flight)


def _figures(row: Mapping[str, str], prefix: str, where: str) -> dict[str, float]:
    columns = {"iops": "IOPS [last]", "mib": "MiB/s [last]", "us": "IO lat us [avg]"}
    return {
        key: reading.number(text, where, prefix + column)
        for key, column in columns.items()
        if (text := row.get(prefix + column, ""))
    }


def _pattern(operation: str, random: str, mix: bool) -> str:
    if mix:
        rw = "rw"
    elif operation in ("READ", "WRITE"):
        rw = operation.lower()
    else:
        return ""
    return {"1": "rand" + rw, "0": rw}.get(random, "")


def _params(row: Mapping[str, str], rw: str, operation: str, where: str) -> dict[str, Any]:
    def count(column: str) -> int | None:
        return reading.whole(row[column], where, column) if row.get(column) else None

    share = operation.removeprefix("RWMIX")
    return reading.known(
        rw=rw,
        bs=count("block size") or None,
        iodepth=count("IO depth"),
        numjobs=count("threads"),
        fleet=count("hosts"),
        rwmixread=int(share) if operation.startswith("RWMIX") and share.isdecimal() and len(share) < 4 else None,
        direct={"0": False, "1": True}.get(row.get("direct IO", "")),
    )


PLUGIN = Elbencho()
