"""CPU time of the machines' processes per I/O of the fleet: virtual CPUs, IO threads, main loop, workers, vhost.

The array's machine is not included, though in the lab it runs beside them. Threads that end in between (QEMU's pool of
workers) take their time with them. Under emulation the virtual CPUs' share is the cost of emulation, and nothing else.
"""

from collections.abc import Mapping
from typing import ClassVar

from fairlane.probes import _threads as threads
from fairlane.probes.base import Probe
from fairlane.records import Figures


class CpuHypervisor(Probe):
    place = "hypervisor"
    # vhost's threads are the kernel's own, named after the process they work for
    capture: ClassVar[str] = (
        'echo "vcpu $VCPUS"; echo "io_threads $IO_THREADS"; '
        f"for p in $MACHINES; do for f in /proc/$p/task/[0-9]*/schedstat; do {threads.LINE}; done; done; "
        "[ ! -e /sys/module/vhost ] || for c in $(grep -sl ^vhost- /proc/[0-9]*/comm); do read -r n < $c; "
        'case " $MACHINES " in *" ${n#vhost-} "*) grep -sH . $c ${c%comm}schedstat ;; esac; done'
    )

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        first, last = threads.read(before), threads.read(after)
        roles = _roles(after)
        places: dict[str, int] = {}
        for thread, ns in threads.between(first, last):
            if last.names.get(thread, "").startswith("vhost-"):
                place = "vhost"
            else:
                place = roles.get(thread) or ("main" if last.process.get(thread) == thread else "workers")
            places[place] = places.get(place, 0) + ns
        return threads.per_io("cpu_per_io_hypervisor", "cpu_hypervisor", places, load)


def _roles(text: str) -> Mapping[str, str]:
    """Thread -> ``vcpu`` or ``io_threads``."""
    lines = [line.split() for line in text.splitlines() if line.startswith(("vcpu", "io_threads"))]
    return {thread: words[0] for words in lines for thread in words[1:]}


PLUGIN = CpuHypervisor()
