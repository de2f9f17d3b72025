"""Three lanes and more: which of them may be the best, and simultaneous intervals against the baseline.

**Plausible winners.** The lane with the highest figure need not be the best one; what can be said is which lanes are
shown *not* to be. Of k lanes, all pairs are compared by the paired log-ratios of their common blocks, and a lane is out
if any other beats it, one-sided, at the rate alpha/(k - 1). The truly best lane is in the set with a chance of at least
1 - alpha: it is left out only if one of the k - 1 others is declared better than it, which none is, so each errs with a
chance of at most alpha/(k - 1) (Bonferroni). Only the k - 1 comparisons with the best lane matter, not all k(k - 1):
the idea is that of subset selection (Gupta, Technometrics 7, 1965) and of comparisons with the best (Edwards and Hsu,
JASA 78, 1983). Theirs take one common variance and independent samples; the lanes of a block have neither, and
Bonferroni needs neither. It holds for each cell by itself: of 20 cells, one may miss its best lane.

**Simultaneous intervals** of the k - 1 lanes against the baseline, single-step, each at alpha/(k - 1). Dunnett's (JASA
50, 1955) are narrower, by 2 % at k = 3 and 3 % at k = 5, but again for one common variance only.

Both use the looks as the judge does: the nominal level at the last look reached, for the blocks that count.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Finding, Winners
from fairlane.stats import judge
from fairlane.stats.judge import Stage
from fairlane.stats.pairs import Shelf, pair, shelve, too_few_beyond, upto


def winners(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Winners, ...]:
    """The plausible winners of every cell in which three lanes or more can be compared, in the order of the study."""
    study = evidence.study
    if len(study.lanes) < 3:
        return ()
    shelves = shelve(evidence.observations, {workload.primary for workload in study.workloads.values()})
    found = (_cell(evidence, cell, shelves.get(cell.key, {}), findings) for cell in evidence.cells())
    return tuple(w for w in found if w)


def _cell(evidence: Evidence, cell: Cell, shelf: Shelf, findings: Sequence[Finding]) -> Winners | None:
    study = evidence.study
    metric = METRICS[study.workloads[cell.workload].primary]
    refused = _refused(cell, tuple(study.lanes), study.baseline, findings)
    none = {lane: "no figures" for lane in study.lanes if not _has(shelf, lane, metric.name)}
    left_out = {**none, **refused}
    lanes = tuple(lane for lane in study.lanes if lane not in left_out)
    stages = {}
    for one, other in permutations(lanes, 2):
        if stage := _stage(evidence, cell, shelf, (one, other), metric.name):
            stages[one, other] = stage
    if len(lanes) < 3 or not stages:
        return None
    share = study.design.alpha / (len(lanes) - 1)
    out: dict[str, tuple[str, float]] = {}
    for (one, other), stage in stages.items():
        # one-sided at the share: the two-sided interval at twice that, of which one end is used
        low, high = stage.interval(min(2 * share, 0.999))
        if (low if metric.better > 0 else -high) > 0:
            ratio = math.exp(low if metric.better > 0 else high)
            if other not in out or abs(math.log(ratio)) > abs(math.log(out[other][1])):
                out[other] = (one, ratio)
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


def _stage(evidence: Evidence, cell: Cell, shelf: Shelf, lanes: tuple[str, str], metric: str) -> Stage | None:
    """The first lane against the second, at the last look both have reached; None: nothing to compare."""
    plan = tuple(evidence.study.design.looks)
    ours = {lane: dict(shelf.get(lane, {})) for lane in lanes}
    reached = judge._looks_reached(ours, plan, complete=evidence.complete)
    seen = upto(ours, plan[reached - 1]) if reached else ours
    if too_few_beyond(seen, lanes, metric) is not None:
        return None
    return judge.Contest(cell, *lanes, metric, True, plan, reached, pair(seen, *lanes, metric), 0).final


def _intervals(
    stages: Mapping[tuple[str, str], Stage], lanes: Sequence[str], baseline: str, share: float
) -> dict[str, tuple[float, float]]:
    found = {}
    for lane in lanes:
        if stage := stages.get((lane, baseline)):
            low, high = stage.interval(share)
            found[lane] = (math.exp(low), math.exp(high))
    return found


def _has(shelf: Shelf, lane: str, metric: str) -> bool:
    return any(metric in reading.figures for reading in shelf.get(lane, {}).values())


def _refused(cell: Cell, lanes: tuple[str, ...], baseline: str, findings: Sequence[Finding]) -> dict[str, str]:
    """Lanes that the guard found not comparable: those a finding names; of all but the baseline if it names none."""
    told: dict[str, str] = {}
    for finding in findings:
        if finding.refuses and (not finding.cells or cell.key in finding.cells):
            named = [lane for lane in lanes if lane in finding.lanes and lane != baseline]
            told.update((lane, finding.message) for lane in named or lanes if lane != baseline)
    return told
