"""I/Os, bytes, flushes and busy time of all disks of the machine: also those under a file system, a map or an array.

``/proc/diskstats`` (kernel: admin-guide/iostats.rst): per device reads, merged, sectors of 512 bytes, ms; the same of
writes; in flight, ms busy, weighted; four of discards; flushes and their ms (fields 19 and 20 of a line, kernel 5.5).
The kernel counts a flush where it reaches the device. The window is that of the snapshots, with the ramp.
"""

import re
from typing import ClassVar

from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

_SECTOR = 512
_FIELDS = {"reads": 3, "read_bytes": 5, "writes": 7, "write_bytes": 9, "busy": 12, "flushes": 18, "flush_ms": 19}
"""Name -> place of the counter in a line, from 0."""
_UPTIME = re.compile(r"^uptime (\d{1,12})\.(\d\d) ", re.MULTILINE)


class HostDisks(Probe):
    """Disks that did nothing are left out. ``busy``: share of the time in which I/O was in flight."""

    virtual = False
    # shell builtins, no program: see probes/disk.py
    capture: ClassVar[str] = (
        'while read -r l; do echo "$l"; done < /proc/diskstats; read -r l < /proc/uptime && echo "uptime $l"'
    )

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        first, last = _read(before), _read(after)
        seconds = _seconds(before, after)
        if not first or not last:
            return Figures()
        disks: dict[str, dict[str, float]] = {}
        for name, counts in last.items():
            begun = first.get(name)
            moved = {key: value - begun.get(key, value) for key, value in counts.items()} if begun else {}
            if not any(moved.values()) or min(moved.values()) < 0:
                continue  # idle, new, or made anew: counters fall only then
            busy = moved.pop("busy", None)
            disks[name] = {k: v * _SECTOR if k.endswith("_bytes") else v for k, v in moved.items()}
            if busy is not None and seconds:
                disks[name]["busy"] = min(1.0, busy / 1e3 / seconds)
        return Figures(context={"host_disks": disks})


def _read(text: str) -> dict[str, dict[str, int]]:
    """Disk -> its counters; malformed lines, and counters that an older kernel lacks, are left out."""
    disks = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14 or not words[0].isdigit():
            continue
        counts = {k: c for k, at in _FIELDS.items() if at < len(words) and (c := counter(words[at])) is not None}
        if {"reads", "read_bytes", "writes", "write_bytes"} <= counts.keys():
            disks[words[2]] = counts
    return disks


def _seconds(before: str, after: str) -> float | None:
    ends = [_UPTIME.search(text) for text in (before, after)]
    times = [int(end[1]) + int(end[2]) / 100 for end in ends if end]
    return times[1] - times[0] if len(times) > 1 and times[1] > times[0] else None


PLUGIN = HostDisks()
