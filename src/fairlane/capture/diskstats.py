"""A disk's counters, second by second: rates, sizes, depth and flushes without a trace.

``/sys/class/block/NAME/stat`` (kernel: ``Documentation/block/stat.rst``, ``Documentation/admin-guide/iostats.rst``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SECTOR = 512
FIELDS = (
    "reads", "read_merges", "read_sectors", "read_ms", "writes", "write_merges", "write_sectors", "write_ms",
    "in_flight", "busy_ms", "queue_ms", "discards", "discard_merges", "discard_sectors", "discard_ms",
    "flushes", "flush_ms",
)  # fmt: skip
"""Fields of a line, in order; kernels before 5.5 have no flushes, before 4.18 no discards."""
_LEAST = 11


@dataclass(frozen=True)
class Interval:
    """What the counters say of the time between two samples: rates per second, sizes in bytes, times in s."""

    seconds: float
    reads: float
    writes: float
    read_bytes: float
    write_bytes: float
    read_latency: float
    write_latency: float
    merges: float
    depth: float
    """I/Os in flight on average, those before the disk's own queue included; without flushes."""
    busy: float
    """Share of the time with at least one I/O in flight."""
    flushes: float | None
    """None: the kernel does not count them."""


Sample = tuple[float, tuple[int, ...]]
"""Time (s), counters."""


def sample(words: Sequence[str]) -> Sample | None:
    """A time and a line of counters; None: it is no such line."""
    try:
        time, counters = float(words[0]), tuple(int(word) for word in words[1:])
    except (ValueError, IndexError):
        return None
    return (time, counters) if len(counters) >= _LEAST and 0 < time < 1e12 and min(counters) >= 0 else None


def interval(before: Sample, after: Sample) -> Interval | None:
    """None: no time lies between, or the counters fell (the disk was re-created)."""
    seconds = after[0] - before[0]
    names = dict(zip(FIELDS, range(len(after[1])), strict=False))
    if seconds <= 0 or len(before[1]) != len(after[1]):
        return None
    moved = {name: after[1][i] - before[1][i] for name, i in names.items()}
    if any(value < 0 for name, value in moved.items() if name != "in_flight"):
        return None
    return Interval(
        seconds,
        moved["reads"] / seconds,
        moved["writes"] / seconds,
        moved["read_sectors"] * SECTOR / seconds,
        moved["write_sectors"] * SECTOR / seconds,
        moved["read_ms"] / 1e3 / moved["reads"] if moved["reads"] else 0.0,
        moved["write_ms"] / 1e3 / moved["writes"] if moved["writes"] else 0.0,
        (moved["read_merges"] + moved["write_merges"]) / seconds,
        # A flush is an I/O of its own and an empty write that waits for it. It is no load: of a log that syncs each
        # write, on a slow medium, most of the time in the queue is that of its flushes.
        max(moved["queue_ms"] - 2 * moved.get("flush_ms", 0), 0) / 1e3 / seconds,
        min(moved["busy_ms"] / 1e3 / seconds, 1.0),
        moved["flushes"] / seconds if "flushes" in moved else None,
    )


def intervals(samples: Sequence[Sample]) -> list[Interval]:
    """Those of neighbouring samples that can be computed."""
    return [found for before, after in pairwise(samples) if (found := interval(before, after))]
