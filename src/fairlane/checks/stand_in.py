"""Lanes whose transport is a stand-in: they show that it works, not how fast it is."""

from collections.abc import Iterable
from typing import Any

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class StandIn(Check):
    """A transport on a substitute (``LaneSpec.stand_in``: NVMe/RDMA on soft-RoCE) is never ranked against
    another: every verdict between the two is refused. Its figures stay in the report, and two lanes on the same
    stand-in may be compared."""

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        return self.foresee(evidence.study)

    def foresee(self, study: Any) -> Iterable[Finding]:
        base = study.lanes[study.baseline]
        for name, lane in study.lanes.items():
            if name == study.baseline or lane.transport == base.transport:
                continue
            for spec in (lane, base):
                if spec.stand_in:
                    labels = lane.label or name, base.label or study.baseline
                    yield self.finding(
                        "stand-in",
                        "warning",
                        f"{labels[0]} is not ranked against {labels[1]}: {spec.stand_in}",
                        lanes=[name],
                        evidence={"transport": spec.transport, "stand_in": spec.stand_in},
                        refuses=True,
                    )


PLUGIN = StandIn()
