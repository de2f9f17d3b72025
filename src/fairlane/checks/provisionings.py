"""How often volumes and machines were provisioned: once, several times, or twice within one provisioning."""

from collections import Counter
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.study.base import PROVISIONINGS_FOR_OTHERS


class Provisionings(Check):
    """Placement of volumes and machines affects figures, and more blocks on the same ones do not average that out:
    with fewer than five provisionings the verdicts hold for these volumes only, for information. A warning for a
    provisioning whose volumes were made more than once, because the run was interrupted within it or a machine was
    lost: its blocks are of two placements, and count as of one.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        study = evidence.study
        if not study.platform.placed or not evidence.observations:
            return
        if study.design.provisionings < PROVISIONINGS_FOR_OTHERS:
            kept = {name: lane.existing for name, lane in study.lanes.items() if lane.existing}
            why = "; ".join(f"{name} is {what}, which cannot be provisioned again" for name, what in kept.items())
            yield self.finding(
                "few-provisionings",
                "info",
                f"volumes and machines were provisioned {times(study.design.provisionings)}: the verdicts hold for "
                f"these volumes. Others of the same kind may be faster or slower{f' ({why})' if why else ''}",
                lanes=sorted(kept),
                evidence={"provisionings": study.design.provisionings, "existing": kept},
            )
        again: Counter[int] = Counter()
        for event in evidence.events:
            kind, number = event.get("type"), event.get("provisioning", 0)
            if kind == "rebuilt" or (kind in ("resume", "provision") and event.get("trials", 0) > 0):
                again[number if isinstance(number, int) else 0] += 1
        if again:
            numbers = ", ".join(str(number + 1) for number in sorted(again))
            once = study.design.provisionings == 1
            where = "the run" if once else f"provisioning {numbers} of {study.design.provisionings}"
            yield self.finding(
                "made-twice",
                "warning",
                f"volumes and machines were provisioned more than once within {where}, because the run was interrupted "
                "or a machine was lost: the blocks before and after used different volumes, but count as one "
                "provisioning",
                evidence={"again": {str(number): times for number, times in sorted(again.items())}},
            )


def times(provisionings: int) -> str:
    return "once" if provisionings == 1 else f"only {provisionings} times"


PLUGIN = Provisionings()
