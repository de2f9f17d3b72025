"""Parse fio's logs of single I/Os: counts, rates and latencies of a log of any length, in one pass.

Columns (``flush_samples`` of fio's iolog.c): time in ms, value, direction, block size, then offset, priority and issue
time if requested. With ``log_avg_msec`` a row is an interval's average (or maximum, or both) and its block size is 0:
it gives no percentile.

A file may hold several jobs: fio 2 by default, fio 3 with ``per_job_logs=0``. Each job appends its rows when it ends,
and its time begins anew, so that the next job begins where time goes back.

Latencies are in us in fio 2 and in ns in fio 3; the log does not state the unit. It follows from

* a column of priorities, which only 3.17 and later write: ns, or
* Little's law (latencies added / time), where us would mean more I/Os in flight than a job has: ns, or
* a latency that would be below 1 us in ns, which no storage is, with few I/Os in flight in us: us.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from fairlane.errors import Garbage
from fairlane.formats.fio_columns import jobs, rows
from fairlane.stats.histogram import Bins, Ints, indices, midpoints

WAYS = ("read", "write", "trim")
"""fio's numbers of the directions."""
SLOT_MS = 100
"""Length of the slots in which completions are counted."""
_SLOTS = 10**6
"""Most slots (28 hours)."""
_INTERVALS = 200_000
"""Averages of one direction: two days of seconds."""
EPOCH_MS = 10**11
"""Times above it (1973) are Unix time (log_unix_epoch); below, time since the job's start or the end of its ramp."""
_LONGEST = 10**15
"""Longest latency, in ns: 11 days."""
_FASTEST = 1000
"""Least latency of storage, in ns."""
_FEW, _MANY = 256, 2048
"""I/Os in flight in one job: usual number, and upper limit."""
_BACK_MS, _BACK_AVERAGED_MS = 100, 10
"""Rows of one job may be out of order by so many ms: threads of one job share its log, and averages are written by one
of them."""
_JOBS = 1024
"""Most jobs of a file."""

Unit = Literal["ns", "us"]


class _Columns(NamedTuple):
    """Rows of a log, column by column."""

    time: Ints
    value: Ints
    way: Ints
    size: Ints


@dataclass
class _Way:
    """One direction. Bins twice, because the unit is known at the end only."""

    ios: int = 0
    size: int = 0
    total: float = 0.0
    by_unit: Mapping[Unit, Ints] = field(
        default_factory=lambda: {unit: np.zeros(len(midpoints()), np.int64) for unit in ("ns", "us")}
    )


@dataclass
class Log:
    """The log of one job."""

    line: int = 1
    """Line of the file where it begins."""
    ways: dict[str, _Way] = field(default_factory=dict)
    """Log of single I/Os: values are latencies."""
    averaged: bool = False
    averages: dict[str, dict[int, float]] = field(default_factory=dict)
    """Log of intervals: direction -> time in ms -> value."""
    first_ms: int = 0
    last_ms: int = 0
    sizes: set[int] = field(default_factory=set)
    """Block sizes, 33 at most."""
    slots: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Completions in each slot of ``SLOT_MS`` since ``start_ms``; empty if there would be too many."""
    prioritised: bool = True
    """Every row so far has a priority."""
    smallest: int = _LONGEST
    latest: int = 0
    """Time of the last row, ms."""
    slotted: bool = True
    """Whether ``slots`` hold all rows."""

    @property
    def ios(self) -> int:
        return sum(way.ios for way in self.ways.values())

    @property
    def unix(self) -> bool:
        return self.first_ms > EPOCH_MS

    @property
    def start_ms(self) -> int:
        """Start of the job's I/O; with Unix time the first completion, give or take its latency."""
        return self.first_ms if self.unix else 0

    @property
    def runtime_ms(self) -> int:
        """ms until the last completion, whose time is cut to whole ms."""
        return self.last_ms + 1 - self.start_ms

    @property
    def unit(self) -> Unit | None:
        """Unit of the latencies; None: not known."""
        in_flight = sum(way.total for way in self.ways.values()) / (self.runtime_ms * 1000)  # if it were us
        if not self.ios or (not self.prioritised and in_flight <= _MANY and self.smallest >= _FASTEST):
            return None
        if self.prioritised or in_flight > _MANY:
            return "ns"
        return "us" if in_flight <= _FEW else None

    def bins(self, way: str, unit: Unit) -> Bins:
        """Latencies in fio's bins, in ns."""
        return Bins(midpoints(), self.ways[way].by_unit[unit])

    def mean(self, way: str, unit: Unit) -> float:
        """Mean latency in ns."""
        return self.ways[way].total / self.ways[way].ios * (1 if unit == "ns" else 1000)


def read_log(file: BinaryIO, *, latencies: bool) -> Log:
    """The log of one job, see ``read_logs``; an empty one of an empty file. Raises Garbage if there are several."""
    logs = read_logs(file, latencies=latencies)
    if len(logs) > 1:
        raise Garbage("time-back", f"line {logs[1].line}: time goes back, in the log of one job")
    return logs[0] if logs else Log()


def read_logs(file: BinaryIO, *, latencies: bool) -> list[Log]:
    """The logs of all jobs in a file, in one pass. ``latencies``: values are latencies, to be counted in bins. Raises
    Garbage with the line."""
    logs: list[Log] = []
    for line, table in rows(file, 4):
        columns = _columns(table, line)
        time, value, _, size = columns
        averaged = logs[0].averaged if logs else not size[0]
        if (size == 0).any() != averaged or (averaged and size.any()):
            raise Garbage("mixed-log", f"line {line} and following: averages and single I/Os in one log")
        if value.max() >= _LONGEST:
            raise Garbage("not-a-number", f"line {line + int(value.argmax())}: {value.max()} is not a latency or rate")
        # without a column of offsets the fifth is the priority: 0 or 1
        prioritised = table.shape[1] > 5 or (table.shape[1] == 5 and bool((table[:, 4] <= 1).all()))
        back = _BACK_AVERAGED_MS if averaged else _BACK_MS
        ended = [log.latest for log in logs]
        for first, last, begins in jobs(time, line, ended, most=_JOBS, back=back):
            if begins:
                logs.append(Log(line + first, averaged=averaged, first_ms=int(time[first]), last_ms=int(time[first])))
            own = _Columns(*(column[first:last] for column in columns))
            _add(logs[-1], line + first, own, prioritised=prioritised, latencies=latencies)
    return logs


def _add(log: Log, line: int, columns: _Columns, *, prioritised: bool, latencies: bool) -> None:
    """Adds rows of the job, the first of which stands in ``line``."""
    time, value, way, size = columns
    log.first_ms, log.last_ms = min(log.first_ms, int(time.min())), max(log.last_ms, int(time.max()))
    log.latest = int(time[-1])
    if log.averaged:
        _averages(log, line, columns, rates=not latencies)
        return
    log.smallest = min(log.smallest, int(value.min()))
    log.prioritised &= prioritised
    log.slotted = log.slotted and _slots(log, time)
    if not log.slotted:
        log.slots = np.zeros(0, np.int64)
    log.sizes.update(size[:1].tolist() if (size == size[0]).all() else np.unique(size)[:33].tolist())
    log.sizes = set(sorted(log.sizes)[:33])
    _count(log, value, way, size, latencies=latencies)


def _columns(table: Ints, line: int) -> _Columns:
    """Time, value, direction, block size. With both average and maximum the maximum stands between."""
    first = 2
    if (table[:, 2] > 2).any() and table.shape[1] > 5 and not table[:, 4].any() and (table[:, 3] <= 2).all():
        first = 3
    way = table[:, first]
    if (way > 2).any():
        bad = int((way > 2).argmax())
        raise Garbage(
            "direction", f"line {line + bad}: unknown direction {way[bad]} (fio's are 0 read, 1 write, 2 trim)"
        )
    return _Columns(table[:, 0], table[:, 1], way, table[:, first + 1])


def _averages(log: Log, line: int, columns: _Columns, *, rates: bool) -> None:
    """A second row of one time is what was left when the job ended, of an interval of no time; of latencies it is of
    I/Os that came back together after an interval without any."""
    for at, (ms, rate, number) in enumerate(zip(*(column.tolist() for column in columns[:3]), strict=True), line):
        of = log.averages.setdefault(WAYS[number], {})
        if rates and ms in of and len(of) == 1:
            raise Garbage(
                "time-twice",
                f"line {at}: a second {WAYS[number]} at {ms} ms, in the first interval: the log may mix jobs",
            )
        of.setdefault(ms, float(rate))
        if len(of) > _INTERVALS:
            raise Garbage("too-large", f"line {at}: more than {_INTERVALS:,} intervals: log with a longer log_avg_msec")


def _slots(log: Log, time: Ints) -> bool:
    """Counts completions in slots; False: there are too many slots."""
    slot = np.maximum(time - log.start_ms, 0) // SLOT_MS
    most = int(slot.max()) + 1
    if most > _SLOTS:
        return False
    counts = np.bincount(slot, minlength=max(most, len(log.slots)))
    counts[: len(log.slots)] += log.slots
    log.slots = counts
    return True


def _count(log: Log, value: Ints, way: Ints, size: Ints, *, latencies: bool) -> None:
    for number in np.unique(way).tolist():
        here = way == number
        of = log.ways.setdefault(WAYS[number], _Way())
        values = value[here]
        of.ios += len(values)
        of.size += int(size[here].sum())
        of.total += float(values.sum(dtype=np.float64))
        if latencies:
            for unit, factor in (("ns", 1), ("us", 1000)):
                of.by_unit[unit] += np.bincount(indices(values * factor), minlength=len(midpoints()))  # type: ignore[index]
