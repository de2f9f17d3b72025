"""How busy the machine was between the snapshots: with no idle core, the machine is what was measured.

``/proc/stat`` (kernel: Documentation/filesystems/proc.rst) in ticks of 10 ms, all CPUs added: user, nice, system, idle,
iowait, irq, softirq, steal. Steal is time that a hypervisor gave to others. The window is longer than the load: it
includes settling, the generator's start and the ramp; its length is reported.
"""

from typing import ClassVar

from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

_TICK_MS = 10
"""Unit of /proc/stat (USER_HZ = 100)."""
_NAMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class Machine(Probe):
    # shell builtins, no program: see probes/disk.py
    capture: ClassVar[str] = (
        'while read -r line; do case $line in cpu*) echo "$line" ;; *) break ;; esac; done < /proc/stat'
    )

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        first, last = _read(before), _read(after)
        if not first or not last:
            return Figures()
        # iowait may fall: it is an estimate
        ticks = {name: max(0, last[name] - first[name]) for name in _NAMES}
        total, cpus = sum(ticks.values()), _cpus(after)
        if not total or not cpus:
            return Figures()
        busy = total - ticks["idle"] - ticks["iowait"] - ticks["steal"]
        machine = {
            "busy": busy / total,
            "steal": ticks["steal"] / total,
            "iowait": ticks["iowait"] / total,
            "cpus": cpus,
            "window_ms": total * _TICK_MS / cpus,
        }
        return Figures(context={"machine": machine})


def _read(text: str) -> dict[str, int]:
    """The line of all CPUs; empty if missing."""
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        counters = [c for field in fields[: len(_NAMES)] if (c := counter(field)) is not None]
        if name == "cpu" and len(counters) == len(_NAMES):
            return dict(zip(_NAMES, counters, strict=True))
    return {}


def _cpus(text: str) -> int:
    return sum(line.startswith("cpu") and line[3:4].isdigit() for line in text.splitlines())


PLUGIN = Machine()
