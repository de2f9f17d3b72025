"""Neighbouring blocks that are correlated: they hold less information than their number suggests."""

from collections.abc import Iterable
from dataclasses import replace

from scipy.special import bdtrc

from fairlane.checks._pairs import primaries
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.effects import autocorrelation
from fairlane.stats.neighbours import LEAST, likeness

_CHANCE = 0.05
"""Chance that independent units seem as alike as one that is counted."""
_RARE = 0.01
"""Chance below which all of them together are a warning."""
_NAMED = 4
"""Comparisons that the message names; the evidence has all."""


class Autocorrelation(Check):
    """Lag-1 autocorrelation of the log-ratios (of provisionings, where there are several), tested by permutation.
    Chance alone gives one in twenty: a warning for more, or for one that is too unlikely among so many."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        each = evidence.study.design.blocks_per_unit
        logs = [(p, replace(p.pair, each=each).effect.logs) for p in primaries(evidence)]
        tested = [(p, values, likeness(values)) for p, values in logs if len(values) >= LEAST]
        beyond = [(p, autocorrelation(values) or 0.0, chance) for p, values, chance in tested if chance <= _CHANCE]
        if not beyond:
            return
        many = float(bdtrc(len(beyond) - 1, len(tested), _CHANCE))  # chance of this many or more
        chance = min(many, len(tested) * min(chance for _, _, chance in beyond))
        furthest = sorted(beyond, key=lambda item: item[2])[:_NAMED]
        examples = ", ".join(f"{p.cell.name} {p.lane} {r:+.2f}" for p, r, _ in furthest)
        examples += ", ..." * (len(beyond) > _NAMED)
        verdict = (
            "more than chance explains. Their intervals are widened, but may still be too narrow"
            if chance < _RARE
            else "no more than chance explains"
        )
        yield self.finding(
            "correlated",
            "warning" if chance < _RARE else "info",
            f"neighbouring blocks are correlated in {len(beyond)} of {len(tested)} comparisons ({examples}): {verdict}",
            cells=list(dict.fromkeys(p.cell.key for p, _, _ in beyond)),
            lanes=list(dict.fromkeys(p.lane for p, _, _ in beyond)),
            evidence={
                "lag1": {f"{p.cell.key} {p.lane}": r for p, r, _ in beyond},
                "compared": len(tested),
                "chance": chance,
            },
        )


PLUGIN = Autocorrelation()
