"""Neighbouring blocks that are correlated: they hold less information than their number suggests."""

from collections.abc import Iterable

from scipy.special import bdtrc

from fairlane.checks._pairs import primaries
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.effects import autocorrelated, autocorrelation

_CHANCE = 0.05
"""Chance that independent blocks exceed +- 2/sqrt(n)."""
_NAMED = 4
"""Comparisons that the message names; the evidence has all."""


class Autocorrelation(Check):
    """|Lag-1 autocorrelation| of the log-ratios beyond 2/sqrt(n). Chance alone gives one in twenty: a warning only
    where there are more than chance explains (binomial tail below 1 %), else for information."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tested = [(p, p.pair.effect.logs) for p in primaries(evidence)]
        tested = [(p, logs) for p, logs in tested if autocorrelation(logs) is not None]
        beyond = [(p, r) for p, logs in tested if (r := autocorrelated(logs)) is not None]
        if not beyond:
            return
        chance = float(bdtrc(len(beyond) - 1, len(tested), _CHANCE))  # chance of this many or more
        furthest = sorted(beyond, key=lambda item: -abs(item[1]))[:_NAMED]
        examples = ", ".join(f"{p.cell.name} {p.lane} {r:+.2f}" for p, r in furthest) + ", ..." * (len(beyond) > _NAMED)
        verdict = (
            "more than chance explains: intervals there may be too narrow"
            if chance < 0.01
            else "as chance would have it"
        )
        yield self.finding(
            "correlated",
            "warning" if chance < 0.01 else "info",
            f"neighbouring blocks are correlated in {len(beyond)} of {len(tested)} comparisons ({examples}), {verdict}",
            cells=list(dict.fromkeys(p.cell.key for p, _ in beyond)),
            lanes=list(dict.fromkeys(p.lane for p, _ in beyond)),
            evidence={
                "lag1": {f"{p.cell.key} {p.lane}": r for p, r in beyond},
                "compared": len(tested),
                "chance": chance,
            },
        )


PLUGIN = Autocorrelation()
