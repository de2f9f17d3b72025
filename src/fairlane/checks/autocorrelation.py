"""Blocks that remember the ones before: they hold less information than their number suggests."""

from collections.abc import Iterable

from fairlane.checks._pairs import together
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.contests import ALIKE


class Autocorrelation(Check):
    """Lag-1 autocorrelation of the log-ratios (of provisionings, where there are several), pooled over all cells of two
    lanes and tested by permutation of the blocks. Words that do not survive the widened interval are withheld."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        for (lane, _), (cells, past) in together(evidence).items():
            memory, move = past.memory, past.move
            if memory.chance > ALIKE:
                continue
            n = move.units - move.first
            yield self.finding(
                "correlated",
                "warning",
                f"blocks of {lane} against {evidence.study.baseline} remember the ones before (lag-1 correlation of "
                f"{memory.rho:.2f} at least, p = {memory.chance:.2g}): {n} are worth {memory.worth(n):.0f}. Look for "
                "what changes slowly in one lane alone: a cache, a neighbour, a rebuild. Volumes and machines that are "
                "made anew do not remember",
                cells=cells,
                lanes=[lane],
                evidence={"rho": memory.rho, "chance": memory.chance, "blocks": n, "worth": memory.worth(n)},
            )


PLUGIN = Autocorrelation()
