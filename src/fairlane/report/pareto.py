"""Cost against performance of lanes that declare a cost: the front, and the lanes that another beats in both.

Performance is the primary metric against the baseline: of one cell with its interval, of several as the geometric mean
of the ratios with their range over the cells. No interval is invented for the mean. Pure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import geometric_mean

from markupsafe import Markup

from fairlane.metrics import rounded
from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import svg
from fairlane.report.phrases import change, count, interval, metric_of
from fairlane.report.plot import apart, axis, lane_order, level, mark, paint
from fairlane.report.svg import INK, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH
from fairlane.verdicts.scorecard import withheld


@dataclass(frozen=True)
class Place:
    """One lane."""

    lane: str
    """Label."""
    index: int
    cost: float
    """Cost in the study's unit."""
    ratio: float
    """Lane / baseline of the metric itself; of several cells the geometric mean."""
    low: float | None
    """Lower end of the verdict's interval; of several cells the lowest cell's ratio. None: not known."""
    high: float | None
    beaten_by: str
    """Label of a lane that costs no more, performs no worse, and is better in one of the two; empty: on the front."""


@dataclass(frozen=True)
class ParetoView:
    """The lanes of one workload that declare a cost."""

    workload: str
    baseline: str
    """Label."""
    metric: str
    better: int
    cells: tuple[str, ...]
    """Names of the cells in which every lane shown has a comparable figure."""
    of: int
    """Cells of the workload."""
    places: tuple[Place, ...]
    left_out: tuple[str, ...]
    """Labels of lanes with a cost but without a comparable figure."""


def views(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],  # noqa: ARG001 - all views share one signature
    label: Mapping[str, str],
) -> tuple[ParetoView, ...]:
    """One per workload; none where fewer than two lanes have both a cost and figures."""
    study = evidence.study
    order = [lane for lane in lane_order(study) if study.lanes[lane].cost and lane in (study.baseline, *study.rivals)]
    result = []
    for workload in study.workloads if len(order) > 1 else ():
        cells = [c for c in evidence.cells() if c.workload == workload]
        by_lane: dict[str, dict[str, Verdict]] = {}
        for v in verdicts:
            if v.workload == workload and v.primary and v.ratio and v.verdict != "refused" and not withheld(v):
                by_lane.setdefault(v.lane, {})[v.key] = v
        lanes = [lane for lane in order if lane == study.baseline or lane in by_lane]
        rivals = [lane for lane in lanes if lane != study.baseline]
        common = [c for c in cells if all(c.key in by_lane[lane] for lane in rivals)]
        if len(lanes) < 2 or not rivals or not common:
            continue
        metric = study.workloads[workload].primary
        better = metric_of(metric).better
        ratios = {lane: _ratios(lane, by_lane, [c.key for c in common]) for lane in lanes}
        costs = {lane: float(study.lanes[lane].cost) for lane in lanes}
        means = {lane: geometric_mean(r for r, _, _ in rows) for lane, rows in ratios.items()}
        places = tuple(
            Place(
                label[lane],
                lane_order(study).index(lane),
                costs[lane],
                means[lane],
                *_ends(ratios[lane], baseline=lane == study.baseline),
                label.get(_beats(lane, costs, means, better), ""),
            )
            for lane in lanes
        )
        left_out = tuple(label[lane] for lane in order if lane not in lanes)
        names = tuple(c.name for c in common)
        result.append(ParetoView(workload, label[study.baseline], metric, better, names, len(cells), places, left_out))
    return tuple(result)


_Row = tuple[float, float | None, float | None]


def _ratios(lane: str, verdicts: Mapping[str, Mapping[str, Verdict]], cells: Sequence[str]) -> list[_Row]:
    """Ratio and interval in each cell; the baseline is 1 everywhere."""
    if lane not in verdicts:
        return [(1.0, None, None)] * len(cells)
    return [(v.ratio or 1.0, v.low, v.high) for v in (verdicts[lane][key] for key in cells)]


def _ends(rows: Sequence[_Row], *, baseline: bool) -> tuple[float | None, float | None]:
    if baseline:
        return None, None
    if len(rows) == 1:
        return rows[0][1], rows[0][2]
    ratios = [r for r, _, _ in rows]
    return min(ratios), max(ratios)


def _beats(lane: str, costs: Mapping[str, float], means: Mapping[str, float], better: int) -> str:
    """The best of the lanes that dominate ``lane``; empty: none does."""
    gain = {name: better * math.log(mean) for name, mean in means.items()}
    dominating = [
        other
        for other in costs
        if costs[other] <= costs[lane]
        and gain[other] >= gain[lane]
        and (costs[other] < costs[lane] or gain[other] > gain[lane])
    ]
    return max(dominating, key=lambda other: gain[other], default="")


_LEFT, _RIGHT, _TOP, _HEIGHT, _FOOT = 62, 168, 26, 210, 40


def figure(view: ParetoView, ident: str) -> Figure:
    """Cost to the right, performance in per cent of the baseline upwards, both from zero; the front as a staircase."""
    bottom, end = _TOP + _HEIGHT, WIDTH - _RIGHT
    tops = [x for p in view.places for x in (p.ratio, p.high or 0.0) if x < math.inf]
    most = min(max(tops), 3 * max(p.ratio for p in view.places)) * 1.06
    up = Scale(0, max(most, 1.06), bottom, _TOP)
    across = Scale(0, max(p.cost for p in view.places) * 1.08, _LEFT, end)
    metric = metric_of(view.metric)
    side = "more is better" if view.better > 0 else "less is better"
    parts = [
        svg.text(0, 12, f"{metric.title}, {view.baseline} = 100 % ({side})"[:64], font_size=12, font_weight=600),
        *(level(_LEFT, end, up(t), f"{t * 100:,.0f} %") for t in up.ticks(5)),
        *axis(across, bottom, [(t, rounded(t) if t else "0") for t in across.ticks(5)], "cost, in the study's unit"),
        svg.line(_LEFT, up(1), end, up(1), stroke=INK, stroke_dasharray="1 3"),
        _front(view, across, up),
        *(_drawn(p, across, up) for p in view.places),
        *_labels(view, across, up, end, bottom),
    ]
    title = f"Cost against {metric.title}"
    where = f"geometric mean over {count(len(view.cells), 'cell')}" if len(view.cells) > 1 else view.cells[0]
    bars = "lowest and highest cell" if len(view.cells) > 1 else "the verdict's interval"
    some = f" ({view.of - len(view.cells)} of {view.of} cells cannot be compared for every lane)"
    caption = (
        f"{metric.title} against {view.baseline}, {where}{some if len(view.cells) < view.of else ''}; bars: {bars}. "
        "Cost as declared in the study. Line: the Pareto front, lanes that no other lane beats in both. Crossed "
        "out: another lane costs no more and does no worse, by the estimates; the verdicts say what the blocks show."
        + (f" Not comparable: {', '.join(view.left_out)}." if view.left_out else "")
    )
    described = "; ".join(f"{p.lane}: cost {rounded(p.cost)}, {_shown(p, view)}, {_standing(p)}" for p in view.places)
    table = Table(
        ("lane", "cost", "change", bars, f"{metric.title} per cost, {view.baseline} = 100 %", "standing"),
        tuple(
            (p.lane, rounded(p.cost), _shown(p, view), interval(p.low, p.high), _per_cost(p, view), _standing(p))
            for p in view.places
        ),
    )
    return Figure(ident, title, caption, svg.picture(ident, bottom + _FOOT, title, described, *parts), table)


def _shown(place: Place, view: ParetoView) -> str:
    return "baseline" if place.lane == view.baseline else change(place.ratio)


def _standing(place: Place) -> str:
    return f"beaten by {place.beaten_by}" if place.beaten_by else "on the front"


def _per_cost(place: Place, view: ParetoView) -> str:
    """Performance per cost against the baseline's; only where the baseline has a cost, and more is better."""
    base = next((p for p in view.places if p.lane == view.baseline), None)
    if base is None or view.better < 0:
        return DASH
    return f"{place.ratio / (place.cost / base.cost) * 100:,.0f} %"


def _front(view: ParetoView, across: Scale, up: Scale) -> Markup:
    """From the cheapest lane on: flat until the next lane that is better, then a step."""
    on = sorted((p.cost, -view.better * p.ratio, p.ratio) for p in view.places if not p.beaten_by)
    points = [(across(cost), up(ratio)) for cost, _, ratio in on]
    d = f"M{svg.num(points[0][0])} {svg.num(points[0][1])}"
    d += "".join(f"H{svg.num(x)}V{svg.num(y)}" for _, (x, y) in pairwise(points))
    d += f"H{svg.num(across.end)}"
    return svg.tag("path", d=d, fill="none", stroke=colour("better"), stroke_width=2, stroke_dasharray="6 3")


def _drawn(place: Place, across: Scale, up: Scale) -> Markup:
    x, y = across(place.cost), up(place.ratio)
    parts = [svg.tag("title", f"{place.lane}: cost {rounded(place.cost)}, {change(place.ratio)}, {_standing(place)}")]
    if place.low is not None and place.high is not None:
        ends = f"M{svg.num(x)} {svg.num(up(place.low))}V{svg.num(up(place.high))}"
        caps = "".join(f"M{svg.num(x - 3)} {svg.num(up(e))}h6" for e in (place.low, place.high))
        parts.append(svg.tag("path", d=ends + caps, fill="none", stroke=paint(place.index), stroke_width=1.6))
    parts.append(mark(place.index, x, y, 5))
    if place.beaten_by:
        parts.append(svg.marker("cross", x, y, 7.5, fill="none", stroke=colour("worse"), stroke_width=1.8))
    return svg.tag("g", *parts)


def _labels(view: ParetoView, across: Scale, up: Scale, end: float, bottom: float) -> list[Markup]:
    """Names at the right edge, each led to its point, with the change or the lane that beats it."""
    wanted = [up(p.ratio) for p in view.places]
    parts = []
    for p, y, at in zip(view.places, apart(wanted, 31, _TOP, bottom - 16), wanted, strict=True):
        d = f"M{svg.num(across(p.cost) + 8)} {svg.num(at)}L{svg.num(end + 8)} {svg.num(y)}"
        parts.append(
            svg.tag("path", d=d, fill="none", stroke=colour("muted"), stroke_width=0.7, stroke_dasharray="1 2")
        )
        parts.append(mark(p.index, end + 13, y, 4))
        parts.append(svg.text(end + 22, y + 4, svg.fit(p.lane, _RIGHT - 22, 12), font_size=12))
        standing = f"✕ beaten by {p.beaten_by}" if p.beaten_by else _shown(p, view)
        parts.append(svg.text(end + 22, y + 17, svg.fit(standing, _RIGHT - 22, 11), font_size=12, fill=colour("muted")))
    return parts
