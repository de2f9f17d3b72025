"""I/O of other programs on a lane's disks during a trial."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairlane.checks._behind import host_disks, lane_of, syncs
from fairlane.checks._trials import DIRECTIONS, Oddity, Trial, TrialCheck, at, number
from fairlane.records import Evidence
from fairlane.units import about_size

_SHARE = 0.05
"""Least share of others in the disks' bytes: journals and metadata of the file system itself stay below."""
_LEAST = 2**20
"""Bytes: one flush of a log, or of a few directories, is none of the load's business."""
_RAMP = 1.25
"""A ramp may have run faster than the time measured."""
_MOST = 0.5
"""Share of others above which the disk was rather theirs than the load's ..."""
_OFTEN = 0.5
"""... and least share of a cell's trials that must be so before no figure of the cell may stand in a headline."""
_VERB = {"read": "read from", "write": "written to"}

_SEVERAL = frozenset({"zfs", "zvol", "btrfs", "md", "bcache", "thin", "thin-pool"})
"""Layers that make of a write several I/Os, as many as its size and place want."""


class OtherIo(TrialCheck):
    """Bytes that all disks behind the lane moved (``host_disks``) beyond the load's bytes, ramp included. Where a probe
    showed that an I/O makes several (``probed.write.ratio``), so many are the load's own. Writes are left out where
    each causes an unknown number of others: with syncs (journals), on copying file systems, RAID, thin volumes.
    Through the page cache, which reads ahead and writes late, others are never certain enough to be critical."""

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:
        return lane_of(evidence, trial.observation.lane) is not None

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        lane = lane_of(evidence, trial.observation.lane)
        moved = host_disks(trial.observation.context, lane.names) if lane else None
        runtime = trial.seconds
        if not lane or not moved or not runtime:
            return
        factor = 1 + _RAMP * (trial.parameter("ramp") or 0.0) / 1e9 / runtime
        others = total = 0.0
        counted = []
        for way in DIRECTIONS:
            load = trial.all_jobs("bytes", way)
            if load is None:
                return
            if load and (lane.layers & _SEVERAL or (way == "write" and syncs(trial.cell))):
                continue
            ratio = max((number(p, way, "ratio") or 0.0 for p in lane.probed.values()), default=0.0)
            ios = trial.all_jobs("ios", way)
            flying = (trial.in_flight or 0.0) * load / ios if ios else 0.0
            disk = moved.get(f"{way}_bytes", 0.0)
            others += max(0.0, disk - (load * factor + flying) * max(1.0, ratio))
            total += disk
            counted.append(_VERB[way])
        if others < _LEAST or others < _SHARE * total:
            return
        cached = at(trial.observation.context, "load", "cached") is True or trial.cell.params.get("direct") is False
        disks, share = ", ".join(sorted(lane.names)), others / total
        message = (
            f"{about_size(others)} of the {about_size(total)} {' and '.join(counted)} {disks} ({share:.0%}) did not "
            "belong to the load"
        )
        yield Oddity(
            "others",
            "warning",
            share,
            message,
            "other programs used the disk at the same time, so the lane is faster than shown",
            {"others_bytes": int(others), "disk_bytes": int(total), "share": share, "cached": cached},
        )

    def graded(self, oddities: Sequence[Oddity], tried: int) -> Iterable[Oddity]:
        most = [oddity for oddity in oddities if oddity.size > _MOST and not oddity.proof["cached"]]
        if not most or len(most) < _OFTEN * tried:
            return oddities
        why = "the disk worked mostly for other programs, so the figures do not describe the lane"
        return [replace(oddity, kind="mostly-others", severity="critical", why=why) for oddity in most]


PLUGIN = OtherIo()
