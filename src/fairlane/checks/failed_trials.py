"""Trials without figures: each voids its block for the lanes compared in it."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding, Observation


class FailedTrials(Check):
    """Counted by cell and lane, with the reasons. Critical where a lane has no good trial at all in a cell."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        cells: dict[str, dict[str, list[Observation]]] = defaultdict(lambda: defaultdict(list))
        for trial in evidence.observations:
            cells[trial.cell][trial.lane].append(trial)
        names = {cell.key: cell.name for cell in evidence.cells()}
        for key, lanes in cells.items():
            for lane, trials in lanes.items():
                reasons = Counter(trial.failed for trial in trials if trial.failed)
                if not reasons:
                    continue
                failed = reasons.total()
                none_left = failed == len(trials)
                commonest, _ = reasons.most_common(1)[0]
                others = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
                yield self.finding(
                    "critical" if none_left else "warning",
                    f"{names.get(key, key)}, {lane}: {'all ' if none_left else ''}{failed} of {len(trials)} trials "
                    f"failed: {commonest}{others}",
                    cells=[key],
                    lanes=[lane],
                    evidence={"failed": failed, "trials": len(trials), "reasons": dict(reasons.most_common())},
                )


PLUGIN = FailedTrials()
