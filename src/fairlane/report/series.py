"""A run over time: every trial in its order of execution, to show drift, ramps and faults.

Two pictures: all cells of a workload as deviations from each cell's own mean, a strip per lane; and the rate within the
trials of a cell, where a tool reports it. The
order is the schedule's (rounds of all cells): the evidence has no time for a trial. Pure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, median

from markupsafe import Markup

from fairlane.checks._trials import number
from fairlane.records import Cell, Evidence, Finding, Observation, Verdict
from fairlane.report import svg, time_series
from fairlane.report.phrases import change, count, metric_of
from fairlane.report.plot import axis, lane_order, level, named, paint, path
from fairlane.report.svg import INK, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH
from fairlane.report.time_series import TimeSeriesView

_TELLING = ("drift", "spread", "unsteady", "autocorrelation", "carry_over", "repeated")
"""Checks whose cells are drawn first, in this order."""
_KINDS = {
    "resume": "resumed",
    "block-failed": "block failed",
    "retry": "begun anew",
    "mismatch": "not repeated",
    "damaged": "damaged",
}


@dataclass(frozen=True)
class Incident:
    """An event of the journal beside trials and looks; ``cell`` and ``block``: None where it does not name them."""

    kind: str
    cell: str | None
    block: int | None
    after: int
    """Look before the incident, by its number of blocks (0: the start)."""
    before: int | None
    """Look after the incident, by its number of blocks (None: the end)."""


@dataclass(frozen=True)
class Journal:
    looks: tuple[int, ...]
    """Blocks per cell at each look at the verdicts."""
    incidents: tuple[Incident, ...]


@dataclass(frozen=True)
class Strip:
    """One lane over all cells of a workload."""

    lane: str
    """Label."""
    index: int
    points: tuple[tuple[int, float], ...]
    """(block's place in the order carried out, figure / geometric mean of its cell and lane before the first look)."""
    rounds: tuple[tuple[float, float], ...]
    """(middle, median) of each round of all cells."""
    failed: tuple[int, ...]
    """Places of blocks in which the lane's trial failed."""


@dataclass(frozen=True)
class RunView:
    """A workload."""

    workload: str
    metric: str
    blocks: int
    places: Mapping[int, int]
    """Blocks of each cell at a look -> blocks of the workload that were carried out before it."""
    strips: tuple[Strip, ...]
    journal: Journal
    spans: tuple[tuple[float, float], ...]
    """For each incident, the places of blocks between which it happened."""


View = RunView | TimeSeriesView


def views(
    evidence: Evidence,
    verdicts: Sequence[Verdict],  # noqa: ARG001 - all views share one signature
    findings: Sequence[Finding],
    label: Mapping[str, str],
) -> tuple[View, ...]:
    """By workload: all cells, and at most one cell from time_series."""
    by_cell: dict[str, list[Observation]] = {}
    for o in evidence.observations:
        by_cell.setdefault(o.cell, []).append(o)
    journal = _journal(evidence)
    result: list[View] = []
    for workload in evidence.study.workloads:
        metric = evidence.study.workloads[workload].primary
        observed = {
            c: by_cell[c.key]
            for c in evidence.cells()
            if c.workload == workload and any(_figure(o, metric) for o in by_cell.get(c.key, ()))
        }
        # a figure against the mean of its own cell and lane says nothing where each has one
        if any(len({o.block for o in trials}) > 1 for trials in observed.values()):
            result.append(_run(evidence, workload, observed, label, journal))
        ranked = sorted(observed, key=lambda c: _rank(c, observed[c], metric, findings))
        inner = (
            time_series.view(c, observed[c], lane_order(evidence.study), label) for c in ranked if c.kind != "failover"
        )
        result += [view for view in inner if view][:1]
    return tuple(result)


def _figure(observation: Observation, metric: str) -> float | None:
    return None if observation.failed else number(observation.metrics, metric) or None


def _journal(evidence: Evidence) -> Journal:
    """Looks and incidents in the journal's order; invalid events are left out."""
    looks: list[int] = []
    unplaced: list[tuple[str, str | None, int | None, int]] = []
    for event in evidence.events:
        kind, block, cell = event.get("type"), number(event, "block"), event.get("cell")
        if kind == "look" and (blocks := number(event, "blocks")):
            looks.append(int(blocks))
        elif isinstance(kind, str) and kind in _KINDS:
            place = cell if isinstance(cell, str) else None
            unplaced.append((_KINDS[kind], place, None if block is None else int(block), looks[-1] if looks else 0))
    # damaged files are detected when the run is read: they have no place in its order
    placed = [Incident(*i, next((n for n in looks if n > i[3]), None)) for i in unplaced if i[0] != "damaged"]
    return Journal(tuple(looks), (*placed, *(Incident(*i[:3], 0, None) for i in unplaced if i[0] == "damaged")))


def _run(
    evidence: Evidence,
    workload: str,
    observed: Mapping[Cell, Sequence[Observation]],
    label: Mapping[str, str],
    journal: Journal,
) -> RunView:
    metric = evidence.study.workloads[workload].primary
    done = {(o.cell, o.block) for trials in observed.values() for o in trials}
    order = [key for b in evidence.blocks if (key := (b.cell.key, b.index)) in done]
    place = {key: n for n, key in enumerate(order)}
    strips = []
    for index, lane in enumerate(lane_order(evidence.study)):
        points: list[tuple[int, float]] = []
        failed: list[int] = []
        for trials in observed.values():
            of_lane = [o for o in trials if o.lane == lane and (o.cell, o.block) in place]
            figures = {place[o.cell, o.block]: f for o in of_lane if (f := _figure(o, metric))}
            # cells end at different looks: the blocks before the first look are common to all
            first = [f for n, f in figures.items() if order[n][1] < (journal.looks or (math.inf,))[0]]
            mean = geometric_mean(first or figures.values() or [1.0])
            points += [(at, figure / mean) for at, figure in figures.items()]
            failed += [place[o.cell, o.block] for o in of_lane if o.failed]
        if points or failed:
            rounds: dict[int, list[tuple[int, float]]] = {}
            for point in points:
                rounds.setdefault(order[point[0]][1], []).append(point)
            middles = ((fmean(p for p, _ in r), median(x for _, x in r)) for _, r in sorted(rounds.items()))
            strips.append(Strip(label[lane], index, tuple(sorted(points)), tuple(middles), tuple(sorted(failed))))
    places = {n: sum(block < n for _, block in order) for n in journal.looks}
    keys = {c.key for c in observed}
    own = Journal(journal.looks, tuple(i for i in journal.incidents if i.cell is None or i.cell in keys))
    spans = tuple(
        (known - 0.4, known + 0.4)
        if (known := place.get((i.cell or "", -1 if i.block is None else i.block))) is not None
        else (places.get(i.after, 0) - 0.5, places.get(i.before or -1, len(order)) - 0.5)
        for i in own.incidents
    )
    return RunView(workload, metric, len(order), places, tuple(strips), own, spans)


def _rank(cell: Cell, trials: Sequence[Observation], metric: str, findings: Sequence[Finding]) -> tuple[float, ...]:
    """Sort key: cells with failed trials first, then cells that a check names, then by the widest spread of a lane."""
    named = [_TELLING.index(f.check) for f in findings if f.check in _TELLING and cell.key in f.cells]
    lanes: dict[str, list[float]] = {}
    for o in trials:
        if figure := _figure(o, metric):
            lanes.setdefault(o.lane, []).append(figure)
    failed = sum(bool(o.failed) for o in trials)
    return -failed, min(named, default=len(_TELLING)), -max(max(x) / min(x) for x in lanes.values())


_LEFT, _RIGHT, _FOOT, _STRIP = 66, 12, 40, 62


def figure(view: View, ident: str) -> Figure:
    """The picture that belongs to the view."""
    return _run_figure(view, ident) if isinstance(view, RunView) else time_series.figure(view, ident)


def _cross(title: str, x: float, y: float) -> Markup:
    """The mark of a failed trial."""
    shape = svg.marker("cross", x, y, 4, fill="none", stroke=colour("worse"), stroke_width=2)
    return svg.tag("g", svg.tag("title", title), shape)


def _looks(looks: Iterable[tuple[int, float]], top: float, bottom: float) -> list[Markup]:
    """(blocks, x) as lines through all panels, named where there is room."""
    parts, last = [], -math.inf
    for blocks, x in looks:
        label = f"look at {blocks}"
        parts.append(svg.line(x, top, x, bottom, stroke=INK, stroke_dasharray="2 3", stroke_opacity=0.7))
        if x - 6.3 * len(label) > last:
            parts.append(svg.text(x - 2, top - 4, label, text_anchor="end", font_size=12, fill=colour("muted")))
            last = x
    return parts


def _incidents(placed: Iterable[tuple[float, float, Incident]], y: float) -> list[Markup]:
    """Bars over the blocks of each incident, with its name where there is room."""
    parts, free = [], -math.inf
    paint: dict[str, str | float | None] = {"stroke": colour("worse"), "stroke_width": 2}
    for first, last, what in sorted(placed, key=lambda i: i[:2]):
        where = " ".join(str(x) for x in (what.cell, "" if what.block is None else f"block {what.block}") if x)
        x = min(first, WIDTH - 6.6 * len(what.kind))
        body = [
            svg.tag("title", f"{what.kind} {where}".strip()),
            svg.line(first, y, max(last, first + 2), y, **paint),
            svg.line(first, y - 4, first, y + 4, **paint),
        ]
        if x > free:
            body.append(svg.text(x, y + 15, what.kind, font_size=12, fill=colour("muted")))
            free = x + 6.6 * len(what.kind)
        parts.append(svg.tag("g", *body))
    return parts


def _incidents_sentence(journal: Journal) -> str:
    kinds = Counter(i.kind for i in journal.incidents)
    listed = ", ".join(f"{kind} {n} times" if n > 1 else f"{kind} once" for kind, n in kinds.items())
    return f" From the journal: {listed}; the bar covers the blocks in which it may have happened." if listed else ""


def _run_figure(view: RunView, ident: str) -> Figure:
    """A strip per lane, all on one axis; a dot per trial, the line the median of each round."""
    metric = metric_of(view.metric)
    ratios = sorted(abs(math.log(r)) for s in view.strips for _, r in s.points)
    # one wild trial must not flatten all others: it is drawn on the edge
    reach = max(0.01, min(ratios[-1], 4 * ratios[int(0.95 * (len(ratios) - 1))]))
    half = max((s for s in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8) if -math.log1p(-s) < reach), default=0.005)
    top, bottom = 20.0, 12.0 + len(view.strips) * (_STRIP + 30)
    end = WIDTH - _RIGHT
    across = Scale(-0.5, view.blocks - 0.5, _LEFT, end)
    parts = _looks([(n, across(place - 0.5)) for n, place in view.places.items()], top, bottom)
    for n, strip in enumerate(view.strips):
        y = top + n * (_STRIP + 30) + 18
        up = Scale(math.exp(-reach), math.exp(reach), y + _STRIP, y, log=True)
        parts.append(named(strip.index, strip.lane, 0, y - 5, 300))
        parts += [level(_LEFT, end, up(r), change(r, 0 if half >= 0.01 else 1)) for r in (1 - half, 1.0, 1 + half)]
        parts.append(svg.dots([(across(p), up(r)) for p, r in strip.points], f"{ident}-{n}"))
        if len(strip.rounds) > 1:
            parts.append(path(strip.rounds, across, up, stroke=svg.PAPER, stroke_width=4.5))
            parts.append(path(strip.rounds, across, up, stroke=paint(strip.index), stroke_width=2.5))
        parts += [_cross(f"{strip.lane}: failed", across(p), y + _STRIP - 4) for p in strip.failed]
    spans = zip(view.spans, view.journal.incidents, strict=True)
    parts += _incidents([(across(a), across(b), i) for (a, b), i in spans], bottom + 8)
    y = bottom + (28 if view.spans else 0)
    parts += axis(across, y, [(t, f"{t:,.0f}") for t in across.ticks(8)], "blocks in the order they ran")
    failed = sum(len(s.failed) for s in view.strips)
    title = f"The run in time: {metric.title} of every trial"
    caption = (
        f"Each dot is a trial: its {metric.title} against the mean of its own cell and lane"
        + (f" in the {first} blocks before the first look" if (first := min(view.places, default=0)) else "")
        + ". The axis is logarithmic; a trial beyond it stands on its edge. Line: median of each round of all cells."
        + (f" ✕: {count(failed, 'failed trial')}." if failed else "")
        + _incidents_sentence(view.journal)
    )
    rows = tuple(_thirds(s, view.blocks) for s in view.strips)
    described = "; ".join(f"{lane}: {n} trials, {lost} failed, {a} to {z}" for lane, n, lost, a, _, z, *_ in rows)
    columns = ("lane", "trials", "failed", "first third", "second third", "last third", "lowest", "highest")
    return Figure(ident, title, caption, svg.picture(ident, y + _FOOT, title, described, *parts), Table(columns, rows))


def _thirds(strip: Strip, blocks: int) -> tuple[str, ...]:
    """Medians of the thirds of the run, and the extremes."""
    parts = [[r for p, r in strip.points if blocks * n <= 3 * p < blocks * (n + 1)] for n in range(3)]
    medians = (change(median(part)) if part else DASH for part in parts)
    ends = (change(f(r for _, r in strip.points)) if strip.points else DASH for f in (min, max))
    return (strip.lane, str(len(strip.points)), str(len(strip.failed)), *medians, *ends)
