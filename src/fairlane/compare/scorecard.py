"""The scorecard: per category and metric, who is proven better, and where nobody is. Pure.

A winner is named by a verdict only. Where there is none, the scorecard may say which way the bare figures lean, because
that is what others publish as the winner; it is never called one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairlane.compare.deltas import Delta, Row, Table
from fairlane.metrics import Metric
from fairlane.verdicts.scorecard import SETTLED, Outcome, outcome


@dataclass(frozen=True)
class Score:
    """One cell of a category, in one metric: how ``alias`` and the baseline stand."""

    category: str
    """Title."""
    cell: str
    key: str
    """``Cell.key`` in the joined evidence."""
    metric: str
    """Name in the registry."""
    primary: bool
    alias: str
    baseline: str
    outcome: Outcome
    """Of ``alias``."""
    winner: str
    """Alias of the run that is proven better; empty unless ``outcome`` is better or worse."""
    leans: str
    """Of single results and of refused ones: whose bare figure is better by more than the margin; ``neither``; empty if
    there is no figure."""


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
    """Who is better is proven, or that it does not matter."""
    return score.outcome in SETTLED


def leaning(metric: Metric, delta: Delta) -> str:
    """Whose bare figure is better by more than the margin of the metric; no claim."""
    if delta.ratio is None:
        return ""
    v = delta.verdict
    gain = delta.ratio if metric.better > 0 else 1 / delta.ratio
    if 1 / (1 + v.margin) <= gain <= 1 + v.margin:
        return "neither"
    return v.lane if gain > 1 else v.baseline
