"""Trials without figures: each voids its block for the lanes compared in it."""

from collections import Counter
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class FailedTrials(Check):
    """Critical, one by one, where a lane has no good trial in a cell; all others together, with their reasons."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tried = Counter((trial.cell, trial.lane) for trial in evidence.observations)
        failures = [trial for trial in evidence.observations if trial.failed]
        failed = Counter((trial.cell, trial.lane) for trial in failures)
        lost = {place for place, count in failed.items() if count == tried[place]}
        names = {cell.key: cell.name for cell in evidence.cells()}
        for cell, lane in sorted(lost):
            reasons = Counter(trial.failed for trial in failures if (trial.cell, trial.lane) == (cell, lane))
            yield self.finding(
                "critical",
                f"{names.get(cell, cell)}, {lane}: all {failed[cell, lane]} trials failed: {_told(reasons)}",
                cells=[cell],
                lanes=[lane],
                evidence={"trials": tried[cell, lane], "reasons": dict(reasons.most_common())},
            )
        some = [trial for trial in failures if (trial.cell, trial.lane) not in lost]
        if some:
            reasons = Counter(trial.failed for trial in some)
            yield self.finding(
                "warning",
                f"{len(some)} of {tried.total()} trials failed, each voids its block: {_told(reasons)}",
                cells=list(dict.fromkeys(trial.cell for trial in some)),
                lanes=list(dict.fromkeys(trial.lane for trial in some)),
                evidence={
                    "failed": {f"{c} {lane}": f"{n} of {tried[c, lane]}" for (c, lane), n in failed.items()},
                    "reasons": dict(reasons.most_common()),
                },
            )


def _told(reasons: Counter[str]) -> str:
    """The commonest reason, and that there are others."""
    (commonest, _), others = reasons.most_common(1)[0], len(reasons) - 1
    return commonest + (f" (and {others} other reason{'s' * (others > 1)})" if others else "")


PLUGIN = FailedTrials()
