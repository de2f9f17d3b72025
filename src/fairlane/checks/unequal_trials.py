"""Imported lanes with different numbers of trials: some may have been left out."""

from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class UnequalTrials(Check):
    """Failed trials count: other checks report them. Files do not show which other trials were made; fewer trials than
    the baseline are the only trace of picking.

    Imports only: own runs have a schedule, and compared runs may differ in length.
    """

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        study = evidence.study
        if not any(event.get("type") == "files" for event in evidence.events):
            return
        counts: dict[tuple[str, str], int] = {}
        for observation in evidence.observations:
            counts[observation.lane, observation.cell] = counts.get((observation.lane, observation.cell), 0) + 1
        for lane in study.rivals:
            uneven = {}
            for cell in evidence.cells():
                ours, theirs = counts.get((lane, cell.key), 0), counts.get((study.baseline, cell.key), 0)
                if ours and theirs and ours != theirs:
                    uneven[cell.key] = (cell.name, ours, theirs)
            if uneven:
                name, ours, theirs = max(uneven.values(), key=lambda u: abs(u[1] - u[2]))
                yield self.finding(
                    "counts",
                    "warning",
                    f"{lane} has {ours} trial{'s' * (ours > 1)} at {name}, {study.baseline} has {theirs}: if trials "
                    "were left out, the others prove nothing",
                    cells=list(uneven),
                    lanes=[lane],
                    evidence={key: {lane: u[1], study.baseline: u[2]} for key, u in uneven.items()},
                )


PLUGIN = UnequalTrials()
