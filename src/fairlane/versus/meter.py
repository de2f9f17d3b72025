"""Throughput of the load that runs on this machine now: fio's own counters in /proc, which cost it nothing."""

import os
import time
from pathlib import Path

_LEAST = 0.4
"""Seconds between two readings."""


class Meter:
    """Bytes per second of all processes of a run: those with ``FAIRLANE_LOAD=RUN`` in their environment."""

    def __init__(self, run: str, *, cached: bool = False) -> None:
        """``cached``: the load goes through the page cache, and its system calls are counted in place of disk I/O."""
        self._mark = f"FAIRLANE_LOAD={run}".encode()
        self._fields = (b"rchar", b"wchar") if cached else (b"read_bytes", b"write_bytes")
        self._last: dict[int, int] = {}
        self._when = 0.0
        self._rate: float | None = None

    def rate(self) -> float | None:
        """Since the reading before; None: no load runs, or its counters may not be read."""
        now = time.monotonic()
        if now - self._when < _LEAST:
            return self._rate
        counts = {pid: count for pid in _fio() if (count := self._count(pid)) is not None}
        both = counts.keys() & self._last.keys()
        moved = sum(counts[pid] - self._last[pid] for pid in both)
        self._rate = moved / (now - self._when) if both else None
        self._last, self._when = counts, now
        return self._rate

    def _count(self, pid: int) -> int | None:
        """Bytes that a process of the run has moved; None: it is another's, or has ended."""
        try:
            if self._mark not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return None
            lines = Path(f"/proc/{pid}/io").read_bytes().splitlines()
            values = dict(line.split(b": ", 1) for line in lines)
            return sum(int(values[name]) for name in self._fields)
        except (OSError, ValueError, KeyError):
            return None


def _fio() -> list[int]:
    """Processes called fio."""
    found = []
    try:
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    if Path(entry.path, "comm").read_bytes().strip() == b"fio":
                        found.append(int(entry.name))
                except OSError:
                    continue
    except OSError:
        return []
    return found
