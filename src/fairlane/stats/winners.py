"""Comparisons of three or more lanes: the plausible winners, and simultaneous intervals against the baseline.

**Plausible winners.** The lane with the highest figure need not be the best one; the data only show which lanes are
*not* the best. Of k lanes, all pairs are compared by the paired log-ratios of their common blocks, and a lane is out
if any other beats it, one-sided, at the rate alpha/(k - 1). The truly best lane is in the set with a chance of at least
1 - alpha: it is left out only if one of the k - 1 others is declared better than it, which none is, so each errs with a
chance of at most alpha/(k - 1) (Bonferroni). Only the k - 1 comparisons with the best lane matter, not all k(k - 1):
the idea is that of subset selection (Gupta, Technometrics 7, 1965) and of comparisons with the best (Edwards and Hsu,
JASA 78, 1983). Theirs take one common variance and independent samples; the lanes of a block have neither, and
Bonferroni needs neither. It holds for each cell by itself: of 20 cells, one may miss its best lane.

**Simultaneous intervals** of the k - 1 lanes against the baseline, single-step, each at alpha/(k - 1). Dunnett's (JASA
50, 1955) are narrower, by 2 % at k = 3 and 3 % at k = 5, but again for one common variance only.

Both use the looks as the judge does: the nominal level at the last look reached, for the blocks that count. Copies of
a lane (A/A controls) do not compete.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Finding, Winners
from fairlane.stats.contests import Stage, concerns, contest
from fairlane.stats.pairs import Shelf, shelve


def winners(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Winners, ...]:
    """The plausible winners of every cell in which three lanes or more can be compared, in the order of the study."""
    study = evidence.study
    if len(study.rivals) < 2:
        return ()
    shelves = shelve(evidence.observations, {workload.primary for workload in study.workloads.values()})
    by_cell = (_cell(evidence, cell, shelves.get(cell.key, {}), findings) for cell in study.judged)
    return tuple(w for w in by_cell if w)


def _cell(evidence: Evidence, cell: Cell, shelf: Shelf, findings: Sequence[Finding]) -> Winners | None:
    study = evidence.study
    metric = METRICS[study.workloads[cell.workload].primary]
    contenders = [lane for lane in study.lanes if lane == study.baseline or lane in study.rivals]
    left_out = {lane: "no figures" for lane in contenders if not _has(shelf, lane, metric.name)}
    for lane in study.rivals:
        if why := _barred(cell, lane, study.baseline, findings):
            left_out[lane] = why
    lanes = tuple(lane for lane in contenders if lane not in left_out)
    stages = {}
    for first, other in permutations(lanes, 2):
        met = contest(study.design, cell, (first, other), metric.name, shelf, complete=evidence.complete)
        if stage := met.final:
            stages[first, other] = stage
    if len(lanes) < 3 or not stages:
        return None
    share = study.design.alpha / (len(lanes) - 1)
    out: dict[str, tuple[str, float]] = {}
    for (first, other), stage in stages.items():
        # one-sided at the share: the two-sided interval at twice that, of which one end is used
        low, high = stage.interval(min(2 * share, 0.999))
        if (low if metric.better > 0 else -high) > 0:
            ratio = math.exp(low if metric.better > 0 else high)
            if other not in out or abs(math.log(ratio)) > abs(math.log(out[other][1])):
                out[other] = (first, ratio)
    return Winners(
        workload=cell.workload,
        key=cell.key,
        cell=cell.name,
        metric=metric.name,
        lanes=lanes,
        out={lane: out[lane] for lane in lanes if lane in out},
        intervals=_intervals(stages, lanes, study.baseline, share),
        level=study.design.alpha,
        left_out=left_out,
    )


def _intervals(
    stages: Mapping[tuple[str, str], Stage], lanes: Sequence[str], baseline: str, share: float
) -> dict[str, tuple[float, float]]:
    intervals = {}
    for lane in lanes:
        if stage := stages.get((lane, baseline)):
            low, high = stage.interval(share)
            intervals[lane] = (math.exp(low), math.exp(high))
    return intervals


def _has(shelf: Shelf, lane: str, metric: str) -> bool:
    return any(metric in reading.figures for reading in shelf.get(lane, {}).values())


def _barred(cell: Cell, lane: str, baseline: str, findings: Sequence[Finding]) -> str:
    """Why the guard allows no comparison of ``lane``; empty: it does."""
    return next((f.message for f in findings if f.refuses and concerns(f, cell, lane, baseline)), "")
