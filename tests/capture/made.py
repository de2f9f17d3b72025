"""Captures of invented loads, for what needs no machine."""

import numpy as np

from fairlane.capture.events import COMPLETE, EVENT, FLUSH, ISSUE, READ, WRITE, Events
from fairlane.capture.record import Capture, Disk
from fairlane.capture.tally import Tally

SECONDS = 10
DISK = Disk("sda", "serial:S1", 1 << 30, "Model", False, "none", "write back", "/dev/sda")


def stream(op: int, rate: int, start: int, size: int, *, latency_us: int = 100) -> Events:
    """I/Os one after the other, each where the last one ended."""
    sectors = start // 512 + np.arange(rate * SECONDS) * (size // 512)
    return _ios(op, rate, sectors, np.full(rate * SECONDS, size), latency_us)


def random(op: int, rate: int, area: int, sizes: dict[int, float], *, seed: int = 1, latency_us: int = 100) -> Events:
    """I/Os anywhere in the first ``area`` bytes."""
    rng = np.random.default_rng(seed)
    count, unit = rate * SECONDS, min(sizes)
    sectors = rng.integers(0, area // unit, count) * (unit // 512)
    return _ios(op, rate, sectors, rng.choice(list(sizes), count, p=list(sizes.values())), latency_us)


def flushes(rate: int) -> Events:
    out = np.zeros(rate * SECONDS, EVENT)
    out["time"], out["op"] = 10**9 + 500 + np.arange(len(out)) * (10**9 // rate), FLUSH
    return out


def _ios(op: int, rate: int, sectors: np.ndarray, sizes: np.ndarray, latency_us: int) -> Events:
    count = rate * SECONDS
    out = np.zeros(2 * count, EVENT)
    out["time"] = np.tile(10**9 + np.arange(count) * (10**9 // rate), 2)
    out["time"][count:] += latency_us * 1000
    out["sector"], out["bytes"], out["op"] = np.tile(sectors, 2), np.tile(sizes, 2), op
    out["kind"][:count], out["kind"][count:] = ISSUE, COMPLETE
    return out


def capture(*parts: Events) -> Capture:
    """A capture of these I/Os. Without any: of counters alone, 100 reads of 4 KiB and 50 writes of 16 KiB per second,
    flushed after each second one."""
    # reads, merges, sectors, ms, writes, ..., in flight, busy, queue, discards (4), flushes, ms
    moved = (1000, 0, 8000, 100, 750, 0, 16000, 150, 0, 200, 250, 0, 0, 0, 0, 250, 50)
    samples = ((100.0, (0,) * 17), (100.0 + SECONDS, moved))
    about = ("db1", "6.1.0", "2026-11-25 07:00:00 UTC", float(SECONDS))
    if not parts:
        return Capture(DISK, *about, ("diskstats",), ("locality: tracing needs root",), samples=samples)
    events = np.concatenate(parts)
    tally = Tally(DISK.size)
    tally.feed(events[np.argsort(events["time"], kind="stable")])
    tally.close()
    return Capture(DISK, *about, ("diskstats", "events"), trace={**tally.counts(), "missed": 0, "damaged": 0})


def database() -> Capture:
    """Readers of 8k pages, writers of 8k and 16k pages, and a log that is flushed after each write."""
    return capture(
        random(READ, 400, 256 << 20, {8192: 1.0}),
        random(WRITE, 200, 256 << 20, {8192: 0.7, 16384: 0.3}, seed=2),
        stream(WRITE, 100, 512 << 20, 65536),
        flushes(100),
    )


__all__ = ["READ", "WRITE", "capture", "database", "flushes", "random", "stream"]
