"""The words of a scorecard, derived from verdicts, for report, comparison and live page. Pure."""

from collections.abc import Iterable
from typing import Literal

from fairlane.records import Verdict, Word

Outcome = Literal["better", "worse", "even", "open", "withheld", "refused"]

SIGN: dict[Outcome, str] = {"better": "▲", "worse": "▼", "even": "=", "open": "?", "withheld": "!", "refused": "✕"}
"""Outcome -> sign, in the order of a scorecard."""

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
    """``better``, ``worse``: the lane against the baseline; ``even``: the difference is smaller than the margin;
    ``open``: inconclusive, or single results; ``withheld``: decided, but under a critical finding."""
    return "withheld" if withheld(verdict) else outcome_of(verdict.verdict)


def outcome_of(word: Word) -> Outcome:
    """The outcome, ignoring findings."""
    return _OUTCOME[word]


def withheld(verdict: Verdict) -> bool:
    """Whether a critical finding took a decided primary verdict out of the headline."""
    return verdict.primary and not verdict.headline and outcome_of(verdict.verdict) in SETTLED


def tally(outcomes: Iterable[Outcome]) -> dict[Outcome, int]:
    """Outcome -> count, in the order of ``SIGN``, without zeros."""
    listed = list(outcomes)
    return {name: n for name in SIGN if (n := listed.count(name))}
