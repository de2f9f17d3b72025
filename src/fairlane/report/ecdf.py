"""Latency distribution of all I/Os per lane (share completed within a time), from merged histograms. Pure.

The share goes up in nines (0, 90, 99, 99.9 %): each step is a tenth of the I/Os of the one below it. On a plain axis
from 0 to 100 % the slowest hundredth is a hundredth of the picture; here p99 and p99.9 lie as far apart as p90 and
p99. A line ends where fewer than ten I/Os remain: beyond, a single I/O would move it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fairlane.records import Cell, Evidence, Finding, Verdict
from fairlane.report import svg
from fairlane.report.phrases import count, value
from fairlane.report.plot import axis, drawn, lane_order, level, log_ticks, mark
from fairlane.report.svg import WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH
from fairlane.stats.histogram import BEYOND, Bins, ecdf, latency, merge, percentile, reportable

QUANTILES = (0.5, 0.99, 0.999)
_NAMES = ("p50", "p99", "p99.9")
MOST = 4
"""Most cells of a workload that are drawn."""
_FEWEST = 100
"""I/Os below which there is no distribution to draw."""


@dataclass(frozen=True)
class Trace:
    """One lane."""

    lane: str
    """Label."""
    index: int
    ios: int
    trials: int
    points: tuple[tuple[int, float], ...]
    """(ns, share of I/Os at or below it), rising, as far as ten I/Os lie beyond."""
    marks: tuple[int | None, ...]
    """Latency in ns at each of ``QUANTILES``; None: fewer than ten I/Os lie beyond it."""
    refused: bool
    """Whether the guard refuses its comparison with the baseline here."""


@dataclass(frozen=True)
class EcdfView:
    """One cell."""

    workload: str
    cell: str
    drawn: int
    """Cells of the workload that are drawn."""
    of: int
    """Cells of the workload that have histograms."""
    traces: tuple[Trace, ...]


def views(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],  # noqa: ARG001 - all views share one signature
    label: Mapping[str, str],
) -> tuple[EcdfView, ...]:
    """For each workload the four cells, at most, in which p99 differs most between the lanes; in the study's order."""
    refused = {(v.key, v.lane) for v in verdicts if v.primary and v.verdict == "refused"}
    order = lane_order(evidence.study)
    by_place: dict[tuple[str, str], list[Bins]] = {}
    for o in evidence.observations:
        if not o.failed and (bins := latency(o.histograms)):
            by_place.setdefault((o.cell, o.lane), []).append(bins)
    result = []
    for workload in evidence.study.workloads:
        whole: dict[Cell, dict[str, Bins]] = {}
        for cell in (c for c in evidence.cells() if c.workload == workload):
            lanes = {lane: merge(by_place[cell.key, lane]) for lane in order if (cell.key, lane) in by_place}
            lanes = {lane: bins for lane, bins in lanes.items() if bins.total >= _FEWEST}
            if lanes:
                whole[cell] = lanes
        chosen = set(sorted(whole, key=lambda c: -_difference(c, whole[c], refused))[:MOST])
        for cell in (c for c in whole if c in chosen):
            traces = tuple(
                _trace(label[lane], order.index(lane), bins, len(by_place[cell.key, lane]), (cell.key, lane) in refused)
                for lane, bins in whole[cell].items()
            )
            result.append(EcdfView(workload, cell.name, len(chosen), len(whole), traces))
    return tuple(result)


def _difference(cell: Cell, lanes: Mapping[str, Bins], refused: set[tuple[str, str]]) -> float:
    """ln of the largest ratio of p99 (of p50, where a lane has too few I/Os) between lanes that may be compared."""
    shown = [bins for lane, bins in lanes.items() if (cell.key, lane) not in refused]
    q = 0.99 if all(reportable(bins, 0.99) for bins in shown) else 0.5
    at = [percentile(bins, q) for bins in shown]
    return math.log(max(at) / min(at)) if at and min(at) > 0 else 0.0


def _trace(lane: str, index: int, bins: Bins, trials: int, refused: bool) -> Trace:
    sure = 1 - BEYOND / bins.total
    points = tuple((ns, share) for ns, share in ecdf(bins, 128) if share <= sure)
    marks = tuple(percentile(bins, q) if reportable(bins, q) else None for q in QUANTILES)
    return Trace(lane, index, bins.total, trials, points, marks, refused)


_LEFT, _RIGHT, _HEIGHT, _FOOT = 78, 12, 210, 40
_NAME, _COLUMN = 214, 84
_LINE = 14.0
"""Height of a label on the axis."""


_FIRST = 0.01
"""Share of the I/Os at which a line begins."""


def _nines(share: float) -> float:
    """0, 0.9, 0.99 -> 0, 1, 2."""
    return -math.log10(1 - share)


def figure(view: EcdfView, ident: str) -> Figure:
    """A legend that is a table of percentiles, and the lines, with the lane's shape at each percentile."""
    traces = [t for t in view.traces if t.points]
    top = 20 + 18 * len(view.traces) + 4
    bottom = top + _HEIGHT
    most = max((_nines(t.points[-1][1]) for t in traces), default=1.0)
    up = Scale(0, max(most * 1.04, 1.0), bottom, top)
    latencies = [ns for t in traces for ns, share in t.points if share >= _FIRST] or [1, 10]
    latencies += [ns for t in traces for ns in t.marks if ns is not None]
    across = Scale(max(min(latencies), 1) / 1.05, max(latencies) * 1.05, _LEFT, WIDTH - _RIGHT, log=True)
    parts = [*_legend(view), *_axes(across, up, bottom)]
    parts += [_line(t, across, up) for t in traces]
    parts += [_marks(t, across, up) for t in traces]
    title = f"Latency of all I/Os: {view.cell}"
    described = "; ".join(
        f"{t.lane}: {', '.join(f'{n} {x}' for n, x in zip(_NAMES, _figures(t), strict=True))}" for t in view.traces
    )
    some = (
        f" {view.drawn} of {view.of} cells are drawn: those in which p99 differs most between lanes; tables have all."
    )
    caption = (
        "I/Os of all trials that succeeded, their histograms merged. y: share of I/Os completed (each gridline is one "
        "more nine). Further left is better. Marks: p50, p99, p99.9. A "
        f"line ends where fewer than {BEYOND} I/Os are slower.{some if view.drawn < view.of else ''}"
    )
    table = Table(
        ("lane", "trials", "I/Os", *_NAMES),
        tuple((_lane(t), str(t.trials), f"{t.ios:,}", *_figures(t)) for t in view.traces),
    )
    return Figure(ident, title, caption, svg.picture(ident, bottom + _FOOT, title, described, *parts), table)


def _figures(trace: Trace) -> list[str]:
    return [DASH if ns is None else value("lat_p99", ns) for ns in trace.marks]


def _lane(trace: Trace) -> str:
    return f"{trace.lane} (✕ refused)" if trace.refused else trace.lane


def _legend(view: EcdfView) -> list[Markup]:
    muted: dict[str, str | float | None] = {"font_size": 12, "fill": colour("muted"), "text_anchor": "end"}
    parts = [svg.text(_NAME + _COLUMN * (n + 1), 14, name, **muted) for n, name in enumerate(_NAMES)]
    for i, t in enumerate(view.traces):
        y = 26 + 18 * i
        parts.append(drawn(t.index, f"M0 {y}H34"))
        parts.append(mark(t.index, 17, y))
        room = _NAME - 42 - (64 if t.refused else 0)
        parts.append(svg.text(42, y + 4, svg.fit(t.lane, room, 12) + (" ✕ refused" if t.refused else ""), font_size=12))
        for n, shown in enumerate(_figures(t)):
            parts.append(svg.text(_NAME + _COLUMN * (n + 1), y + 4, shown, text_anchor="end", font_size=12))
    return parts


def _axes(across: Scale, up: Scale, bottom: float) -> list[Markup]:
    end = WIDTH - _RIGHT
    shares = [(0.0, "0 %"), (0.5, "50 %"), *((1 - 10**-n, f"{100 - 10.0 ** (2 - n):.10g} %") for n in range(1, 10))]
    if up(0) - up(_nines(0.5)) < _LINE:
        del shares[1]
    parts = [level(_LEFT, end, up(_nines(s)), shown) for s, shown in shares if _nines(s) <= up.high]
    ticks = [(tick, value("lat_p99", tick)) for tick in log_ticks(across.low, across.high)]
    return parts + axis(across, bottom, ticks, "latency (log axis)")


def _line(trace: Trace, across: Scale, up: Scale) -> Markup:
    """A staircase through the bins from the one that holds ``_FIRST`` on: before it the line would lie on the axis.
    Steps below half a unit are left out."""
    risen = next((n for n, (_, share) in enumerate(trace.points) if share >= _FIRST), 0)
    x, y = across(trace.points[risen][0]), up(0)
    d = f"M{svg.num(x)} {svg.num(y)}"
    for n, (ns, share) in enumerate(trace.points[risen:], start=risen):
        x1, y1 = across(ns), up(_nines(share))
        if y - y1 >= 0.6 or x1 - x >= 1.2 or n == len(trace.points) - 1:
            d += f"H{svg.num(x1)}V{svg.num(y1)}"
            x, y = x1, y1
    return drawn(trace.index, d)


def _marks(trace: Trace, across: Scale, up: Scale) -> Markup:
    shown = [
        svg.tag(
            "g",
            svg.tag("title", f"{trace.lane}, {name}: {value('lat_p99', ns)}"),
            mark(trace.index, across(ns), up(_nines(q)), 4.5),
        )
        for q, name, ns in zip(QUANTILES, _NAMES, trace.marks, strict=True)
        if ns is not None
    ]
    return svg.tag("g", svg.tag("title", f"{trace.lane}: {count(trace.ios, 'I/O')}"), *shown)
