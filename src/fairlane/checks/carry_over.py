"""A lane whose result depends on what ran before it in the block."""

import math
from collections.abc import Iterable

from fairlane.checks._pairs import primaries
from fairlane.checks.base import Check
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding
from fairlane.stats.footnotes import carried_over


class CarryOver(Check):
    """The position effect of primary metrics: at least 1 %, at the 5 % level shared among all primaries. Balanced
    orders cancel it in the mean; it still widens the interval, and it shows that trials start from different states.
    One finding per lane."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tested, baseline = list(primaries(evidence)), evidence.study.baseline
        for lane in evidence.study.lanes:
            effects = {
                p: carried
                for p in tested
                if p.lane == lane and (carried := carried_over(p.pair.effect.logs, p.pair.lane_first, len(tested)))
            }
            if not effects:
                continue
            worst = max(effects, key=lambda p: abs(effects[p].shift))
            after = sum(not first for first in worst.pair.lane_first)
            yield self.finding(
                "carried-over",
                "warning",
                f"{METRICS[worst.metric].title} of {lane} against {baseline} is "
                f"{math.expm1(effects[worst].shift):+.1%} different at {worst.cell.name} in the {after} blocks where "
                f"{lane} ran after {baseline} (p = {effects[worst].p:.2g}): a trial may affect the next one",
                cells=[p.cell.key for p in effects],
                lanes=[lane],
                evidence={
                    p.cell.key: {
                        "shift": math.expm1(e.shift),
                        "p": e.p,
                        "blocks": len(p.pair.rows),
                        "baseline": baseline,
                    }
                    for p, e in effects.items()
                },
            )


PLUGIN = CarryOver()
