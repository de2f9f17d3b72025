"""The machine that the lab's guests run on, for the fingerprint of a run."""

import os
import platform
import re
from pathlib import Path


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
