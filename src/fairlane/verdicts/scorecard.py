"""The words of a scorecard, derived from verdicts, for report, comparison and live page. Pure."""

from collections.abc import Iterable, Sequence
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
    ``open``: inconclusive, or single results; ``withheld``: decided, but no headline (``why_withheld``)."""
    return "withheld" if withheld(verdict) else outcome_of(verdict.verdict)


def outcome_of(word: Word) -> Outcome:
    """The outcome, ignoring findings."""
    return _OUTCOME[word]


def withheld(verdict: Verdict) -> bool:
    """Whether a decided primary verdict is no headline."""
    return verdict.primary and not verdict.headline and outcome_of(verdict.verdict) in SETTLED


def why_withheld(verdict: Verdict) -> str:
    """The reason in words, ``4 blocks, 6 are needed``; empty: it is not withheld."""
    return (verdict.held_because or "critical finding") if withheld(verdict) else ""


def by_reason(verdicts: Iterable[Verdict]) -> dict[str, Sequence[Verdict]]:
    """Reason -> the withheld ones among ``verdicts``."""
    groups: dict[str, Sequence[Verdict]] = {}
    for verdict in verdicts:
        if reason := why_withheld(verdict):
            groups[reason] = (*groups.get(reason, ()), verdict)
    return groups


def tally(outcomes: Iterable[Outcome]) -> dict[Outcome, int]:
    """Outcome -> count, in the order of ``SIGN``, without zeros."""
    listed = list(outcomes)
    return {name: n for name in SIGN if (n := listed.count(name))}
