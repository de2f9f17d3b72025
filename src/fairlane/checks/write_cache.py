"""Lanes with different guarantees for a completed write."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_KEYS = ("device.write_cache", "device.fua")


class WriteCache(Check):
    """The kernel's view of each lane's device, as read back (``/sys/block/*/queue/write_cache`` and ``fua``), against
    the baseline's. A write-through device promises that a completed write is stable, and flushes never reach it; to a
    write-back device the kernel sends flushes, or FUA writes. No workload here uses either, so plain writes may be
    compared; for a program that syncs the lanes differ in more than speed. Cells that only read are left out.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        modes = {name: _cache_mode(lane) for name, lane in (evidence.description.get("lanes") or {}).items()}
        baseline = evidence.study.baseline
        ours = modes.get(baseline)
        others = {name: cache for name, cache in modes.items() if cache and ours and cache[0] != ours[0]}
        writing = [cell.key for cell in evidence.cells() if cell.params.get("rw") not in ("read", "randread")]
        if not others or not ours or not writing:
            return
        differ = "; ".join(f"{name} is {' with '.join(cache)}" for name, cache in others.items())
        yield self.finding(
            "flush",
            "warning",
            f"flush semantics differ: {baseline} is {' with '.join(ours)}; {differ}. A write-back lane must be "
            "flushed before a write is stable, a write-through lane promises it at once. Nothing here syncs, so the "
            "figures leave that cost, and that promise, out",
            cells=writing,
            lanes=[baseline, *others],
            evidence={name: " with ".join(cache) for name, cache in modes.items() if cache},
        )


def _cache_mode(lane: Any) -> tuple[str, ...]:
    """``("write back", "FUA")``; empty if the lane's description has no cache mode."""
    cache, fua = (lane.get(key) for key in _KEYS) if isinstance(lane, Mapping) else (None, None)
    if not isinstance(cache, str) or not cache.strip():
        return ()
    return (cache.strip(), "FUA") if str(fua).strip() == "1" else (cache.strip(),)


PLUGIN = WriteCache()
