"""The primary metrics of a run as pairs of lane and baseline, for checks of log-ratios. Not a check."""

from collections.abc import Iterator
from dataclasses import dataclass

from fairlane.records import Cell, Evidence
from fairlane.stats.pairs import Pair, pair, shelve


@dataclass(frozen=True)
class Primary:
    """The primary metric of one lane against the baseline in one cell; ``pair`` has at least one block that counts."""

    cell: Cell
    lane: str
    metric: str
    pair: Pair


def primaries(evidence: Evidence) -> Iterator[Primary]:
    """All primaries that have blocks, in the order of the study; none where the lanes' trials form no blocks."""
    study = evidence.study
    if not study.design.paired:
        return
    shelves = shelve(evidence.observations, {workload.primary for workload in study.workloads.values()})
    apart = (study.baseline, *study.references)
    for cell in study.judged:
        metric = study.workloads[cell.workload].primary
        for lane in study.lanes:
            lane_pair = pair(shelves.get(cell.key, {}), lane, study.baseline, metric)
            if lane not in apart and lane_pair.rows:
                yield Primary(cell, lane, metric, lane_pair)
