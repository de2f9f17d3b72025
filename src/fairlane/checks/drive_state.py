"""Flash drives that were written too little to leave their cache, or that left it within a trial."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any

from fairlane.checks._behind import Lane, key, lane_of, load, read, title
from fairlane.checks._trials import Oddity, Trial, TrialCheck, at, number, text
from fairlane.records import Evidence, Finding
from fairlane.units import about_size

_ROUNDS = 1.0
"""SNIA's test specification writes a drive twice over before it measures; once is the least that fills any cache of
single bits per cell (SLC), which drives keep in up to a third of their cells."""
_CLIFF = 0.6
"""Rate after / before. Caches of single bits are three times as fast as what is behind them, and more."""
_SAMPLES = 10
_SIDE = 3
"""Fewest samples, of a series and on either side of a cliff."""
_OVERLAP = 0.1
"""Share of the samples on either side that may lie beyond those of the other."""


class DriveState(TrialCheck):
    """Bytes that all trials wrote to each flash drive of a lane (``host_disks``) against its size, unless the lane
    passed a gate (``steady``); and per trial that writes, a fall of ``load.series`` to less than 60 % that lasts."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield from super().check(evidence)
        writing = load(evidence.cells()).writing
        if not writing:
            return
        by_disk: dict[tuple[str, str], tuple[Mapping[str, Any], list[str]]] = {}
        for lane in read(evidence).values():
            if at(evidence.description, "lanes", lane.name, "steady", "reached") is True:
                continue
            for machine, disk in lane.disks():
                if at(disk, "flash") is True:
                    by_disk.setdefault(key(machine, disk), (disk, []))[1].append(lane.name)
        for disk, lanes in by_disk.values():
            written, size = _written(evidence, text(disk, "name")), number(disk, "bytes")
            if written is None or not size or written >= _ROUNDS * size:
                continue
            yield self.finding(
                "not-filled",
                "warning",
                f"all trials together wrote only {about_size(written)} to {title(disk)}: the drive did not reach "
                "steady state. It may never have left its cache, so figures of writes may be those of the cache",
                cells=writing,
                lanes=list(dict.fromkeys(lanes)),
                evidence={"written_bytes": int(written), "size_bytes": int(size), "share": written / size},
            )

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:
        return (lane := lane_of(evidence, trial.observation.lane)) is not None and _on_disks(lane)

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        if trial.directions is None or not trial.directions[1]:
            return
        if at(trial.observation.context, "fault") is not None:
            return
        values = _series(at(trial.observation.context, "load", "series", "iops"))
        cliff = _cliff(values)
        if not cliff:
            return
        place, before, after = cliff
        interval = trial.context("load", "series", "interval_ms")
        when = f" after {place * interval / 1e3:.3g} s" if interval else ""
        yield Oddity(
            "cliff",
            "warning",
            1 - after / before,
            f"the rate fell from {before:,.0f} to {after:,.0f} IOPS{when} and did not recover",
            "the drive left its cache, so the mean of the trial describes neither state",
            {"before": before, "after": after, "at_sample": place},
        )


def _on_disks(lane: Lane) -> bool:
    return text(lane.one, "medium") == "disks"


def _written(evidence: Evidence, name: str) -> float | None:
    """Bytes written to a disk in all trials; None: no trial tells."""
    counts = [
        number(machine, name, "write_bytes") or 0.0
        for observation in evidence.observations
        if isinstance(disks := at(observation.context, "host_disks"), Mapping)
        for machine in _machines(disks)
    ]
    return sum(counts) if counts else None


def _machines(disks: Mapping[str, Any]) -> Iterator[Any]:
    if any("reads" in disk for disk in disks.values() if isinstance(disk, Mapping)):
        yield disks
    else:
        yield from disks.values() or [disks]


def _series(values: Any) -> list[float]:
    if not isinstance(values, list | tuple):
        return []
    numbers = [number({"v": value}, "v") for value in values]
    return [n for n in numbers if n is not None] if None not in numbers else []


def _cliff(values: Sequence[float]) -> tuple[int, float, float] | None:
    """(samples before it, mean before, mean after) of the split that explains most of the variance, if it is a fall to
    less than ``_CLIFF`` and the sides hardly overlap."""
    count = len(values)
    if count < _SAMPLES:
        return None
    sums = [0.0, *accumulate(values)]
    mean = sums[-1] / count

    def between(k: int) -> float:
        return k * (sums[k] / k - mean) ** 2 + (count - k) * ((sums[-1] - sums[k]) / (count - k) - mean) ** 2

    place = max(range(_SIDE, count - _SIDE + 1), key=between)
    high, low = sorted(values[:place]), sorted(values[place:], reverse=True)
    before, after = fmean(high), fmean(low)
    apart = high[int(_OVERLAP * len(high))] > low[int(_OVERLAP * len(low))]
    return (place, before, after) if before and after < _CLIFF * before and apart else None


PLUGIN = DriveState()
