"""CPU time of other programs on a machine that has other work, by name.

``/proc/PID/stat`` (kernel: filesystems/proc.rst): user and system time of a process, of all its threads, and of its
children that have ended, in ticks of 10 ms. The run's own processes are those with its mark in their environment (the
load and what serves it), and their parents (Fairlane, a connection's sshd). Kernel threads are left out: the lanes have
work done in them. A process that ended counts with its parent, one whose parent did not wait for it is lost.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

_TICKS = 100
"""Per second (USER_HZ)."""
_LEAST = 0.01
"""Fewest CPUs that are reported."""
_MOST = 4
"""Most programs reported."""
_INIT, _KERNEL = "1", "2"
"""Pids of init, and of kthreadd, the parent of the kernel's threads."""

_UPTIME = re.compile(r"^uptime (\d{1,12})\.(\d\d) ", re.MULTILINE)
_PROCESS = re.compile(r"^(\d{1,10}) \((.*)\) (\S) ([-\d ]+)$", re.MULTILINE)
_OWN = re.compile(r"^/proc/(\d+)/environ$", re.MULTILINE)


class Programs(Probe):
    """``programs``: name -> CPUs used on average between the snapshots, of those that used most."""

    virtual = False
    living = True
    # Own processes first: one that ended between the two would be a stranger with the load's CPU time.
    capture: ClassVar[str] = """
[ "${WHEN:-before}" = before ] || grep -lazs "^FAIRLANE_RUN=${FAIRLANE_RUN:--}\\$" /proc/[0-9]*/environ || :
read -r l < /proc/uptime && echo "uptime $l"
for f in /proc/[0-9]*/stat; do read -r l < $f && echo "$l"; done 2> /dev/null"""

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        begun, ended = _uptime(before), _uptime(after)
        first, last = _read(before), _read(after)
        if begun is None or ended is None or ended <= begun or not first or not last:
            return Figures()
        marked = set(_OWN.findall(after))
        own = marked | {last[pid].parent for pid in marked if pid in last} - {_INIT}
        used: Counter[str] = Counter()
        for pid, process in last.items():
            if pid not in own and _KERNEL not in (pid, process.parent):
                used[process.name] += _spent(pid, process, first)
        gone = {pid: process for pid, process in first.items() if pid not in last}
        for process in gone.values():
            parent = process.parent
            for _ in gone:
                parent = gone[parent].parent if parent in gone else parent
            # it has the whole time of a child that ended, that from before the first snapshot too
            if parent in last and parent not in own:
                used[last[parent].name] -= process.ticks
        cpus = {name: ticks / _TICKS / (ended - begun) for name, ticks in used.most_common(_MOST)}
        return Figures(context={"programs": {name: value for name, value in cpus.items() if value >= _LEAST}})


@dataclass(frozen=True)
class _Process:
    name: str
    parent: str
    ticks: int
    """User and system time, with that of children that have ended."""
    start: int
    """Ticks after the machine's start."""


def _spent(pid: str, process: _Process, first: dict[str, _Process]) -> int:
    """Ticks between the snapshots."""
    earlier = first.get(pid)
    same = earlier is not None and earlier.start == process.start
    return max(0, process.ticks - earlier.ticks) if same and earlier else process.ticks


def _read(text: str) -> dict[str, _Process]:
    """Pid -> its process."""
    processes = {}
    for pid, name, _, rest in _PROCESS.findall(text):
        fields = rest.split()
        counts = [counter(field) for field in (*fields[10:14], *fields[18:19])]
        if len(counts) == 5 and None not in counts:
            known = [count or 0 for count in counts]
            processes[pid] = _Process(name, fields[0], sum(known[:4]), known[4])
    return processes


def _uptime(text: str) -> float | None:
    match = _UPTIME.search(text)
    return int(match[1]) + int(match[2]) / 100 if match else None


PLUGIN = Programs()
