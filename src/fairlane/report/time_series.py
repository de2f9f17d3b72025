"""The rate over time within the trials of a cell, where a tool reports it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fairlane.checks._trials import at, number
from fairlane.records import Cell, Observation
from fairlane.report import svg
from fairlane.report.phrases import metric_of, value
from fairlane.report.plot import axis, level, named, paint, path
from fairlane.report.svg import WIDTH, Figure, Scale, Table

_DRAWN, _FAINT = 100, 24
"""Samples of a trial that are drawn (of more, means of neighbours), and trials (of more, every n-th)."""
_LEFT, _RIGHT, _FOOT = 66, 12, 40

Samples = tuple[tuple[float, float], ...]
"""(seconds since the trial's start, rate)."""


@dataclass(frozen=True)
class TimeSeriesView:
    """Rates over time within the trials of one cell."""

    workload: str
    cell: str
    metric: str
    """iops or tps."""
    lanes: tuple[tuple[str, int, tuple[tuple[int, Samples], ...]], ...]
    """(label, index, (block, samples) of each trial)."""


def view(
    cell: Cell, observations: Sequence[Observation], order: Sequence[str], label: Mapping[str, str]
) -> TimeSeriesView | None:
    """The rates over time; None: no trial reports them."""
    for metric in ("iops", "tps"):
        by_lane: dict[str, list[tuple[int, Samples]]] = {}
        for o in observations:
            if not o.failed and (samples := _samples(o.context, metric)):
                by_lane.setdefault(o.lane, []).append((o.block, samples))
        lanes = tuple((label[lane], n, tuple(by_lane[lane])) for n, lane in enumerate(order) if lane in by_lane)
        if lanes:
            return TimeSeriesView(cell.workload, cell.name, metric, lanes)
    return None


def _samples(context: Mapping[str, Any], metric: str) -> Samples:
    """The series, thinned to ``_DRAWN`` samples; empty where there is none, or a sample is no number."""
    step, rates = number(context, "load", "series", "interval_ms"), at(context, "load", "series", metric)
    if not step or not isinstance(rates, list | tuple) or len(rates) < 3:
        return ()
    known = [v for rate in rates if (v := number({"v": rate}, "v")) is not None]
    if len(known) < len(rates):
        return ()
    size = -(-len(known) // _DRAWN)
    parts = [known[i : i + size] for i in range(0, len(known), size)]
    return tuple(((n * size + len(part) / 2) * step / 1000, fmean(part)) for n, part in enumerate(parts))


def figure(view: TimeSeriesView, ident: str) -> Figure:
    """A strip per lane on the same scales from zero: every trial faint, the one of median rate strong."""
    metric = metric_of(view.metric)
    points = [p for _, _, trials in view.lanes for _, samples in trials for p in samples]
    end, top = WIDTH - _RIGHT, 4.0
    across = Scale(0, max(x for x, _ in points), _LEFT, end)
    most = max(y for _, y in points) or 1.0
    parts, rows = [], []
    for lane, index, trials in view.lanes:
        up = Scale(0, most * 1.05, top + 18 + 90, top + 18)
        parts.append(named(index, lane, 0, top + 12, 300))
        parts += [level(_LEFT, end, up(t), "0" if t == 0 else value(view.metric, t)) for t in up.ticks(3)]
        rates = sorted((fmean(y for _, y in samples), block) for block, samples in trials)
        middle = rates[(len(rates) - 1) // 2][1]
        for _, samples in trials[:: -(-len(trials) // _FAINT)]:
            parts.append(path(samples, across, up, stroke=paint(index), stroke_width=1, opacity=0.35))
        typical = dict(trials)[middle]
        parts.append(path(typical, across, up, stroke=paint(index), stroke_width=2))
        third = max(1, len(typical) // 3)
        ends = [fmean(y for _, y in part) for part in (typical[:third], typical[-third:])]
        rows.append((lane, str(len(trials)), str(middle), *(value(view.metric, x) for x in ends)))
        top += 18 + 90 + 16
    parts += axis(across, top - 16, [(t, f"{t:g}") for t in across.ticks(6)], "seconds since the trial's start")
    title = f"Within the trials: {metric.title} over time, {view.cell}"
    caption = (
        f"As the tool recorded it. Faint: the trials; strong: the one of median {metric.title}. All strips have the "
        "same "
        f"scales; {metric.title} begins at zero."
    )
    described = "; ".join(f"{lane}: {n} trials, {first} to {last}" for lane, n, _, first, last in rows)
    columns = ("lane", "trials", "median trial's block", "its first third", "its last third")
    drawn = svg.picture(ident, top - 16 + _FOOT, title, described, *parts)
    return Figure(ident, title, caption, drawn, Table(columns, tuple(rows)))
