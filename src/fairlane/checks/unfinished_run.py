"""A run that was stopped or still goes on."""

from collections import Counter
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class UnfinishedRun(Check):
    """``Evidence.complete`` is false: number of trials, and the reason of the stop if the journal has it."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if evidence.complete:
            return
        due = {block.trial_id(lane) for block in evidence.blocks for lane in block.order}
        there = len(due & {trial.trial for trial in evidence.observations})
        reasons = Counter(str(e.get("reason", "")) for e in evidence.events if e.get("type") == "block-failed")
        damaged = [str(e.get("trial", "")) for e in evidence.events if e.get("type") == "damaged"]
        why = f"; {reasons.total()} blocks failed, mostly: {reasons.most_common(1)[0][0]}" if reasons else ""
        why += f"; the raw files of {len(damaged)} trials are damaged" if damaged else ""
        yield self.finding(
            "unfinished",
            "warning",
            f"the run is not finished: {there} of the {len(due)} trials due so far are there, more may follow{why}. "
            "Verdicts are those of the last look that each cell has reached",
            evidence={"trials": there, "due": len(due), "failed_blocks": dict(reasons), "damaged": damaged},
        )


PLUGIN = UnfinishedRun()
