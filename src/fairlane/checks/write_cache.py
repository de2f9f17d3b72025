"""Lanes with different guarantees for a completed write."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlane.checks._behind import promise, read, syncs
from fairlane.checks._trials import at
from fairlane.checks.base import Check
from fairlane.records import Cell, Evidence, Finding

_KEYS = ("device.write_cache", "device.fua")


class WriteCache(Check):
    """The kernel's view of each lane's device, as read back (``/sys/block/*/queue/write_cache`` and ``fua``), against
    the baseline's. A write-through device promises that a completed write is stable, and flushes never reach it; to a
    write-back device the kernel sends flushes, or FUA writes. Plain writes use neither and may be compared; for a
    program that syncs the lanes differ in more than speed. Cells that sync themselves (databases; fio with ``fsync``
    and its kin) compare just that, for information. Cells that only read are left out, and
    lanes of which ``flush_promise`` knows more.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        modes = {name: _cache_mode(at(evidence.description, "lanes", name)) for name in evidence.study.lanes}
        baseline = evidence.study.baseline
        known = {name for name, lane in read(evidence).items() if promise(lane)}
        if baseline in known:
            modes = {name: cache for name, cache in modes.items() if name == baseline or name not in known}
        ours = modes.get(baseline)
        others = {name: cache for name, cache in modes.items() if cache and ours and cache[0] != ours[0]}
        writing = [cell for cell in evidence.cells() if any(map(_writes, _jobs(cell)))]
        syncing = [cell.key for cell in writing if syncs(cell)]
        plain = [cell.key for cell in writing if cell.key not in syncing]
        if not others or not ours or not writing:
            return
        label = {name: lane.label or name for name, lane in evidence.study.lanes.items()}
        differ = "; ".join(f"{label.get(name, name)} is {' with '.join(cache)}" for name, cache in others.items())
        proof = {name: " with ".join(cache) for name, cache in modes.items() if cache}
        message = (
            f"flush semantics differ: {label[baseline]} is {' with '.join(ours)}; {differ}. On a write-back lane "
            "a write is stable only after a flush, on a write-through lane at once."
        )
        if plain:
            left_out = "No load here syncs, so the figures include neither the cost nor the guarantee of a flush"
            yield self.finding(
                "flush", "warning", f"{message} {left_out}", cells=plain, lanes=[baseline, *others], evidence=proof
            )
        if syncing:
            compared = "The loads of these cells sync, so the difference includes the cost of making each write stable"
            yield self.finding(
                "flush-compared", "info", f"{message} {compared}", cells=syncing, lanes=[baseline, *others],
                evidence=proof,
            )  # fmt: skip


def _jobs(cell: Cell) -> Iterable[Mapping[str, Any]]:
    """The cell's jobs; it is its own where it has no named ones."""
    jobs = cell.params.get("jobs")
    return jobs.values() if isinstance(jobs, Mapping) else (cell.params,)


def _writes(job: Mapping[str, Any]) -> bool:
    return job.get("rw") not in ("read", "randread")


def _cache_mode(lane: Any) -> tuple[str, ...]:
    """``("write back", "FUA")``; empty if the lane's description has no cache mode."""
    cache, fua = (lane.get(key) for key in _KEYS) if isinstance(lane, Mapping) else (None, None)
    if not isinstance(cache, str) or not cache.strip():
        return ()
    return (cache.strip(), "FUA") if str(fua).strip() == "1" else (cache.strip(),)


PLUGIN = WriteCache()
