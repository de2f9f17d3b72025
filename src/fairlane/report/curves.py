"""Throughput against latency: each lane on the rungs of a ladder, and the throughput it carries within an objective."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from markupsafe import Markup

from fairlane.records import Evidence, Finding
from fairlane.report import svg
from fairlane.report.phrases import SYMBOL, change, count, interval, metric_of, share, value
from fairlane.report.plot import SHAPES, lane_order, log_ticks
from fairlane.report.svg import INK, LANES, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH
from fairlane.stats import knee, usl
from fairlane.stats.capacity import (
    Bounds,
    Capacity,
    Objective,
    Shelves,
    at_equal_terms,
    by_provisioning,
    capacities,
    climbs,
    guarded,
    objectives,
    rounds,
)
from fairlane.stats.crossing import INF
from fairlane.stats.knee import Knee, Step
from fairlane.stats.ladders import Ladder, climb, ladders
from fairlane.stats.pairs import shelve


@dataclass(frozen=True)
class Rung:
    """One lane on one rung; figures are geometric means over the rounds."""

    load: float
    throughput: float
    latency: float


@dataclass(frozen=True)
class Curve:
    """One lane on one ladder."""

    lane: str
    """Label."""
    index: int
    """0 for the baseline, then the other lanes in the study's order: the lane's colour."""
    rungs: tuple[Rung, ...]
    law: str
    """Parameters of the scalability law in words; empty where it was not fitted."""
    knee: Knee | None
    """The point of diminishing returns; None: in an open loop."""
    returns: str
    """The same in words; empty in an open loop."""


@dataclass(frozen=True)
class LadderView:
    """One ladder, ready to print."""

    workload: str
    name: str
    metric: str
    """The latency's name in the registry."""
    throughput: str
    """The rate's name in the registry: iops, of a database tps."""
    open_loop: bool
    unit: str
    """Unit of the load: ``in flight`` or ``asked for, 1/s``."""
    rounds: int
    limits: tuple[float, ...]
    """Objectives on this metric, ns."""
    curves: tuple[Curve, ...]
    answers: tuple[str, ...]
    """One sentence per lane and objective."""
    equal: Table
    """Lanes at the baseline's rungs: equal latency, equal throughput."""


def views(
    evidence: Evidence,
    label: Mapping[str, str],
    findings: Sequence[Finding],
    override: Sequence[Objective] | None = None,
) -> tuple[LadderView, ...]:
    """Every ladder of a run, with the latency that its objective names; without one see ``_default_metric``.

    ``override`` takes the place of the study's objectives.
    """
    study = evidence.study
    all_ladders = ladders(study)
    if not all_ladders:
        return ()
    observations = evidence.observations
    shelves = shelve(observations)
    carried = guarded(capacities(study, observations, override, modelled=evidence.modelled), findings)
    equal: dict[str, tuple[Capacity, ...]] = {}
    rate = knee.share(study, all_ladders)
    result = []
    for ladder in all_ladders:
        goals = objectives(study, ladder.workload) if override is None else tuple(override)
        counted, looks = rounds(study, shelves, ladder)
        for metric in dict.fromkeys(goal.metric for goal in goals) or [
            _default_metric(shelves, ladder, study.baseline, counted)
        ]:
            curves = []
            for index, lane in enumerate(lane_order(study)):
                climbed = climbs(study, shelves, ladder, lane, metric)
                if climbed:
                    rungs = tuple(
                        Rung(
                            at[0].load, geometric_mean(p.throughput for p in at), geometric_mean(p.latency for p in at)
                        )
                        for at in zip(*climbed.values(), strict=True)
                    )
                    point = None
                    if not ladder.open_loop:
                        units = by_provisioning(climbed, study.design.blocks_per_unit)
                        point = knee.guarded(knee.knee(study, ladder, units, looks, rate), ladder, lane, findings)
                    law = "" if ladder.open_loop else _law(rungs)
                    curves.append(Curve(label[lane], index, rungs, law, point, _returns(point) if point else ""))
            if curves:
                equal.setdefault(
                    metric, guarded(at_equal_terms(study, observations, metric, modelled=evidence.modelled), findings)
                )
                at_equal = [c for c in equal[metric] if c.question.ladder == ladder]
                answers = [
                    _answer(c, label) for c in carried if c.question.ladder == ladder and c.question.metric == metric
                ]
                limits = tuple(goal.limit for goal in goals if goal.metric == metric)
                unit = "asked for, 1/s" if ladder.open_loop else ladder.unit
                result.append(
                    LadderView(
                        ladder.workload,
                        ladder.name,
                        metric,
                        ladder.throughput,
                        ladder.open_loop,
                        unit,
                        len(counted),
                        limits,
                        tuple(curves),
                        tuple(answers),
                        _equal(at_equal, label, metric),
                    )
                )
    return tuple(result)


def _default_metric(shelves: Shelves, ladder: Ladder, lane: str, counted: range) -> str:
    """The deepest latency that every rung of the baseline has: p99, else p95, p50, mean."""
    for metric in ("lat_p99", "lat_p95", "lat_p50"):
        if any(climb(ladder, shelves, lane, b, metric) for b in counted):
            return metric
    return "lat_mean"


def _law(rungs: Sequence[Rung]) -> str:
    fitted = usl.fit([r.load for r in rungs], [r.throughput for r in rungs])
    if fitted is None:
        return ""
    return (
        f"scalability law: contention {fitted.contention:.3g}, coherency {fitted.coherency:.2g}; "
        f"off by at most {share(fitted.error)}"
    )


def _returns(found: Knee) -> str:
    """The point of diminishing returns in words, with the gains that prove it or leave it open."""
    margin = share(found.margin)
    head = "diminishing returns (per doubling of the load)"
    if not found.steps:
        return f"{head}: not decided, fewer than 2 rounds have every rung"
    if found.withheld:
        return f"{head}: not decided, a critical finding concerns one of its loads"
    if found.load is None:
        last = _gain(found.steps[-1])
        if found.state == "not-reached":
            return f"{head}: not reached, the ladder ends before: its last step gains more than {margin}: {last}"
        return f"{head}: not decided, the last step may gain more than {margin} or less: {last}"
    further = "; ".join(_gain(step) for step in found.steps if step.load >= found.load)
    where = f"from {found.load:g} in flight on"
    if found.earliest != found.load:
        where += f" at the latest, from {found.earliest:g} on at the earliest"
    return f"{head}: {where} every step gains less than {margin}: {further}"


def _gain(step: Step) -> str:
    return f"{step.load:g} to {step.next_load:g} {change(1 + step.gain)} ({interval(1 + step.low, 1 + step.high)})"


def figure_of(bounds: Bounds, metric: str) -> str:
    """A figure, or its known bound: ``≥ 12,300``, ``< 1.2 ms``."""
    if bounds.exact:
        return value(metric, bounds.low)
    if bounds.high == INF:
        return f"≥ {value(metric, bounds.low)}" if bounds.low > 0 else DASH
    return f"< {value(metric, bounds.high)}" if bounds.low == 0 else f"{value(metric, bounds.low)} or more"


def _answer(c: Capacity, label: Mapping[str, str]) -> str:
    metric = metric_of(c.question.metric)
    lane, baseline = label[c.lane], label[c.baseline]
    changed = _change(c)
    notes = "".join(f"; {note}" for note in c.notes)
    rate = c.question.ladder.throughput
    ours, theirs = figure_of(c.lane_value, rate), figure_of(c.baseline_value, rate)
    unit = " IOPS" if rate == "iops" else ""  # others have theirs
    return (
        f"Within {metric.title} of {metric.format(c.question.at)}, {lane} carries {ours}{unit}, {baseline} {theirs}: "
        f"{SYMBOL[c.verdict]} {c.verdict}{changed}{f', withheld: {c.withheld}' if c.withheld else ''} "
        f"({count(c.blocks, 'block')}){notes}."
    )


def _change(c: Capacity) -> str:
    at = f"{change(c.ratio)}, " if c.ratio is not None else ""
    if c.low is not None and c.high is not None:
        return f", {at}{interval(c.low, c.high)}"
    if c.low is not None:
        return f", {at}{change(c.low)} or more"
    return f", {at}{change(c.high)} or less" if c.high is not None else ""


def _equal(at_equal: Sequence[Capacity], label: Mapping[str, str], metric: str) -> Table:
    """One row per rung of the baseline, kind and lane."""
    rows = []
    for c in at_equal:
        by = c.question.kind == "throughput"
        rate = c.question.ladder.throughput
        measured = rate if by else metric
        of_latency = f"{_TITLE[rate]} at {metric_of(metric).title} of {value(metric, c.question.at)}"
        title = of_latency if by else f"{metric_of(metric).title} at {_rate(rate, c.question.at)}"
        figures = (figure_of(c.baseline_value, measured), figure_of(c.lane_value, measured))
        rows.append((title, label[c.lane], *figures, _change(c).removeprefix(", ") or DASH, _word(c)))
    return Table(("at equal", "lane", "baseline's", "lane's", "change", "verdict"), tuple(rows))


_TITLE = {"iops": "IOPS", "tps": "tps"}


def _rate(name: str, rate: float) -> str:
    """``5,387 IOPS``, ``403 tps``."""
    return f"{value(name, rate)}{' IOPS' if name == 'iops' else ''}"


def _word(c: Capacity) -> str:
    return f"{c.verdict} (withheld)" if c.withheld else c.verdict


_LEFT, _RIGHT, _TOP, _HEIGHT, _FOOT = 70, 14, 10, 230, 40


def figure(view: LadderView, ident: str) -> Figure:
    """Latency (log axis) against throughput, one line per lane, loads written at the points, objectives as lines."""
    points = [(r.throughput, r.latency) for c in view.curves for r in c.rungs]
    legend = 20 * len(view.curves)
    bottom = _TOP + legend + _HEIGHT
    across = Scale(0, max(x for x, _ in points) * 1.06, _LEFT, WIDTH - _RIGHT)
    spread = [y for _, y in points] + list(view.limits)
    up = Scale(min(spread) / 1.15, max(spread) * 1.15, bottom, _TOP + legend, log=True)
    title = f"{metric_of(view.metric).title} against throughput: {view.name}"
    parts = [*_legend(view), *_axes(across, up, view, bottom)]
    for limit in view.limits:
        y = up(limit)
        parts.append(svg.line(_LEFT, y, WIDTH - _RIGHT, y, stroke=colour("worse"), stroke_dasharray="6 4"))
        label = f"objective {value(view.metric, limit)}"
        parts.append(svg.text(WIDTH - _RIGHT, y - 4, label, text_anchor="end", font_size=12, fill=colour("worse")))
    for curve in view.curves:
        parts.append(_curve(curve, across, up, view))
    described = "; ".join(
        f"{c.lane}: {_rate(view.throughput, c.rungs[-1].throughput)} at the top rung" for c in view.curves
    )
    caption = (
        f"Each point is a load ({view.unit}), mean of {count(view.rounds, 'block')}; down and to the right is better. "
        "The latency axis is logarithmic, throughput begins at zero. Nothing is drawn beyond the measured loads."
    )
    columns = (
        "load",
        *(text for c in view.curves for text in (f"{c.lane}: {_TITLE[view.throughput]}", f"{c.lane}: latency")),
    )
    loads = sorted({r.load for c in view.curves for r in c.rungs})
    rows = tuple((f"{load:g}", *(x for c in view.curves for x in _cells(c, load, view))) for load in loads)
    return Figure(
        ident, title, caption, svg.picture(ident, bottom + _FOOT, title, described, *parts), Table(columns, rows)
    )


def _cells(curve: Curve, load: float, view: LadderView) -> tuple[str, str]:
    rung = next((r for r in curve.rungs if r.load == load), None)
    if rung is None:
        return DASH, DASH
    return value(view.throughput, rung.throughput), value(view.metric, rung.latency)


def _legend(view: LadderView) -> list[Markup]:
    parts = []
    for i, curve in enumerate(view.curves):
        y = _TOP + 20 * i + 6
        paint = colour(f"lane-{curve.index % LANES}")
        parts.append(svg.marker(SHAPES[curve.index % len(SHAPES)], _LEFT + 6, y, 4.5, fill=paint, stroke=INK))
        parts.append(svg.text(_LEFT + 18, y + 4, svg.fit(curve.lane, WIDTH - _LEFT - 30, 12), font_size=12))
    return parts


def _axes(across: Scale, up: Scale, view: LadderView, bottom: float) -> list[Markup]:
    muted = colour("muted")
    parts = [svg.line(_LEFT, bottom, WIDTH - _RIGHT, bottom, stroke=muted)]
    for tick in across.ticks(4):
        x = across(tick)
        parts.append(svg.line(x, bottom, x, bottom + 5, stroke=muted))
        shown = "0" if tick == 0 else value("iops", tick)  # the unit stands below
        room = min(x, WIDTH - 4 * len(shown))  # half of the text, which would be cut off at the edge
        parts.append(svg.text(room, bottom + 18, shown, text_anchor="middle", font_size=12, fill=muted))
    below = f"throughput, {_TITLE[view.throughput]} →"
    parts.append(svg.text(WIDTH - _RIGHT, bottom + 34, below, text_anchor="end", font_size=12, fill=muted))
    for tick in log_ticks(up.low, up.high):
        y = up(tick)
        parts.append(svg.line(_LEFT, y, WIDTH - _RIGHT, y, stroke=colour("grid")))
        parts.append(svg.text(_LEFT - 6, y + 4, value(view.metric, tick), text_anchor="end", font_size=12, fill=muted))
    return parts


def _curve(curve: Curve, across: Scale, up: Scale, view: LadderView) -> Markup:
    paint = colour(f"lane-{curve.index % LANES}")
    at = [(across(r.throughput), up(r.latency)) for r in curve.rungs]
    d = "M" + "L".join(f"{svg.num(x)} {svg.num(y)}" for x, y in at)
    shape = SHAPES[curve.index % len(SHAPES)]
    marks = [
        svg.tag(
            "g",
            svg.tag("title", f"{curve.lane}, {r.load:g} {view.unit}: {_rate(view.throughput, r.throughput)}, "
                    f"{value(view.metric, r.latency)}"),
            svg.marker(shape, x, y, 4.5, fill=paint, stroke=INK),
        )
        for r, (x, y) in zip(curve.rungs, at, strict=True)
    ]  # fmt: skip
    return svg.tag("g", svg.tag("path", d=d, fill="none", stroke=paint, stroke_width=2), *marks)
