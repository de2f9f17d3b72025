"""Parse fio's logs of single I/Os: counts, rates and latencies of a log of any length, in one pass.

Columns (``flush_samples`` of fio's iolog.c): time in ms, value, direction, block size, then offset, priority and issue
time if requested. With ``log_avg_msec`` a row is an interval's average (or maximum, or both) and its block size is 0:
it gives no percentile.

Latencies are in us in fio 2 and in ns in fio 3; the log does not state the unit. It follows from

* a column of priorities, which only 3.17 and later write: ns, or
* Little's law (latencies added / time), where us would mean more I/Os in flight than a job has: ns, or
* a latency that would be below 1 us in ns, which no storage is, with few I/Os in flight in us: us.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

import numpy as np

from fairlane.errors import Garbage
from fairlane.formats.fio_columns import rows
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

Unit = Literal["ns", "us"]


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
    """The contents of one log."""

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
    """One pass over a log. ``latencies``: values are latencies, to be counted in bins. Raises Garbage with the line."""
    log = Log()
    slotted = True
    for line, table in rows(file, 4):
        time, value, way, size = _columns(table, line)
        if line == 1:
            log.first_ms = log.last_ms = int(time[0])
            log.averaged = not size[0]
        if (size == 0).any() != log.averaged or (log.averaged and size.any()):
            raise Garbage("mixed-log", f"line {line} and following: averages and single I/Os in one log")
        if value.max() >= _LONGEST:
            raise Garbage("not-a-number", f"line {line + int(value.argmax())}: {value.max()} is no latency or rate")
        log.first_ms, log.last_ms = min(log.first_ms, int(time.min())), max(log.last_ms, int(time.max()))
        if log.averaged:
            _averages(log, line, time, value, way)
            continue
        log.smallest = min(log.smallest, int(value.min()))
        # without a column of offsets the fifth is the priority: 0 or 1
        log.prioritised &= table.shape[1] > 5 or (table.shape[1] == 5 and bool((table[:, 4] <= 1).all()))
        slotted = slotted and _slots(log, time)
        log.sizes.update(size[:1].tolist() if (size == size[0]).all() else np.unique(size)[:33].tolist())
        log.sizes = set(sorted(log.sizes)[:33])
        _count(log, value, way, size, latencies=latencies)
    if not slotted:
        log.slots = np.zeros(0, np.int64)
    return log


def _columns(table: Ints, line: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Time, value, direction, block size. With both average and maximum the maximum stands between."""
    first = 2
    if (table[:, 2] > 2).any() and table.shape[1] > 5 and not table[:, 4].any() and (table[:, 3] <= 2).all():
        first = 3
    way = table[:, first]
    if (way > 2).any():
        bad = int((way > 2).argmax())
        raise Garbage(
            "direction", f"line {line + bad}: direction {way[bad]} is none of fio's (0 read, 1 write, 2 trim)"
        )
    return table[:, 0], table[:, 1], way, table[:, first + 1]


def _averages(log: Log, line: int, time: Ints, value: Ints, way: Ints) -> None:
    for number in np.unique(way).tolist():
        of = log.averages.setdefault(WAYS[number], {})
        here = way == number
        of.update(zip(time[here].tolist(), value[here].astype(float).tolist(), strict=True))
        if len(of) > _INTERVALS:
            raise Garbage("too-large", f"line {line}: more intervals than a log can have")


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
