"""Lanes that did not reach steady state before the first trial."""

from collections.abc import Iterable, Mapping

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.steady import RANGE, SLOPE


class NotSteady(Check):
    """The study has a gate (``steady:``), and a lane did not pass it: its last five rounds ranged further,
    or moved more, than SNIA's rule allows. The trials then measure a medium that is still changing."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        lanes = evidence.description.get("lanes")
        for name, lane in lanes.items() if isinstance(lanes, Mapping) else ():
            gate = lane.get("steady") if isinstance(lane, Mapping) else None
            if not isinstance(gate, Mapping) or gate.get("reached") is not False:
                continue
            spread, slope = gate.get("range"), gate.get("slope")
            judged = isinstance(spread, int | float) and isinstance(slope, int | float)
            if judged:
                details = (
                    f"over the last five rounds the range was {spread:.0%} of the mean (at most {RANGE:.0%}) and the "
                )
                details += f"slope {slope:+.0%} (at most {SLOPE:.0%})"
            else:
                details = "the gate kept no range and slope of its last five rounds of writing"
            yield self.finding(
                "not-steady" if judged else "not-judged",
                "critical",
                f"{name} did not reach steady state before its first trial: {details}. Try a longer steady.limit",
                lanes=[name],
                evidence=dict(gate),
            )


PLUGIN = NotSteady()
