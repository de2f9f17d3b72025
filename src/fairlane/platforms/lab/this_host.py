"""The machine that the lab's guests run on, for the fingerprint of a run."""

import os
import platform
import re
import time
from pathlib import Path

_LOOK = 0.5
"""Seconds for which CPU time is counted."""
_BUSY = 0.25
"""Share of the CPU time from which on a user is warned."""


def facts(cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str | int]:
    """CPU model, cores that this process may use, and kernel: ``{"cpu": ..., "cpus": 2, "kernel": ...}``."""
    try:
        models = re.findall(r"^model name\s*: (.*)$", cpuinfo.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        models = []
    return {
        "cpu": models[0].strip() if models else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
    }


def disturbed() -> list[str]:
    """A warning if other programs use this host's CPUs: before a run nothing of ours does. Takes half a second."""
    taken = _taken()
    if taken < _BUSY:
        return []
    return [
        f"warning: this host is busy: other programs take {taken:.0%} of its CPU time (load {os.getloadavg()[0]:.1f} "
        f"on {os.cpu_count()} CPUs). Figures by the wall clock will scatter, and intervals be wide: end them first"
    ]


def _taken() -> float:
    """Share of the CPU time that is not idle."""
    first = _ticks()
    time.sleep(_LOOK)
    moved = [b - a for a, b in zip(first, _ticks(), strict=True)]
    return 1 - (moved[3] + moved[4]) / sum(moved) if sum(moved) > 0 else 0.0


def _ticks() -> list[int]:
    """CPU time in user, nice, system, idle, iowait, irq, softirq, steal."""
    return [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
