"""Where a report's figures come from, in a line: date, duration, host, platform, versions. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from fairlane.records import Evidence

_DATABASES = ("mariadb", "postgresql")
"""Named where a study runs it: hosts describe all that they have."""
_VERSIONS = (
    "fairlane",
    "kernel",
    "fio",
    *_DATABASES,
    "qemu",
    "ceph",
    "kubevirt",
    "kubernetes",
    "openshift",
    "libvirt",
    "vcenter",
)


def facts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What the run directory holds; a fact that it lacks is left out."""
    times = [t for event in evidence.events if (t := _time(event.get("at")))]
    here = evidence.study.platform.measured_here
    if times:
        first, last = min(times), max(times)
        yield "Date" if here else "Imported", f"{first:%Y-%m-%d %H:%M} UTC"
        if here and last > first:
            yield "Duration", _span((last - first).total_seconds())
    described = evidence.description.get("platform") or {}
    clock = {"virtual": "virtual clock", "wall": "wall clock"}.get(str(described.get("clock")), "")
    yield "Platform", ", ".join(x for x in (evidence.study.platform.kind, clock) if x)
    machines = described.get("machines")
    reached = list(machines) if isinstance(machines, Mapping) else []
    listed = ", ".join(reached[:3]) + (f" and {len(reached) - 3} more" if len(reached) > 3 else "")
    own = evidence.fingerprint.get("host")
    own = own if isinstance(own, Mapping) else {}
    cpus = f"{own['cpus']} x " if own.get("cpus") else ""
    cpu = evidence.fingerprint.get("cpu") or (own.get("cpu") and f"{cpus}{own['cpu']}")
    kernel = own.get("kernel") and f"kernel {own['kernel']}"
    names = listed or str(evidence.fingerprint.get("nodes") or "")
    if host := ", ".join(str(x) for x in (names, cpu, kernel) if x):
        yield "Host", host
    databases = {getattr(w, "database", "") for w in evidence.study.workloads.values()}
    versions = [
        f"{key} {str(text).split(' (')[0].removeprefix(f'{key}-')}"
        for key in _VERSIONS
        if (key not in _DATABASES or key in databases) and (text := evidence.fingerprint.get(key)) is not None
    ]
    if versions:
        yield "Versions", ", ".join(versions)


def _time(at: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(at) if isinstance(at, str) else None
    except ValueError:
        return None


def _span(seconds: float) -> str:
    """``48 s``, ``2 min 51 s``, ``3 h 5 min``."""
    whole = round(seconds)
    for size, name, small, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {name}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"
