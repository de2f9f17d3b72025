"""Imported lanes with different numbers of trials: were some left away?"""

from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class UnequalTrials(Check):
    """Failed trials count: they are there, and are told elsewhere. Nobody who was given files can know which others
    were made; a lane that brings fewer of them than its baseline is the one trace that picking leaves.

    Imports only: own runs have a schedule, and runs that are compared need not be of one length.
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
                    "warning",
                    f"{ours} trial{'s' if ours > 1 else ''} of {lane} stand{'s' if ours == 1 else ''} against {theirs} "
                    f"of {study.baseline} at {name}: if others were made and left away, the rest proves nothing",
                    cells=list(uneven),
                    lanes=[lane],
                    evidence={key: {lane: u[1], study.baseline: u[2]} for key, u in uneven.items()},
                )


PLUGIN = UnequalTrials()
