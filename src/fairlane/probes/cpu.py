"""CPU time per I/O: of the generator, of the kernel threads of initiator and target, and of all others.

* Threads: ``/proc/PID/schedstat`` (time on CPU in ns), keyed by pid, because kworkers change their names. All that
  existed before and after count, except the shell that takes the snapshots.
* The generator: the workload's own report (context ``generator``, with its error ``generator_step``), because its
  threads are gone by the second snapshot, and because its start and end are not I/O.
* I/Os of the whole window, ramp included, come from the lane's own device (``/sys/class/block/*/stat``); of a file
  in a share, which has no device, from the workload.

Softirq work is charged to the thread it interrupts (IRQ_TIME_ACCOUNTING is off in Debian's kernel; that is how
rcu_preempt comes to a tenth of the time at 64k), and to nobody while the CPU idles: totals are good to about 1 % on a
busy CPU and too low at iodepth 1, the split between initiator and target is good to perhaps 20 %, and the softirq
figure comes from 4 ms ticks.
"""

import re
from collections.abc import Iterator
from typing import ClassVar

from fairlane.probes import _threads as threads
from fairlane.probes.base import Probe
from fairlane.records import Figures

# Name of a thread -> whose work it does; any other thread is "other". A kworker serves any subsystem, and
# its name shows the last one only: nvme-tcp and nvmet-tcp take turns on one, open-iscsi and LIO's backend leave no name
# at all. Their sum is right, a split would not be.
_PLACES = (
    (re.compile(r"iscsi_(np|ttx|trx)|LIO|tmr-"), "target"),
    (re.compile(r"kworker|nvme"), "shared"),
    (re.compile(r"iscsi_|scsi_eh"), "initiator"),
)


class Cpu(Probe):
    # One process reads everything: every fork costs the guest of the virtual clock milliseconds.
    capture: ClassVar[str] = (
        "grep -s . /sys/class/block/$DEVICE/stat /proc/stat /proc/[0-9]*/schedstat /proc/[0-9]*/comm | grep -v :intr"
    )

    live: ClassVar[str] = f"for f in $STATS /proc/stat; do {threads.LINE}; done; {threads.LIVE}"

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        first, last = threads.read(before), threads.read(after)
        # a file in a share has no device that counts
        counted = (first.ios or last.ios) and not threads.cached(load)
        ios = last.ios - first.ios if counted else threads.reported_ios(load)
        generator = {mode: float(ns) for mode, ns in load.context.get("generator", {}).items()}
        if ios <= 0 or not generator:
            return Figures()
        places = {"generator": sum(generator.values())}
        for place, ns in _threads(first, last):
            places[place] = places.get(place, 0.0) + ns / ios
        total = sum(places.values())
        if total <= 0:
            return Figures()
        user = generator.get("user", 0.0)
        softirq = (last.softirq - first.softirq) * threads.TICK_NS / ios
        modes = {"user": user, "softirq": softirq, "kernel": max(0.0, total - user - softirq)}
        context = {"cpu": {"by_place": places, "by_mode": modes, "window_ios": ios}}
        step = load.context.get("generator_step", 0.0) / total
        metric = "cpu_per_tx" if threads.of_transactions(load) else "cpu_per_io"
        return Figures({metric: total}, context=context, steps={metric: step})


def _threads(first: threads.Snapshot, last: threads.Snapshot) -> Iterator[tuple[str, int]]:
    """(place, ns on CPU between the snapshots) of each thread that existed in both, and of new kworkers."""
    for pid, delta in threads.between(first, last):
        name = last.names.get(pid, "")
        place = next((place for pattern, place in _PLACES if pattern.search(name)), "")
        if name not in threads.RUNNER and (place or pid in first.ran):
            yield place or "other", delta


PLUGIN = Cpu()
