"""CPU time of the array per I/O of the fleet, by group of kernel threads (iscsi_trx, kworker, nfsd, ksoftirqd, ...).

As ``cpu`` does it in the guest, with the same limits: softirq work is charged to the thread it interrupts, and to
nobody while the CPU idles. All lanes' targets run at once; those not under load idle, and the CPU time they use anyway
is in the figure of every lane alike.
"""

import re

from fairlane.probes import _threads as threads
from fairlane.probes.base import Probe
from fairlane.records import Figures

_GROUP = re.compile(r"[A-Za-z_.-]+")


class CpuTarget(Probe):
    place = "target"
    capture = threads.LIVE

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        first, last = threads.read(before), threads.read(after)
        places: dict[str, int] = {}
        for thread, ns in threads.between(first, last):
            name = last.names.get(thread, "")
            if name not in threads.RUNNER:
                match = _GROUP.match(name)
                group = match[0].rstrip("_.-") if match else "other"
                places[group] = places.get(group, 0) + ns
        return threads.per_io("cpu_per_io_target", "cpu_target", places, load)


PLUGIN = CpuTarget()
