"""The scorecard: the winner per category and metric, or no winner. Pure.

Only a verdict names a winner. Without one, the scorecard may show which bare figure is better, because other
publications would call it the winner.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairlane.compare.deltas import Delta, Row, Table
from fairlane.metrics import Metric
from fairlane.verdicts.scorecard import SETTLED, Outcome, outcome


@dataclass(frozen=True)
class Score:
    """``alias`` against the baseline in one cell of a category and one metric."""

    category: str
    """Title of the category."""
    cell: str
    key: str
    """``Cell.key`` in the joined evidence."""
    metric: str
    """Name in the registry."""
    primary: bool
    alias: str
    baseline: str
    outcome: Outcome
    """Outcome for ``alias``."""
    winner: str
    """Alias of the run that is better; empty unless ``outcome`` is better or worse."""
    leans: str
    """For single results and refused verdicts: alias whose bare figure is better by more than the margin, or
    ``neither``; empty without a figure."""


def scorecard(tables: Sequence[Table]) -> tuple[Score, ...]:
    """All scores, in the order of the tables, primary metrics first."""
    return tuple(_score(table.metric, row, delta) for table in tables for row in table.rows for delta in row.deltas)


def _score(metric: Metric, row: Row, delta: Delta) -> Score:
    v = delta.verdict
    word = outcome(v)
    return Score(
        row.category,
        row.cell,
        row.key,
        metric.name,
        v.primary,
        v.lane,
        v.baseline,
        word,
        {"better": v.lane, "worse": v.baseline}.get(word, ""),
        leaning(metric, delta) if delta.raw else "",
    )


def decided(score: Score) -> bool:
    """Whether a verdict proves a winner or a tie."""
    return score.outcome in SETTLED


def leaning(metric: Metric, delta: Delta) -> str:
    """Alias whose bare figure is better by more than the metric's margin; no claim."""
    if delta.ratio is None:
        return ""
    v = delta.verdict
    gain = delta.ratio if metric.better > 0 else 1 / delta.ratio
    if 1 / (1 + v.margin) <= gain <= 1 + v.margin:
        return "neither"
    return v.lane if gain > 1 else v.baseline
