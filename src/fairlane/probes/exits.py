"""Exits of the guests under KVM per I/O of the fleet: each one leaves the guest and enters it again.

From the counters that KVM keeps of each machine in debugfs (``/sys/kernel/debug/kvm/PID-FD/``), which only count;
``perf kvm stat live`` would sort by reason, but is a program that runs during the load. Without KVM, or without
debugfs, there are none. Written from KVM's sources (``exits``, ``io_exits``, ``halt_exits``, ...: x86), never run: no
machine in development had KVM.
"""

import re
from typing import ClassVar

from fairlane.probes._threads import ios_of
from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

_LINE = re.compile(r"^/sys/kernel/debug/kvm/([0-9-]+)/(\w*exits):(\d+)$", re.MULTILINE)


class Exits(Probe):
    place = "hypervisor"
    capture: ClassVar[str] = (
        "[ ! -d /sys/kernel/debug/kvm ] || for p in $MACHINES; do grep -sH . /sys/kernel/debug/kvm/$p-*/*exits; done"
    )

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        earlier = {(machine, kind): counter(value) for machine, kind, value in _LINE.findall(before)}
        ios, moved = ios_of(load), dict[str, int]()
        for machine, kind, value in _LINE.findall(after):
            begun, ended = earlier.get((machine, kind)), counter(value)
            if begun is None or ended is None or ended < begun:
                return Figures()
            moved[kind] = moved.get(kind, 0) + ended - begun
        return Figures(context={"exits_per_io": {kind: n / ios for kind, n in moved.items()}} if moved and ios else {})


PLUGIN = Exits()
