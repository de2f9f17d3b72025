"""A whole comparison: joined evidence, findings, verdicts, tables. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fairlane.compare.deltas import Table, delta_tables
from fairlane.compare.findings import findings, kind_of_figures
from fairlane.compare.joined import Joined, joined
from fairlane.compare.mapping import LaneMap
from fairlane.compare.scorecard import Score, scorecard
from fairlane.guard.accept import accepting
from fairlane.records import Evidence, Finding, Verdict
from fairlane.stats.judge import judge
from fairlane.verdicts.judged import Judged


@dataclass(frozen=True)
class Comparison:
    """Runs, joined, with the findings and verdicts."""

    joined: Joined
    evidence: Evidence
    """The joined evidence, with the parameters that the user accepts."""
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    """Verdicts of cells that exist in both runs; an unmatched cell has none."""

    @property
    def judged(self) -> Judged:
        return Judged(self.evidence, self.verdicts, self.findings)

    @property
    def baseline(self) -> str:
        """Alias of the baseline run."""
        return self.joined.mapping.baseline

    @property
    def question(self) -> str:
        """The question of the mapping file, unescaped user text."""
        return str(self.evidence.study.question)

    @property
    def aliases(self) -> tuple[str, ...]:
        """The other runs, in the order given."""
        return tuple(lane for lane in self.evidence.study.lanes if lane != self.baseline)

    def trials(self, key: str, alias: str) -> int:
        """Trials with figures in a cell, of ``alias`` or the baseline: whichever has fewer."""
        return min(self._trials[key, alias], self._trials[key, self.baseline])

    @cached_property
    def _trials(self) -> Counter[tuple[str, str]]:
        return Counter((o.cell, o.lane) for o in self.evidence.observations if not o.failed)

    @property
    def invented(self) -> bool:
        """Whether figures of a run are invented."""
        return any(kind_of_figures(run) == "invented" for run in self.joined.runs.values())

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return delta_tables(self.joined, self.verdicts)

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        return scorecard(self.tables)


def compare(runs: Mapping[str, Evidence], mapping: LaneMap, accepts: Mapping[str, str]) -> Comparison:
    """Compare ``runs`` (alias -> evidence) as ``mapping`` pairs them; ``accepts``: parameter -> reason.

    Raises FairlaneError if nothing matches.
    """
    whole = joined(runs, mapping)
    evidence = accepting(whole.evidence, dict(accepts))
    all_findings = findings(whole, evidence)
    verdicts = tuple(v for v in judge(evidence, all_findings) if (v.lane, v.key) in whole.sources)
    return Comparison(whole, evidence, all_findings, verdicts)
