"""Activity of a whole machine between two snapshots: pressure, context switches, and on array and host disks and NICs.
The base of three probes, one per place.

Pressure is the share of the time in which some task waited for CPU, memory or I/O (kernel: accounting/psi.rst; total of
``some``, us). A machine without it (``psi=0``) reports none.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from fairlane.probes._threads import LINE, ios_of, of_transactions
from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

_SECTOR = 512
_METRIC = "switches_per_io"
_MOST = 4
"""Most disks and NICs reported: those that carried most."""

_N = r"(\d{1,20})"
_PRESSURE = re.compile(r"^/proc/pressure/(\w+):some .*total=(\d+)$", re.MULTILINE)
_UPTIME = re.compile(r"^/proc/uptime:(\d+)\.(\d\d) ", re.MULTILINE)
_SWITCHES = re.compile(r"^/proc/stat:ctxt (\d+)$", re.MULTILINE)
_CPU = re.compile(r"^/proc/stat:cpu  ?([\d ]+)$", re.MULTILINE)
_DISK = re.compile(rf"^/proc/diskstats: *\d+ +\d+ (\S+) {_N} \d+ {_N} \d+ {_N} \d+ {_N} ", re.MULTILINE)
_NIC = re.compile(rf"^/proc/net/dev: *([^\s:]+): *{_N}(?: +\d+){{7}} +{_N}\b", re.MULTILINE)

PRESSURE = (
    f"for f in /proc/pressure/* /proc/uptime; do {LINE}; done; "
    'while read -r l; do case $l in "cpu "*|ctxt*) echo "/proc/stat:$l" ;; esac; done < /proc/stat'
)
"""Shell for snapshots of guests."""
EVERYTHING = PRESSURE + (
    '; for f in /proc/diskstats /proc/net/dev; do while read -r l; do echo "$f:$l"; done < $f; done'
)
"""Shell for snapshots of array and host: disks and NICs too."""


class System(Probe):
    """The probe of one place; ``key``: its name in the context."""

    key: ClassVar[str]
    virtual = False

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        first, last = _uptime(before), _uptime(after)
        if first is None or last is None or last <= first:
            return Figures()
        seconds = last - first
        values: dict[str, Any] = {}
        earlier = dict(_PRESSURE.findall(before))
        for kind, total in _PRESSURE.findall(after):
            begun, ended = counter(earlier.get(kind, "")), counter(total)
            if begun is not None and ended is not None and ended >= begun:
                values[f"pressure_{kind}"] = min(1.0, (ended - begun) / 1e6 / seconds)
        switches = _moved(_SWITCHES, before, after)
        if switches is not None:
            values["switches_per_s"] = switches / seconds
            if (ios := ios_of(load)) and not of_transactions(load):
                values["switches_per_io"] = switches / ios
        if (busy := _busy(before, after)) is not None:
            values["busy"] = busy
        values |= {
            name: devices
            for name, devices in (("disks", _disks(before, after)), ("nics", _nics(before, after)))
            if devices
        }
        metrics = {_METRIC: values[_METRIC]} if self.place == "guest" and values.get(_METRIC) else {}
        return Figures(metrics, context={self.key: values} if values else {})


def _uptime(text: str) -> float | None:
    match = _UPTIME.search(text)
    return int(match[1][:12]) + int(match[2]) / 100 if match else None


def _moved(pattern: re.Pattern[str], before: str, after: str) -> int | None:
    first, last = pattern.search(before), pattern.search(after)
    begun, ended = counter(first[1]) if first else None, counter(last[1]) if last else None
    return ended - begun if begun is not None and ended is not None and ended >= begun else None


def _busy(before: str, after: str) -> float | None:
    """Share of the machine's CPU time that was not idle."""
    first, last = cpu_ticks(before), cpu_ticks(after)
    if first is None or last is None:
        return None
    moved = [max(0, b - a) for a, b in zip(first, last, strict=True)]
    return 1 - (moved[3] + moved[4]) / sum(moved) if sum(moved) else None


def cpu_ticks(text: str) -> list[int] | None:
    """Ticks of all CPUs in user, nice, system, idle, iowait, irq, softirq, steal; None: not in the snapshot."""
    line = _CPU.search(text)
    ticks = [counter(field) or 0 for field in line[1].split()[:8]] if line else []
    return ticks if len(ticks) == 8 else None


def _disks(before: str, after: str) -> Mapping[str, Mapping[str, int]]:
    earlier = {name: tuple(map(int, counters)) for name, *counters in _DISK.findall(before)}
    disks = {}
    for name, *counters in _DISK.findall(after):
        moved = [b - a for a, b in zip(earlier.get(name, ()), map(int, counters), strict=False)]
        if any(moved) and min(moved) >= 0:
            reads, read_sectors, writes, written_sectors = moved
            disks[name] = {"reads": reads, "read_bytes": read_sectors * _SECTOR, "writes": writes,
                           "write_bytes": written_sectors * _SECTOR}  # fmt: skip
    return largest(disks)


def _nics(before: str, after: str) -> Mapping[str, Mapping[str, int]]:
    earlier = {name: tuple(map(int, counters)) for name, *counters in _NIC.findall(before)}
    nics = {}
    for name, *counters in _NIC.findall(after):
        moved = [b - a for a, b in zip(earlier.get(name, ()), map(int, counters), strict=False)]
        if any(moved) and min(moved) >= 0:
            nics[name] = {"rx_bytes": moved[0], "tx_bytes": moved[1]}
    return largest(nics)


def largest(devices: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """The ``_MOST`` devices that carried most bytes: name -> counters."""
    bulk = sorted(devices, key=lambda name: -sum(v for key, v in devices[name].items() if key.endswith("bytes")))
    return {name: devices[name] for name in bulk[:_MOST]}
