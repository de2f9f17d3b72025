"""The scorecard's words: what a verdict says of the lane; for report, comparison and live page. Pure."""

from collections.abc import Iterable
from typing import Literal

from fairlane.records import Verdict, Word

Outcome = Literal["better", "worse", "even", "open", "withheld", "refused"]

SIGN: dict[Outcome, str] = {"better": "▲", "worse": "▼", "even": "=", "open": "?", "withheld": "!", "refused": "✕"}
"""In the order in which a scorecard lists them."""

SETTLED: frozenset[Outcome] = frozenset({"better", "worse", "even"})
"""Outcomes that answer the question: which lane is better, or that the difference does not matter."""

_OUTCOME: dict[Word, Outcome] = {
    "faster": "better",
    "slower": "worse",
    "different-but-small": "even",
    "tie": "even",
    "inconclusive": "open",
    "no-spread": "open",
    "refused": "refused",
}


def outcome(verdict: Verdict) -> Outcome:
    """Better and worse are of the lane against the baseline; even: any difference is proven smaller than the margin;
    open: inconclusive, or single results; withheld: decided, but a critical finding stands against it."""
    return "withheld" if withheld(verdict) else outcome_of(verdict.verdict)


def outcome_of(word: Word) -> Outcome:
    """The outcome of a verdict that no finding withholds."""
    return _OUTCOME[word]


def withheld(verdict: Verdict) -> bool:
    """A decided primary verdict that a critical finding took out of the headline."""
    return verdict.primary and not verdict.headline and outcome_of(verdict.verdict) in SETTLED


def tally(outcomes: Iterable[Outcome]) -> dict[Outcome, int]:
    """How often each outcome occurs, in the order of ``SIGN``, without those that do not."""
    listed = list(outcomes)
    return {name: n for name in SIGN if (n := listed.count(name))}
