"""Pressure and context switches, disks and NICs of the machine that runs the guests, of all that runs there; and the
share of its CPU time that other programs took.

Own are the run's machines, and Fairlane or its connection with all descendants: the programs that measure. What
neither they nor the kernel's threads used, others did.
"""

import re
from typing import ClassVar

from fairlane.probes._system import EVERYTHING, System, cpu_ticks
from fairlane.probes.base import counter
from fairlane.records import Figures

_ROOTS = re.compile(r"^root (\d[\d ]*)$", re.MULTILINE)
_PROCESS = re.compile(r"^process (\d+) \(.*\) (.*)$", re.MULTILINE)
_KERNEL = "2"
"""Pid of kthreadd, the parent of the kernel's threads."""


class SystemHypervisor(System):
    place = "hypervisor"
    key = "system_hypervisor"
    # $PPID: the shell of a snapshot is a child of Fairlane, or of its connection. Processes that end meanwhile cannot
    # be read.
    capture: ClassVar[str] = EVERYTHING + (
        "; echo root $PPID $MACHINES; "
        'for f in /proc/[0-9]*/stat; do { read -r l < $f && echo "process $l"; } 2>/dev/null; done'
    )

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        figures = super().observe(before, after, load)
        first, last = cpu_ticks(before), cpu_ticks(after)
        spent = [_spent(text) for text in (before, after)]
        if not figures.context or first is None or last is None or None in spent:
            return figures
        moved = [max(0, b - a) for a, b in zip(first, last, strict=True)]
        total, used = sum(moved), sum(moved[:3])  # user, nice, system: without interrupts and steal
        if not total:
            return figures
        (own_before, own_after) = spent
        assert own_before is not None and own_after is not None  # noqa: S101, PT018 - checked above
        values = {
            "others": max(0.0, used - max(0, own_after - own_before)) / total,
            "steal": moved[7] / total,
        }
        return Figures(figures.metrics, context={self.key: {**figures.context[self.key], **values}})


def _spent(text: str) -> int | None:
    """Ticks that the run's own processes, their descendants (those that have ended too) and the kernel's threads have
    used; None: not known."""
    named = _ROOTS.search(text)
    roots = frozenset(named[1].split()) if named else frozenset()
    parents: dict[str, str] = {}
    ticks: dict[str, tuple[int, int]] = {}
    for pid, rest in _PROCESS.findall(text):
        fields = rest.split()
        if len(fields) > 14 and all(counter(field) is not None for field in fields[11:15]):
            parents[pid] = fields[1]
            ticks[pid] = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    if not roots & parents.keys():
        return None
    spent = 0
    for pid, (alive, ended) in ticks.items():
        if pid == _KERNEL or parents[pid] == _KERNEL:
            spent += alive
        elif _descends(pid, roots, parents):
            spent += alive + ended
    return spent


def _descends(pid: str, roots: frozenset[str], parents: dict[str, str]) -> bool:
    for _ in range(len(parents)):  # a snapshot is not taken at one moment: pids may go round in circles
        if pid in roots:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False


PLUGIN = SystemHypervisor()
