"""Plausible winners of three or more lanes. Pure.

The lane with the highest figure need not be the best one; the data only show which lanes are *not* the best. A lane is
out where a verdict in the headline shows another one to be better, and the judge alone decides that: against the
baseline by the run's own verdicts, between two others by those that the same blocks give with one of them as the
baseline. So what withholds a verdict, failures, stalls, lanes that move, blocks that are few, takes no lane out.

Only comparisons with the truly best of k lanes can leave it out wrongly. Those with the baseline err in at most alpha
of the studies. The k - 1 others are judged against each other at alpha/(k - 2), each once, and the best of them takes
part in k - 2 such families at most: together that is less than 2 alpha, over all cells of the study.

Copies of a lane (A/A controls) and references do not compete.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Finding, Verdict, Winners
from fairlane.stats.judge import judge


def winners(evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding] = ()) -> tuple[Winners, ...]:
    """The plausible winners of every cell in which three lanes or more are compared, in the order of the study.

    ``verdicts``: the run's, of which those of primary metrics are used; ``findings``: those that they heed.
    """
    study = evidence.study
    if len(study.rivals) < 2:
        return ()
    own = [v for v in verdicts if v.primary and v.baseline == study.baseline and v.lane in study.rivals]
    among = list(_among_rivals(evidence, findings))
    by_cell = (
        _cell(evidence, cell, {v.lane: v for v in own if v.key == cell.key}, [v for v in among if v.key == cell.key])
        for cell in study.judged
    )
    return tuple(w for w in by_cell if w)


def _among_rivals(evidence: Evidence, findings: Sequence[Finding]) -> Iterator[Verdict]:
    """The verdicts of every rival against those after it."""
    study = evidence.study
    design = study.design.model_copy(update={"alpha": study.design.alpha / (len(study.rivals) - 1)})
    for n, baseline in enumerate(study.rivals[:-1]):
        lanes = {name: study.lanes[name] for name in study.rivals[n:]}
        anew = study.model_copy(update={"baseline": baseline, "lanes": lanes, "design": design})
        yield from (v for v in judge(replace(evidence, study=anew), findings, primary_only=True) if v.primary)


def _cell(evidence: Evidence, cell: Cell, verdicts: Mapping[str, Verdict], among: Sequence[Verdict]) -> Winners | None:
    study = evidence.study
    left_out = {lane: v.notes[0] if v.notes else "no figures" for lane, v in verdicts.items() if v.low is None}
    rivals = [lane for lane in study.rivals if lane in verdicts and lane not in left_out]
    if len(rivals) < 2:
        return None
    lanes = tuple(lane for lane in study.lanes if lane == study.baseline or lane in rivals)
    best: dict[str, tuple[str, float]] = {}
    for v in (*verdicts.values(), *among):
        if not {v.lane, v.baseline} <= {*lanes} or not v.headline or v.joint_low is None or v.joint_high is None:
            continue
        if v.verdict not in ("faster", "slower"):
            continue
        nearest = min(v.joint_low, v.joint_high, key=lambda end: abs(math.log(end)))
        beaten, by, ratio = (
            (v.baseline, v.lane, nearest) if v.verdict == "faster" else (v.lane, v.baseline, 1 / nearest)
        )
        if beaten not in best or abs(math.log(best[beaten][1])) < abs(math.log(ratio)):
            best[beaten] = by, ratio
    return Winners(
        workload=cell.workload,
        key=cell.key,
        cell=cell.name,
        metric=METRICS[study.workloads[cell.workload].primary].name,
        lanes=lanes,
        out={lane: best[lane] for lane in lanes if lane in best},
        level=2 * study.design.alpha,
        left_out=left_out,
        verdicts={lane: verdicts[lane] for lane in rivals},
    )
