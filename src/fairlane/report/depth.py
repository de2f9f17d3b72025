"""Throughput and latency against load: two panels over one axis, a line per lane, the range over blocks at each rung.

The means, the rounds that count and the throughput carried within an objective come from the throughput-latency curves
(``report.curves``, ``stats.capacity``), so that two figures never disagree. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import curves, svg
from fairlane.report.curves import LadderView
from fairlane.report.phrases import count, metric_of, value
from fairlane.report.plot import apart, axis, lane_order, level, log_ticks, mark, stroke
from fairlane.report.svg import INK, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH
from fairlane.stats.capacity import Bounds, Capacity, capacities, climbs, guarded
from fairlane.stats.crossing import INF
from fairlane.stats.ladders import Ladder, ladders
from fairlane.stats.pairs import shelve


@dataclass(frozen=True)
class Span:
    """A metric over the blocks: geometric mean, lowest and highest."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Step:
    """One lane on one rung."""

    load: float
    throughput: Span
    latency: Span


@dataclass(frozen=True)
class Line:
    """One lane."""

    lane: str
    """Label."""
    index: int
    steps: tuple[Step, ...]
    carries: tuple[Bounds | None, ...]
    """For each objective: the throughput within it, read off the mean curve."""
    refused: bool
    """Whether the guard refuses its comparison with the baseline on some rung."""


@dataclass(frozen=True)
class DepthView:
    """One ladder, with the latency that ``report.curves`` shows it with."""

    workload: str
    name: str
    axis: str
    """Title of the load axis: ``I/Os in flight``."""
    rate: str
    """The throughput's name in the registry."""
    metric: str
    """The latency's."""
    rounds: int
    limits: tuple[float, ...]
    """Objectives on this latency, ns."""
    lines: tuple[Line, ...]


def views(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    label: Mapping[str, str],
    shown: Sequence[LadderView] | None = None,
) -> tuple[DepthView, ...]:
    """Every ladder of a run; none: fewer than three loads, or no lane has them all. ``shown``: its throughput-latency
    curves, if already made."""
    shown = curves.views(evidence, label, findings) if shown is None else shown
    if not shown:
        return ()
    study, shelves = evidence.study, shelve(evidence.observations)
    by_name = {(ladder.workload, ladder.name): ladder for ladder in ladders(study)}
    carried = guarded(capacities(study, evidence.observations), findings)
    names = lane_order(study)
    barred = {(v.key, v.lane) for v in verdicts if v.verdict == "refused"}
    result = []
    for view in shown:
        ladder = by_name[view.workload, view.name]
        lines = []
        for curve in view.curves:
            lane = names[curve.index]
            per_block = climbs(study, shelves, ladder, lane, view.metric).values()
            steps = tuple(
                Step(
                    rung.load,
                    _span(rung.throughput, [p.throughput for p in at]),
                    _span(rung.latency, [p.latency for p in at]),
                )
                for rung, at in zip(curve.rungs, zip(*per_block, strict=True), strict=True)
            )
            carries = tuple(_carries(carried, ladder, view.metric, limit, lane) for limit in view.limits)
            refused = any((cell.key, lane) in barred for cell in ladder.cells)
            lines.append(Line(label[lane], curve.index, steps, carries, refused))
        rate = (
            "iops" if any("iops" in r.figures for r in shelves[ladder.cells[0].key][study.baseline].values()) else "tps"
        )
        axis = "rate asked for, 1/s" if view.open_loop else _AXIS.get(ladder.climb, ladder.climb)
        result.append(
            DepthView(view.workload, view.name, axis, rate, view.metric, view.rounds, view.limits, tuple(lines))
        )
    return tuple(result)


_AXIS = {
    "iodepth": "I/Os in flight, by iodepth",
    "numjobs": "I/Os in flight, by numjobs",
    "fleet": "I/Os in flight, by machines",
}


def _span(mean: float, values: Sequence[float]) -> Span:
    return Span(mean, min(values), max(values))


def _carries(carried: Sequence[Capacity], ladder: Ladder, metric: str, limit: float, lane: str) -> Bounds | None:
    for c in carried:
        if (c.question.ladder, c.question.metric, c.question.at) == (ladder, metric, limit) and c.blocks:
            if lane == c.lane:
                return c.lane_value
            if lane == c.baseline:
                return c.baseline_value
    return None


# --- drawing

_LEFT, _RIGHT, _TOP, _GAP, _FOOT = 66, 124, 24, 36, 40
_DODGE = 4.5
"""Horizontal distance of lanes at the same load, so that their ranges do not overlap."""


def figure(view: DepthView, ident: str) -> Figure:
    """Throughput from zero above, latency on a log axis below."""
    rows = 28 if view.limits else 15
    height = max(130, rows * len(view.lines) + 6)
    loads = sorted({s.load for x in view.lines for s in x.steps})
    end = WIDTH - _RIGHT
    # room on both sides for marks beside the first load and the last
    side = (loads[-1] / loads[0]) ** 0.05
    across = Scale(loads[0] / side, loads[-1] * side, _LEFT, end, log=True)
    middle, bottom = _TOP + height, _TOP + height + _GAP + 130
    top = max(s.throughput.high for x in view.lines for s in x.steps)
    up = Scale(0, top * 1.05, middle, _TOP)
    latencies = [y for x in view.lines for s in x.steps for y in (s.latency.low, s.latency.high)] + list(view.limits)
    slow = Scale(min(latencies) / 1.12, max(latencies) * 1.12, bottom, middle + _GAP, log=True)
    metric = metric_of(view.metric)
    rate = metric_of(view.rate)
    parts = [
        svg.text(0, _TOP - 10, f"{rate.title} ↑", font_size=12, font_weight=600),
        svg.text(0, middle + _GAP - 10, f"{metric.title} ↑ (log axis)", font_size=12, font_weight=600),
        *(level(_LEFT, end, up(t), "0" if t == 0 else value(view.rate, t)) for t in up.ticks(4)),
        *(level(_LEFT, end, slow(t), value(view.metric, t)) for t in log_ticks(slow.low, slow.high)),
        *axis(
            across, bottom, [(at, f"{at:,g}" if at < 1e6 else f"{at:.3g}") for at in loads], f"{view.axis} (log axis)"
        ),
        svg.line(_LEFT, middle, end, middle, stroke=colour("muted")),
        *(svg.line(across(at), middle, across(at), middle + 5, stroke=colour("muted")) for at in loads),
    ]
    points = [(across(s.load), slow(s.latency.mean)) for x in view.lines for s in x.steps]
    for limit in view.limits:
        label = f"objective {value(view.metric, limit)}"
        parts.append(svg.line(_LEFT, slow(limit), end, slow(limit), stroke=colour("worse"), stroke_dasharray="6 4"))
        parts.append(_beside(slow(limit), label, points, end))
    ends: list[tuple[float, float]] = []
    for n, line in enumerate(view.lines):
        shift = (n - (len(view.lines) - 1) / 2) * min(_DODGE, 26 / len(view.lines))
        xs = [across(s.load) + shift for s in line.steps]
        parts.append(_drawn(line, xs, up, slow, view))
        ends.append((up(line.steps[-1].throughput.mean), slow(line.steps[-1].latency.mean)))
    parts += _labels(view, [y for y, _ in ends], rows, _TOP, middle, carried=True)
    parts += _labels(view, [y for _, y in ends], 15, middle + _GAP, bottom, carried=False)
    title = f"{rate.title} and {metric.title} against load: {view.name}"
    described = "; ".join(
        f"{x.lane}: {value(view.rate, x.steps[0].throughput.mean)} to {value(view.rate, x.steps[-1].throughput.mean)} "
        f"{rate.title}, {metric.title} {value(view.metric, x.steps[0].latency.mean)} to "
        f"{value(view.metric, x.steps[-1].latency.mean)}"
        for x in view.lines
    )
    rings = " SLO and ring: what the lane carries within the objective; no ring where every rung meets or misses it."
    caption = (
        f"Marks: geometric means over {count(view.rounds, 'block')}; bars: lowest and highest block. At each load the "
        f"lanes stand side by side. {rate.title} begins at zero.{rings if view.limits else ''}"
        + (" ✕: refused, not to be compared with the baseline." if any(x.refused for x in view.lines) else "")
    )
    return Figure(
        ident, title, caption, svg.picture(ident, bottom + _FOOT, title, described, *parts), _table(view, loads)
    )


def _beside(y: float, label: str, points: Sequence[tuple[float, float]], end: float) -> Markup:
    """The objective's name at the end of its line, above or below, where the fewest points overlap it."""
    width = 7.5 * len(label)
    places = [(x, base) for base in (y - 4, y + 13) for x in (_LEFT + 2, end - 2 - width)]

    def crowded(place: tuple[float, float]) -> int:
        left, base = place
        return sum(left - 12 <= x <= left + width + 12 and base - 20 <= at <= base + 10 for x, at in points)

    left, base = min(places, key=crowded)
    return svg.text(left, base, label, font_size=12, fill=colour("worse"))


def _drawn(line: Line, xs: Sequence[float], up: Scale, slow: Scale, view: DepthView) -> Markup:
    parts = []
    for scale, name in ((up, "throughput"), (slow, "latency")):
        spans = [s.throughput if name == "throughput" else s.latency for s in line.steps]
        at = [(x, scale(s.mean)) for x, s in zip(xs, spans, strict=True)]
        whiskers = "".join(
            f"M{svg.num(x)} {svg.num(scale(s.low))}V{svg.num(scale(s.high))}"
            f"m-2.5 0h5M{svg.num(x - 2.5)} {svg.num(scale(s.low))}h5"
            for x, s in zip(xs, spans, strict=True)
        )
        parts.append(stroke(line.index, at))
        parts.append(svg.tag("path", d=whiskers, fill="none", stroke=INK, stroke_width=1))
        for (x, y), step in zip(at, line.steps, strict=True):
            title = (
                f"{line.lane} at {step.load:g}: {value(view.rate, step.throughput.mean)} "
                f"{metric_of(view.rate).title}, {value(view.metric, step.latency.mean)}"
            )
            parts.append(svg.tag("g", svg.tag("title", title), mark(line.index, x, y, 3.6)))
        if name == "throughput":
            parts += [_ring(line, carried, at, scale, view) for carried in line.carries if carried and carried.exact]
    return svg.tag("g", *parts)


def _ring(line: Line, carried: Bounds, at: Sequence[tuple[float, float]], up: Scale, view: DepthView) -> Markup:
    """A ring around the point of the lane's line at the throughput that it carries."""
    y = up(carried.low)
    x = next(
        (x1 + (x2 - x1) * (y1 - y) / (y1 - y2) for (x1, y1), (x2, y2) in pairwise(at) if y1 >= y >= y2 and y1 > y2),
        at[-1][0] if y < at[-1][1] else at[0][0],
    )
    title = f"{line.lane} carries {curves.figure_of(carried, view.rate)} within the objective"
    return svg.tag(
        "g",
        svg.tag("title", title),
        svg.marker("circle", x, y, 7.5, fill="none", stroke=colour("worse"), stroke_width=2),
    )


def _labels(
    view: DepthView, wanted: Sequence[float], gap: float, low: float, high: float, *, carried: bool
) -> list[Markup]:
    """Names at the lines' ends, moved apart, each led to its line; with ``carried`` also the throughput carried."""
    edge = WIDTH - _RIGHT
    below = 14 if carried and view.limits else 0
    parts = []
    for line, y, end in zip(view.lines, apart(wanted, gap, low + 2, high - below), wanted, strict=True):
        d = f"M{svg.num(edge)} {svg.num(end)}L{svg.num(edge + 8)} {svg.num(y)}"
        parts.append(svg.tag("path", d=d, fill="none", stroke=colour("muted"), stroke_width=0.8))
        parts.append(mark(line.index, edge + 13, y, 3.6))
        name = svg.fit(line.lane, _RIGHT - 22 - (14 if line.refused else 0), 12) + (" ✕" if line.refused else "")
        parts.append(svg.text(edge + 21, y + 4, name, font_size=12))
        if carried and view.limits:
            bounds = line.carries[0]
            slo = f"SLO: {curves.figure_of(bounds, view.rate) if bounds else DASH}"
            parts.append(svg.text(edge + 21, y + 17, svg.fit(slo, _RIGHT - 16, 10), font_size=11, fill=colour("muted")))
    return parts


def _table(view: DepthView, loads: Sequence[float]) -> Table:
    rate = metric_of(view.rate).title
    heads = (rate, "lowest to highest", metric_of(view.metric).title, "lowest to highest")
    columns = ("load", *(f"{x.lane}: {head}" for x in view.lines for head in heads))
    rows = [(f"{load:g}", *(cell for x in view.lines for cell in _cells(x, load, view))) for load in loads]
    for n, limit in enumerate(view.limits):
        bounds = (x.carries[n] for x in view.lines)
        cells = (curves.figure_of(b, view.rate) if b and b != Bounds(0.0, INF) else DASH for b in bounds)
        rows.append((f"within {value(view.metric, limit)}", *(c for cell in cells for c in (cell, DASH, DASH, DASH))))
    return Table(columns, tuple(rows))


def _cells(line: Line, load: float, view: DepthView) -> Sequence[str]:
    step = next((s for s in line.steps if s.load == load), None)
    if step is None:
        return [DASH] * 4
    cells = []
    for name, span in ((view.rate, step.throughput), (view.metric, step.latency)):
        cells += [value(name, span.mean), f"{value(name, span.low)} to {value(name, span.high)}"]
    return cells
