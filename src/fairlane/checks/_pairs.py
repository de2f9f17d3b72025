"""The primary metrics of a run as pairs of lane and baseline, for checks of log-ratios. Not a check."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fairlane.records import Cell, Evidence
from fairlane.stats.contests import Past, past
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


def together(evidence: Evidence) -> dict[tuple[str, str], tuple[list[str], Past]]:
    """(lane, primary metric) -> keys of the cells in which it is compared with the baseline, and what they show
    together. None under the virtual clock, whose blocks begin in the same state."""
    if evidence.modelled:
        return {}
    each = evidence.study.design.blocks_per_unit
    groups: dict[tuple[str, str], list[Primary]] = {}
    for primary in primaries(evidence):
        groups.setdefault((primary.lane, primary.metric), []).append(primary)
    return {
        key: ([p.cell.key for p in some], past([replace(p.pair, each=each) for p in some]))
        for key, some in groups.items()
    }
