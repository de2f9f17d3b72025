"""A lane that was built twice must tie with itself."""

import math
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding
from fairlane.stats.contests import Claims


class AaControl(Check):
    """Lanes with ``copy_of`` against the lane that they copy, in the primary metric of every cell, at the look that the
    cell has reached. A difference is a defect of the set-up, and takes the headline from its cells; the copies share
    alpha (Bonferroni), so that chance alone gives one in at most a share alpha of all runs. Where there is none, the
    half width is the noise floor of such a comparison, for information.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        copies = {name: lane.copy_of for name, lane in evidence.study.lanes.items() if lane.copy_of}
        if not copies:
            return
        claims = Claims(evidence.study, evidence.observations, complete=evidence.complete, primary_only=True)
        for name, original in copies.items():
            estimates = {
                contest: (stage.effect.mean, *stage.interval(claims.rate(contest)))
                for contest in claims.contests
                if contest.control and contest.lane == name and (stage := contest.final)
            }
            proof = {
                c.cell.key: {"ratio": math.exp(mean), "low": math.exp(low), "high": math.exp(high)}
                for c, (mean, low, high) in estimates.items()
            }
            differ = [c for c, (_, low, high) in estimates.items() if low > 0 or high < 0]
            if differ:
                worst = max(differ, key=lambda c: abs(estimates[c][0]))
                _, low, high = estimates[worst]
                once = evidence.study.design.provisionings == 1 and evidence.study.platform.placed
                why = "two volumes of one lane may differ this much, or " if once else ""
                yield self.finding(
                    "differs",
                    "critical",
                    f"the A/A control failed: {name} is a copy of {original} and yet {METRICS[worst.metric].title} "
                    f"differs at {worst.cell.name} by {math.expm1(low):+.2%} to {math.expm1(high):+.2%}: {why}"
                    "something other than the lane affects the figures",
                    cells=[c.cell.key for c in differ],
                    evidence={c.cell.key: proof[c.cell.key] for c in differ},
                )
            if level := [c for c in estimates if c not in differ]:
                floor = {c: math.expm1((estimates[c][2] - estimates[c][1]) / 2) for c in level}
                widest = max(floor, key=lambda c: floor[c])
                yield self.finding(
                    "noise-floor",
                    "info",
                    f"noise floor: {name} is a copy of {original}, and no difference between the two is shown: their "
                    f"ratio is 1 within {_span(floor.values())} (widest at {widest.cell.name})",
                    cells=[c.cell.key for c in level],
                    lanes=[name, original],
                    evidence={c.cell.key: proof[c.cell.key] for c in level},
                )


def _span(parts: Iterable[float]) -> str:
    """``±148 %``, ``±2.1 to 148 %``."""
    parts = sorted(parts)
    low, high = (f"{part * 100:.3g}" for part in (parts[0], parts[-1]))
    return f"±{high} %" if low == high else f"±{low} to {high} %"


PLUGIN = AaControl()
