"""A run that was stopped or is still going on."""

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
        failed_blocks = [e for e in evidence.events if e.get("type") == "block-failed"]
        # the first line names the cause; those after it are a console, another one each time
        reasons = Counter(str(e.get("reason", "")).partition("\n")[0] for e in failed_blocks)
        damaged = [str(e.get("trial", "")) for e in evidence.events if e.get("type") == "damaged"]
        failed = f"{reasons.total()} block{'s' * (reasons.total() != 1)} failed"
        why = f"; {failed}, mostly: {reasons.most_common(1)[0][0]}" if reasons else ""
        why += f"; the raw files of {len(damaged)} trial{'s' * (len(damaged) != 1)} are damaged" if damaged else ""
        yield self.finding(
            "unfinished",
            "warning",
            f"the run is not finished: {there} of {len(due)} trials due by now are complete, and more may follow{why}. "
            "The verdicts are those of each cell's latest interim analysis",
            evidence={"trials": there, "due": len(due), "failed_blocks": dict(reasons), "damaged": damaged},
        )


PLUGIN = UnfinishedRun()
