"""A lane that does better or worse for what ran before it in the block."""

import math
from collections.abc import Iterable

from fairlane.checks._pairs import primaries
from fairlane.checks.base import Check
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding
from fairlane.stats.footnotes import carried_over


class CarryOver(Check):
    """The position effect of the primary metric: at least 1 %, at the 5 % level shared among all primaries. Balanced
    orders cancel it in the mean; it still widens the interval, and it says that a trial does not start from the same
    state every time."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tested = list(primaries(evidence))
        for p in tested:
            carried = carried_over(p.pair.effect.logs, p.pair.lane_first, len(tested))
            if carried:
                after = sum(not first for first in p.pair.lane_first)
                yield self.finding(
                    "warning",
                    f"{p.cell.name}: {METRICS[p.metric].title} of {p.lane} against {evidence.study.baseline} is "
                    f"{math.expm1(carried.shift):+.1%} different in the {after} blocks where {p.lane} ran after it "
                    f"(p = {carried.p:.2g}): something is carried over from trial to trial",
                    cells=[p.cell.key],
                    lanes=[p.lane],
                    evidence={"shift": math.expm1(carried.shift), "p": carried.p, "blocks": len(p.pair.rows)},
                )


PLUGIN = CarryOver()
