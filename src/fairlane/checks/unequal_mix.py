"""Lanes that ran different mixes of reads and writes."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fairlane.checks._trials import DIRECTIONS, trials
from fairlane.checks.achieved_mix import POINTS, SIGMAS, mix
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class UnequalMix(Check):
    """Shares of reads over all trials of a cell, each lane against the baseline, with the limits of ``achieved_mix``.
    Whatever was requested: the load was not the same, and the verdict is refused. Of several jobs at once each has its
    own pattern, and how many I/Os each completes is a result: they are left out, unless one of them is judged."""

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        ran = _ran(evidence)
        baseline = evidence.study.baseline
        for lane in evidence.study.lanes:
            apart = {
                cell: (mine, theirs)
                for (name, cell), mine in ran.items()
                if name == lane and (theirs := ran.get((baseline, cell))) and _differ(mine, theirs)
            }
            if apart and lane != baseline:
                mine, theirs = max(apart.values(), key=lambda pair: abs(pair[0].reads - pair[1].reads))
                yield self.finding(
                    "mix",
                    "critical",
                    f"the mix of reads and writes was {mix(mine.reads)} on {lane} and {mix(theirs.reads)} on "
                    f"{baseline}: the load was not the same",
                    cells=list(apart),
                    lanes=[lane],
                    evidence={cell: {lane: m.reads, baseline: t.reads} for cell, (m, t) in apart.items()},
                    refuses=True,
                )


@dataclass(frozen=True)
class _Ran:
    """I/Os of all trials of a lane and cell."""

    reads: float
    """Share."""
    ios: float


def _ran(evidence: Evidence) -> dict[tuple[str, str], _Ran]:
    counts: dict[tuple[str, str], list[float]] = {}
    for trial in trials(evidence):
        if trial.several:
            continue
        total = counts.setdefault((trial.observation.lane, trial.cell.key), [0.0, 0.0])
        for i, way in enumerate(DIRECTIONS):
            total[i] += trial.context("load", "ios", way) or 0.0
    return {
        place: _Ran(reads / (reads + writes), reads + writes)
        for place, (reads, writes) in counts.items()
        if reads + writes
    }


def _differ(first: _Ran, second: _Ran) -> bool:
    noise = SIGMAS * math.sqrt(sum(ran.reads * (1 - ran.reads) / ran.ios for ran in (first, second)))
    return abs(first.reads - second.reads) > POINTS + noise


PLUGIN = UnequalMix()
