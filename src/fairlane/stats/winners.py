"""Plausible winners of three or more lanes. Pure.

The lane with the highest figure need not be the best one; the data only show which lanes are *not* the best. A lane is
out if another one beats it:

* A lane and the baseline: the verdict decides, if it is in the headline. So this answer never contradicts it.
* Two others: the paired log-ratios of their common blocks, one-sided at alpha/(k - 1), with the looks as the judge has
  them. A difference that the tie test shows to be smaller than the margin counts as none, as in verdicts.

Only comparisons with the truly best of k lanes can leave it out wrongly: one verdict, false with a chance of at most
alpha, and k - 2 others (Bonferroni; the idea is that of Gupta, Technometrics 7, 1965, and of Edwards and Hsu, JASA 78,
1983, who take one common variance and independent samples: the lanes of a block have neither). Together that is less
than 2 alpha. It holds for each cell by itself: of 20 cells, two may miss their best lane.

Copies of a lane (A/A controls) and references do not compete.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Verdict, Winners
from fairlane.stats.answers import margin_of, within
from fairlane.stats.contests import contest
from fairlane.stats.pairs import Shelf, shelve


def winners(evidence: Evidence, verdicts: Sequence[Verdict]) -> tuple[Winners, ...]:
    """The plausible winners of every cell in which three lanes or more are compared, in the order of the study.

    ``verdicts``: the run's, of which those of primary metrics are used.
    """
    study = evidence.study
    if len(study.rivals) < 2:
        return ()
    shelves = shelve(evidence.observations, {workload.primary for workload in study.workloads.values()})
    of_cell: dict[str, dict[str, Verdict]] = {}
    for v in verdicts:
        if v.primary and v.baseline == study.baseline and v.lane in study.rivals:
            of_cell.setdefault(v.key, {})[v.lane] = v
    by_cell = (_cell(evidence, c, shelves.get(c.key, {}), of_cell.get(c.key, {})) for c in study.judged)
    return tuple(w for w in by_cell if w)


def _cell(evidence: Evidence, cell: Cell, shelf: Shelf, verdicts: Mapping[str, Verdict]) -> Winners | None:
    study = evidence.study
    metric = METRICS[study.workloads[cell.workload].primary]
    left_out = {lane: v.notes[0] if v.notes else "no figures" for lane, v in verdicts.items() if v.low is None}
    rivals = [lane for lane in study.rivals if lane in verdicts and lane not in left_out]
    if len(rivals) < 2:
        return None
    lanes = tuple(lane for lane in study.lanes if lane == study.baseline or lane in rivals)
    share = study.design.alpha / (len(lanes) - 1)
    beaten: dict[str, dict[str, float]] = {}
    for lane in rivals:
        v = verdicts[lane]
        if v.headline and v.verdict in ("faster", "slower") and v.joint_low is not None and v.joint_high is not None:
            nearest = min(v.joint_low, v.joint_high, key=lambda end: abs(math.log(end)))
            if v.verdict == "faster":
                beaten.setdefault(study.baseline, {})[lane] = nearest
            else:
                beaten.setdefault(lane, {})[study.baseline] = 1 / nearest
    for first, other in permutations(rivals, 2):
        if stage := contest(study.design, cell, (first, other), metric.name, shelf, complete=evidence.complete).final:
            # one-sided at the share: the two-sided interval at twice that, of which one end is used
            low, high = stage.interval(min(2 * share, 0.999))
            small = within(stage.interval(2 * study.design.alpha), margin_of(study, metric.name))
            if (low if metric.better > 0 else -high) > 0 and not small:
                beaten.setdefault(other, {})[first] = math.exp(low if metric.better > 0 else high)
    best = {lane: max(by.items(), key=lambda item: abs(math.log(item[1]))) for lane, by in beaten.items()}
    return Winners(
        workload=cell.workload,
        key=cell.key,
        cell=cell.name,
        metric=metric.name,
        lanes=lanes,
        out={lane: best[lane] for lane in lanes if lane in best},
        level=2 * study.design.alpha,
        left_out=left_out,
        verdicts={lane: verdicts[lane] for lane in rivals},
    )
