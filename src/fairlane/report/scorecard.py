"""The scorecard: by lane and metric, the number of cells with each outcome. Pure.

It counts verdicts and adds nothing to them: cells are not averaged, and a lane with more wins is not called better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlane.records import Evidence, Verdict
from fairlane.report.phrases import metric_of
from fairlane.report.text import DASH
from fairlane.verdicts.scorecard import SIGN, outcome, tally


@dataclass(frozen=True)
class Score:
    """One lane in one metric: how many cells have which outcome."""

    counts: tuple[tuple[str, str, int], ...]
    """(outcome, sign, cells), without zeros."""
    rest: int
    """Cells without a verdict in this metric."""
    text: str
    """``better in 5, even in 1``; a dash where the metric was not compared."""


@dataclass(frozen=True)
class ScoreRow:
    metric: str
    """Title."""
    primary: bool
    scores: tuple[Score, ...]
    """One per lane."""


@dataclass(frozen=True)
class ScoreView:
    """One workload: metrics against lanes."""

    workload: str
    baseline: str
    lanes: tuple[str, ...]
    """Labels, without the baseline."""
    cells: int
    rows: tuple[ScoreRow, ...]
    """The primary metric first."""


def views(evidence: Evidence, verdicts: Sequence[Verdict], label: Mapping[str, str]) -> tuple[ScoreView, ...]:
    """The scorecards by workload; none for a single lane, metric and cell."""
    cards = (
        _view(evidence, name, [v for v in verdicts if v.workload == name], label) for name in evidence.study.workloads
    )
    return tuple(view for view in cards if view and (len(view.lanes) > 1 or len(view.rows) > 1 or view.cells > 1))


def _view(evidence: Evidence, name: str, mine: Sequence[Verdict], label: Mapping[str, str]) -> ScoreView | None:
    lanes = [lane for lane in evidence.study.rivals if any(v.lane == lane for v in mine)]
    if not lanes:
        return None
    mine = [v for v in mine if v.lane in lanes]
    metrics = list(dict.fromkeys([v.metric for v in mine if v.primary] + [v.metric for v in mine]))
    baseline, cells = evidence.study.baseline, len({v.key for v in mine})
    return ScoreView(
        workload=name,
        baseline=label[baseline],
        lanes=tuple(label[lane] for lane in lanes),
        cells=cells,
        rows=tuple(
            ScoreRow(
                metric_of(metric).title,
                any(v.primary for v in mine if v.metric == metric),
                tuple(_score([v for v in mine if v.metric == metric and v.lane == lane], cells) for lane in lanes),
            )
            for metric in metrics
        ),
    )


def _score(group: Sequence[Verdict], cells: int) -> Score:
    counts = tally(outcome(v) for v in group)
    text = ", ".join(f"{name} in {n}" for name, n in counts.items())
    return Score(tuple((name, SIGN[name], n) for name, n in counts.items()), cells - len(group), text or DASH)
