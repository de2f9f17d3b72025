"""Reads of space that was never written, and first writes to it."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck, at, number, text
from fairlane.records import Evidence

_WRITTEN = 0.98
"""Least written share of the working set: file systems and thin pools count in extents of up to some MiB, and a
hundredth of the reads served at once moves no mean by the margin."""
_FALSE = (False, 0, "no", "false")


class UnwrittenSpace(TrialCheck):
    """A medium may serve unwritten space as zeros, from memory, and must allocate space at the first write. Evidence:
    ``medium.allocated_bytes`` of the trial, else of its lane when that was built and filled, against the working set;
    else the condition ``prefill``. Databases write what they read, so only trials with IOPS or bandwidth count. Media
    with equal I/Os are exempt (``medium.unwritten_reads``; null_blk, which completes every I/O after the same time).
    """

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        if not (trial.metric("iops") or trial.metric("bw")) or _alike(trial, evidence):
            return
        reads = trial.directions is None or trial.directions[0]
        first = (
            "reads of unwritten space return zeros without reaching the medium"
            if reads
            else "first writes also allocate space, which later writes do not"
        )
        allocated, size = trial.context("medium", "allocated_bytes"), _working_set(trial, evidence)
        if allocated is None:
            allocated = _bytes(trial, evidence, "medium.allocated_bytes")
        if allocated is not None and size:
            if allocated < _WRITTEN * size:
                yield Oddity(
                    "allocated",
                    "critical",
                    1 - allocated / size,
                    f"only {_size(allocated)} of the {_size(size)} in use had ever been written",
                    first,
                    {"allocated_bytes": allocated, "size_bytes": size, "share": allocated / size, "reads": reads},
                )
            return
        prefill = trial.known.get("prefill")
        if prefill is None:
            yield Oddity(
                "unknown",
                "warning",
                1.0,
                "prefill is not stated",
                "reads of unwritten space may have returned zeros, and first writes also allocate space. State it: "
                "conditions: {prefill: true}",
                {"prefill": None},
            )
        elif prefill in _FALSE:
            yield Oddity(
                "none",
                "critical" if reads else "warning",
                1.0,
                "nothing was written before the load (prefill: false)",
                f"{first}, unless something else had written it. If so, state it: conditions: {{prefill: true}}",
                {"prefill": False, "reads": reads},
            )


def _alike(trial: Trial, evidence: Evidence) -> bool:
    if text(trial.observation.context, "medium", "unwritten_reads") == "same":
        return True
    lane = at(evidence.description, "lanes", trial.observation.lane)
    return "null_blk" in (text(lane, "medium.kind"), text(evidence.description, "platform", "medium.kind"))


def _working_set(trial: Trial, evidence: Evidence) -> float | None:
    """Bytes of the volume that are in use; the whole volume, behind the offset, by default. None: not known."""
    if size := trial.parameter("size"):
        return size
    whole = trial.parameter("disk_size") or _bytes(trial, evidence, "device.bytes")
    return max(0.0, whole - (trial.parameter("offset") or 0.0)) if whole else None


def _bytes(trial: Trial, evidence: Evidence, key: str) -> float | None:
    """The number (or number as text) under ``key`` in the description of the trial's lane."""
    lane = at(evidence.description, "lanes", trial.observation.lane)
    value = text(lane, key)
    return float(value) if value.isascii() and value.isdigit() and len(value) < 20 else number(lane, key)


def _size(size: float) -> str:
    unit, name = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
    return f"{size / unit:,.4g} {name}"


PLUGIN = UnwrittenSpace()
