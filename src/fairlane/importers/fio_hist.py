"""fio's histogram logs (``write_hist_log``, ``log_hist_msec``): completion latency in bins, interval by interval.

Format: ``flush_hist_samples`` of fio's iolog.c and the scripts in its ``tools/hist``: time in ms, direction, block
size, then the I/Os in each bin since the row before: 1216 bins of microseconds in fio 2, 1856 of nanoseconds in fio 3,
or so many halved by every step of ``log_hist_coarseness``. Logs of one prefix in a folder are read together; intervals,
machines, directions and jobs that ran together (see ``_fio_jobs``) are merged by adding bins. fio does not log the run
after its last interval. In a file of several jobs (``per_job_logs=0``) time goes back where the next one begins.

All latencies are clat's (completion alone), and the parameter ``metric_definition`` states that.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np

from fairlane.errors import Garbage
from fairlane.formats.fio_columns import jobs, rows
from fairlane.formats.fio_log import EPOCH_MS, WAYS
from fairlane.formats.record import Record
from fairlane.importers import _fio_jobs
from fairlane.importers._consistent import consistent
from fairlane.importers._reading import series, shown
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import WAYS as DIRECTIONS
from fairlane.metrics import of_mix, own_metric
from fairlane.records import Figures
from fairlane.stats.histogram import Bins, Ints, mean, merge, midpoints, percentiles
from fairlane.study.strict import Strict

_NAME = re.compile(r"(?P<prefix>.*?)(?:_clat)?_hist(?:\.(?P<job>\d{1,9}))?\.log(?:\.(?P<host>.+))?")
_ROW = re.compile(r"\s*\d{1,18}\s*,\s*[012]\s*,(?:\s*\d{1,18}\s*,){20,}")
_FORMATS = {
    (groups << 6) >> coarse: (groups, coarse, unit) for groups, unit in ((19, 1000), (29, 1)) for coarse in range(7)
}
"""Bins in a row -> fio's groups of bins, coarseness, ns of its unit."""
_MOST = 2**48
"""No bin holds so many I/Os."""
_INTERVALS = 200_000
"""Rows of one log: two days of seconds."""
_JOBS = 256
"""Most jobs of a file."""


class FioHistOptions(Strict):
    """Options of fio's histogram logs."""

    jobs: _fio_jobs.Stated = None
    """Whether equal jobs of a prefix ran together (clones of numjobs), so that they are one load, or apart (stonewall).
    fio's logs do not say it."""


@dataclass
class _Log:
    """One job's log."""

    bins: dict[str, Ints] = field(default_factory=dict)
    """I/Os by direction and bin."""
    times: list[int] = field(default_factory=list)
    ios: list[int] = field(default_factory=list)
    """I/Os of each interval, all directions."""
    sizes: set[int] = field(default_factory=set)
    columns: int = 0
    line: int = 1
    """Line of the file where it begins."""

    def histogram(self, way: str) -> Bins:
        """Bins in ns, by their middle."""
        groups, coarse, unit = _FORMATS[self.columns]
        fine = midpoints(groups)
        middle = (fine[:: 1 << coarse] + fine[(1 << coarse) - 1 :: 1 << coarse]) // 2
        return Bins(middle * unit, self.bins[way])


class FioHist(Importer):
    title = "fio histogram logs of completion latency (log_hist_msec)"
    source = "fio's iolog.c and tools/hist"
    Options = FioHistOptions

    def claims(self, name: str, head: bytes) -> bool:
        text = head[:4096].decode(errors="replace").partition("\n")[0]
        return bool(_NAME.fullmatch(posixpath.basename(name)) and _ROW.match(text))

    def group(self, name: str) -> str:
        folder, base = posixpath.split(name)
        match = _NAME.fullmatch(base)
        return posixpath.join(folder, match["prefix"]) if match else name

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        logs: dict[str, _Log] = {}
        prefix = ""
        for file in files:
            match = _NAME.fullmatch(posixpath.basename(file.name))
            if not match:
                raise Unreadable(
                    "file-name", "the name of a histogram log of fio's ends in _clat_hist.1.log or so", where=file.name
                )
            prefix = match["prefix"]
            try:
                with file.text() as content:
                    of_file = _read(content)
            except Garbage as reason:
                raise Unreadable(reason.kind, str(reason), where=file.name) from None
            if match["job"] and len(of_file) > 1:
                raise Unreadable(
                    "time-back", "time goes back, in the log of one job", where=f"{file.name}:{of_file[1].line}"
                )
            for place, log in enumerate(of_file, 1):
                logs[_fio_jobs.key(match["host"], match["job"], place, len(of_file))] = log
        if not logs:
            raise Unreadable(
                "empty", "the logs are empty: fio writes the first row after log_hist_msec", where=files[0].name
            )
        where = files[0].name
        lines = {job: log.line for job, log in logs.items()}
        spans = {job: (_start(log), log.times[-1]) if log.times[0] > EPOCH_MS else None for job, log in logs.items()}
        for load in _fio_jobs.loads(spans, self.options.jobs):
            record = _record({job: logs[job] for job in load.jobs}, prefix, where)
            context = {**record.figures.context}
            context["load"] = {**context["load"], **load.context(lines, where)}
            params = dict(record.params)
            if not load.known:
                params.pop("numjobs")
            figures = replace(record.figures, context=context)
            yield consistent(replace(record, params=params, figures=figures, name=load.name(record.name)), where)


def _read(file: BinaryIO) -> list[_Log]:
    """The logs of all jobs in a file."""
    logs: list[_Log] = []
    for line, table in rows(file, 4):
        columns = table.shape[1] - 3
        if columns not in _FORMATS:
            raise Garbage(
                "columns", f"line {line}: {columns} bins, where fio has 1216 or 1856, or these halved some times"
            )
        way, counts = table[:, 1], table[:, 3:]
        if (way > 2).any():
            raise Garbage("direction", f"line {line + int((way > 2).argmax())}: a direction that is none of fio's")
        if counts.max() >= _MOST or counts.sum(dtype=np.float64) >= _MOST:
            raise Garbage("too-large", f"line {line} and following: more I/Os than there can be")
        for first, last, begins in jobs(table[:, 0], line, [log.times[-1] for log in logs], most=_JOBS):
            if begins:
                logs.append(_Log(columns=columns, line=line + first))
            _add(logs[-1], line + first, table[first:last])
    return logs


def _add(log: _Log, line: int, table: Ints) -> None:
    """Adds rows of the job, the first of which stands in ``line``."""
    way, counts = table[:, 1], table[:, 3:]
    for number in np.unique(way).tolist():
        log.bins[WAYS[number]] = log.bins.get(WAYS[number], 0) + counts[way == number].sum(axis=0)
    log.sizes = set(sorted(log.sizes.union(table[:, 2].tolist()))[:2])
    if len(log.times) + len(table) > _INTERVALS:
        raise Garbage("too-large", f"line {line}: more intervals than a log can have")
    for time, ios in zip(table[:, 0].tolist(), counts.sum(axis=1).tolist(), strict=True):
        if log.times and log.times[-1] == time:
            log.ios[-1] += ios
        else:
            log.times.append(time)
            log.ios.append(ios)


def _record(logs: Mapping[str, _Log], prefix: str, where: str) -> Record:
    try:
        merged = {way: merge(log.histogram(way) for log in logs.values() if way in log.bins) for way in WAYS}
        every = merge(merged.values())
    except ValueError as error:
        raise Unreadable("damaged", str(error), where=where) from None
    starts = [_start(log) for log in logs.values()]
    runtimes = [log.times[-1] - start for log, start in zip(logs.values(), starts, strict=True)]
    runtime = max(runtimes)
    if not every or runtime <= 0:
        raise Unreadable("no-io", "the logs hold no I/O, or no time went by in them", where=where)
    ways = [way for way in WAYS if way != "trim" or merged["trim"]]
    load: dict[str, Any] = {
        "ios": {way: merged[way].total for way in ways},
        "iops": {way: merged[way].total * 1000 / runtime for way in ways},
        "runtime_ms": runtime,
        "runtime_ms_min": min(runtimes),
        "jobs": len(logs),
        **_course(logs),
    }
    histograms = {f"{way}.lat": bins for way, bins in merged.items() if bins}
    metrics = {
        "iops": every.total * 1000 / runtime,
        "lat_mean": mean(every),
        **of_mix("iops", load["iops"]),
        **of_mix("lat_mean", {way: mean(bins) for way, bins in merged.items() if bins}),
        **percentiles(histograms),
    }
    # half a bin; coarse ones are wider
    wide = 2 ** max(_FORMATS[log.columns][1] for log in logs.values()) / 128
    steps = {name: wide for name in metrics if name.startswith("lat_")}
    ios = {"": every.total, **{way: bins.total for way, bins in merged.items() if bins}}
    counted = {own_metric("iops", way): 1 / total + 1 / runtime for way, total in ios.items()}
    steps |= {name: step for name, step in counted.items() if name in metrics}
    hosts = {host for job in logs if (host := job.rpartition("/")[0])}
    params: dict[str, Any] = {"numjobs": len(logs) // max(len(hosts), 1)} | ({"fleet": len(hosts)} if hosts else {})
    sizes = {size for log in logs.values() for size in log.sizes}
    if len(sizes) == 1 and (bs := min(sizes)):
        params["bs"] = bs
        load["bytes"] = {way: merged[way].total * bs for way in ways}
        for way in ("", *(way for way in DIRECTIONS if own_metric("iops", way) in metrics)):
            iops, bw = own_metric("iops", way), own_metric("bw", way)
            metrics[bw], steps[bw] = metrics[iops] * bs, steps[iops]
    conditions = {"tool": "fio", "metric_definition": "latency is clat: completion alone"}
    context = {"load": load, "fio": {"jobs": len(logs)}, "conditions": conditions}
    unix = all(start > EPOCH_MS for start in starts)
    return Record(
        params=params,
        figures=Figures(metrics, histograms, context, steps),
        name=shown(prefix, 80),
        labels={"log": shown(prefix)},
        started=min(starts) / 1000 if unix else None,
    )


def _start(log: _Log) -> int:
    """Time is since the job's start, or, with log_unix_epoch, the first row comes an interval after it."""
    if log.times[0] <= EPOCH_MS:
        return 0
    return log.times[0] - (log.times[1] - log.times[0] if len(log.times) > 1 else 0)


def _course(logs: Mapping[str, _Log]) -> dict[str, Any]:
    """IOPS of each interval, where all logs have the same ones, give or take some milliseconds."""
    lengths = {len(log.times) for log in logs.values()}
    length = min(lengths)
    first = next(iter(logs.values()))
    interval = (first.times[-1] - first.times[0]) / (length - 1) if length > 1 else 0
    if len(lengths) > 1 or interval <= 0:
        return {}
    return series(interval, [sum(log.ios[i] for log in logs.values()) * 1000 / interval for i in range(length)])


PLUGIN = FioHist(FioHistOptions())
