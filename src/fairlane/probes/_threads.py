"""CPU time by thread from two snapshots, shared by the CPU probes of guest, array and hypervisor."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fairlane.probes.base import counter
from fairlane.records import Figures

TICK_NS = 10_000_000
"""Unit of /proc/stat (USER_HZ = 100)."""
RUNNER = frozenset({"sh", "bash", "dash", "grep", "tc", "busybox", "sshd"})
"""Programs of the snapshots themselves and of their connection: not counted."""

LINE = 'read -r l < $f && echo "$f:$l"'
"""Shell: the first line of a file, as grep prints it."""
LIVE = (
    f"for f in /proc/[0-9]*/schedstat; do {LINE}; done; "
    f'[ "$WHEN" = before ] || for f in /proc/[0-9]*/comm; do {LINE}; done'
)
"""Shell for ``Probe.live``: every process of a machine; names are read in the second snapshot only."""

_LINE = re.compile(
    r"^(?:/sys/class/block/[^/]+/|/proc/)(?:(\d+)/(?:task/(\d+)/)?)?(stat|schedstat|comm):(.*)$", re.MULTILINE
)


@dataclass
class Snapshot:
    """Threads by id: time on CPU, ns, and name."""

    ios: int = 0
    """Reads and writes that the lane's devices completed."""
    softirq: int = 0
    """Ticks."""
    ran: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    process: dict[str, str] = field(default_factory=dict)
    """Thread -> process."""


def read(text: str) -> Snapshot:
    """Parses ``FILE:LINE`` as grep prints it; other lines are left out."""
    out = Snapshot()
    for pid, task, kind, line in _LINE.findall(text):
        thread = task or pid
        fields = line.split()
        if thread and kind == "comm":
            out.names[thread] = line
        elif thread and kind == "schedstat" and fields and (ran := counter(fields[0])) is not None:
            out.ran[thread] = ran
            out.process[thread] = pid
        elif not thread and fields and fields[0] == "cpu" and len(fields) > 7:
            out.softirq = counter(fields[7]) or 0
        elif not thread and len(fields) > 10 and fields[0].isdecimal():
            out.ios += (counter(fields[0]) or 0) + (counter(fields[4]) or 0)
    return out


def between(first: Snapshot, last: Snapshot) -> Iterator[tuple[str, int]]:
    """(thread, ns on CPU between the snapshots) of each that ran and still exists; of a new one since its start."""
    for thread, ran in last.ran.items():
        delta = ran - first.ran.get(thread, 0)
        if delta > 0:
            yield thread, delta


def ios_of(load: Figures) -> float:
    """I/Os of the whole window, ramp included, of all machines: as the guests' devices counted them, or (a file in a
    share has no device) as the workload reports; 0: unknown."""
    if cached(load):
        return reported_ios(load)
    cpu, disk = load.context.get("cpu", {}), load.context.get("disk", {})
    if ios := cpu.get("window_ios", 0):
        return float(ios)
    return float(disk.get("reads", 0) + disk.get("writes", 0)) or reported_ios(load)


def cached(load: Figures) -> bool:
    """Whether the load went through a page cache, so that the device's I/Os are not its own."""
    return bool(load.context.get("load", {}).get("cached"))


def reported_ios(load: Figures) -> float:
    """I/Os of the whole window, of all jobs, as the workload reports them; the ramp is assumed to run at the same
    rate."""
    report = load.context.get("load", {})
    return float(sum(report.get("all", report).get("ios", {}).values())) * float(report.get("window", 1.0))


def of_transactions(load: Figures) -> bool:
    """Whether the load is transactions of a database, which stand for its I/Os here."""
    return bool(load.context.get("load", {}).get("transactions"))


def per_io(metric: str, key: str, places: Mapping[str, int], load: Figures) -> Figures:
    """CPU time by place (ns) as figures per I/O of the fleet."""
    ios, total = ios_of(load), sum(places.values())
    if ios <= 0 or total <= 0 or of_transactions(load):
        return Figures()
    by_place = {place: ns / ios for place, ns in places.items()}
    return Figures({metric: total / ios}, context={key: {"by_place": by_place, "window_ios": ios}})
