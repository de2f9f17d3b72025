"""Plausible winners where three or more lanes are compared: one line for all cells with the same answer. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlane.records import Evidence, Finding, Verdict, Winners
from fairlane.report.phrases import count, coverage, interval, metric_of
from fairlane.report.svg import Table
from fairlane.report.text import DASH
from fairlane.stats.winners import winners
from fairlane.verdicts.scorecard import by_reason


@dataclass(frozen=True)
class WinnersView:
    """One workload."""

    title: str
    """``Plausible winners by IOPS``, with the workload's name where there are several."""
    meaning: str
    lines: tuple[tuple[str, str], ...]
    """(cells, lanes): ``("4k randread qd1", "NVMe/TCP or RDMA: no proven difference")``."""
    table: Table
    """Per cell: the interval of every lane, the lane that beats it, and the plausible winners."""


def views(
    evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding], label: Mapping[str, str]
) -> tuple[WinnersView, ...]:
    """By workload, in the order of the study; none with fewer than three lanes."""
    all_winners = winners(evidence, verdicts, findings)
    several = len(evidence.study.workloads) > 1
    return tuple(
        _view(mine, label, evidence.study.baseline, name if several else "")
        for name in evidence.study.workloads
        if (mine := [w for w in all_winners if w.workload == name])
    )


def _view(mine: Sequence[Winners], label: Mapping[str, str], baseline: str, workload: str) -> WinnersView:
    groups: dict[str, list[str]] = {}
    for w in mine:
        groups.setdefault(_answer(w, label), []).append(w.cell)
    others = [lane for lane in label if lane != baseline and any(lane in (*w.lanes, *w.left_out) for w in mine)]
    return WinnersView(
        title=f"Plausible winners by {metric_of(mine[0].metric).title}"
        + (f", workload {workload}" if workload else ""),
        meaning="Lanes that no other lane beats in a verdict: against the baseline by the verdicts of this report, "
        "among each other by those that the same blocks give with another lane as the baseline. In at least "
        f"{coverage(mine[0].level)} of such studies they hold the truly best lane of every cell.",
        lines=tuple((_cells(cells, len(mine)), answer) for answer, cells in groups.items()),
        table=Table(
            ("Cell", *(label[lane] for lane in others), "Plausible winners"),
            tuple((w.cell, *(_lane(w, lane, label) for lane in others), _answer(w, label)) for w in mine),
        ),
    )


def _answer(w: Winners, label: Mapping[str, str]) -> str:
    if reasons := by_reason(w.verdicts.values()):
        return f"withheld: {', '.join(reasons)}"
    *first, last = [label[lane] for lane in w.plausible] or [DASH]
    best = f"{', '.join(first)} or {last}: no proven difference" if first else last
    left = ", ".join(label[lane] for lane in w.left_out)
    return f"{best}; {left} not compared" if left else best


def _cells(cells: Sequence[str], of: int) -> str:
    if len(cells) == of > 1:
        return f"all {of} cells"
    return ", ".join(cells) if len(cells) <= 6 else f"{', '.join(cells[:5])} and {count(len(cells) - 5, 'more cell')}"


def _lane(w: Winners, lane: str, label: Mapping[str, str]) -> str:
    if lane not in w.lanes:
        return w.left_out.get(lane, DASH)
    text = interval(w.verdicts[lane].low, w.verdicts[lane].high)
    return f"{text}; beaten by {label[w.out[lane][0]]}" if lane in w.out else text
