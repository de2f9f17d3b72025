"""Faults under load: IOPS in every interval around the fault, the longest I/O, errors and wrong blocks. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fairlane.checks._trials import at, number
from fairlane.records import Cell, Evidence, Observation
from fairlane.report import svg
from fairlane.report.phrases import count, value
from fairlane.report.plot import lane_order
from fairlane.report.svg import INK, LANES, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH

if TYPE_CHECKING:
    from fairlane.study.spec import Study


@dataclass(frozen=True)
class Trace:
    """One trial: IOPS by time, and its fault. Times in ms since the fault began."""

    block: int
    points: tuple[tuple[float, float], ...]
    """Middle of each interval, IOPS."""
    back_ms: float
    """When the path was back."""
    stall: float
    """ns."""
    stall_ends_ms: float


@dataclass(frozen=True)
class Panel:
    """One lane in one cell."""

    lane: str
    """Label."""
    index: int
    """Colour."""
    traces: tuple[Trace, ...]
    typical: int
    """Place in ``traces`` of the trial with the median stall, drawn with a strong line."""


@dataclass(frozen=True)
class FailoverView:
    """All lanes of one cell with faults."""

    workload: str
    name: str
    panels: tuple[Panel, ...]
    table: Table
    sentences: tuple[str, ...]
    """One per lane."""


def views(evidence: Evidence, label: Mapping[str, str]) -> tuple[FailoverView, ...]:
    """Every cell whose trials have faults; lanes in the study's order, the baseline first."""
    study = evidence.study
    order = lane_order(study)
    result = []
    by_place: dict[tuple[str, str], list[Observation]] = {}
    for trial in evidence.observations:
        if trial.failed or at(trial.context, "fault") is not None:
            by_place.setdefault((trial.cell, trial.lane), []).append(trial)
    for cell in evidence.cells():
        lanes = [(n, lane, by_place[cell.key, lane]) for n, lane in enumerate(order) if (cell.key, lane) in by_place]
        if cell.kind == "failover" and any(not trial.failed for _, _, trials in lanes for trial in trials):
            view = _view(cell, lanes, label)
            result.append(replace(view, sentences=(*view.sentences, *_timeouts(study, label))))
    return tuple(result)


def _view(
    cell: Cell, lanes: Sequence[tuple[int, str, Sequence[Observation]]], label: Mapping[str, str]
) -> FailoverView:
    rows, sentences, panels = [], [], []
    for index, lane, trials in lanes:
        good = [trial for trial in trials if not trial.failed]
        rows.append(_row(label[lane], trials, good))
        sentences.append(_sentence(label[lane], trials, good))
        if panel := _panel(label[lane], index, good):
            panels.append(panel)
    columns = ("lane", "trials", "longest I/O, median", "worst", "time to recover, median", "worst", "IOPS before",
               "during", "after", "I/O errors", "wrong blocks")  # fmt: skip
    return FailoverView(cell.workload, cell.name, tuple(panels), Table(columns, tuple(rows)), tuple(sentences))


def _figures(trials: Sequence[Observation], name: str) -> list[float]:
    return [figure for trial in trials if (figure := number(trial.metrics, name)) is not None]


def _context_numbers(trials: Sequence[Observation], *path: str) -> list[float]:
    return [figure for trial in trials if (figure := number(trial.context, *path)) is not None]


def _row(lane: str, trials: Sequence[Observation], good: Sequence[Observation]) -> tuple[str, ...]:
    def shown(metric: str, values: Sequence[float], how: Any = median) -> str:
        return value(metric, how(values)) if values else DASH

    stalls, back = _figures(good, "stall"), _figures(good, "recover_time")
    never = len(good) - len(back)
    return (
        lane,
        f"{len(good)} of {len(trials)}" if len(good) < len(trials) else str(len(trials)),
        shown("stall", stalls),
        shown("stall", stalls, max),
        shown("recover_time", back),
        f"never in {never}" if never else shown("recover_time", back, max),
        shown("iops", _figures(good, "iops_before")),
        shown("iops", _context_numbers(good, "fault", "iops_during")),
        shown("iops", _figures(good, "iops_after")),
        _sum(good, "io_errors"),
        _sum(good, "wrong_blocks"),
    )


def _sum(trials: Sequence[Observation], name: str) -> str:
    counts = _context_numbers(trials, "data", name)
    return f"{sum(counts):,.0f}" if len(counts) == len(trials) and counts else DASH


def _timeouts(study: "Study", label: Mapping[str, str]) -> Iterator[str]:
    """The settings that decide how soon a dead path is noticed: they are the study's, not the transport's."""
    settings = ((name, getattr(spec, "multipath", None)) for name, spec in study.lanes.items())
    if shown := "; ".join(f"{label[name]}: {multipath.summary}" for name, multipath in settings if multipath):
        yield f"How long I/O stands still depends on the time-outs that the study sets ({shown})."


def _sentence(lane: str, trials: Sequence[Observation], good: Sequence[Observation]) -> str:
    """``iscsi: 0 wrong blocks and 0 I/O errors in 20 faults; longest I/O 2.1 s (median), 4.1 s (worst).``"""
    if not good:
        return f"{lane}: no figures of {count(len(trials), 'fault')}: every trial failed."
    stalls, back = _figures(good, "stall"), _figures(good, "recover_time")
    text = (
        f"{lane}: {_sum(good, 'wrong_blocks')} wrong blocks and {_sum(good, 'io_errors')} I/O errors in "
        f"{count(len(good), 'fault')}"
    )
    if stalls:
        text += f"; longest I/O {value('stall', median(stalls))} (median), {value('stall', max(stalls))} (worst)"
    if len(back) < len(good):
        text += f"; IOPS did not recover in {len(good) - len(back)}"
    if failed := len(trials) - len(good):
        text += f"; {count(failed, 'more trial')} failed and {'tells' if failed == 1 else 'tell'} nothing"
    return text + "."


def _panel(lane: str, index: int, good: Sequence[Observation]) -> Panel | None:
    traces = tuple(trace for trial in good if (trace := _trace(trial)))
    if not traces:
        return None
    by_stall = sorted(range(len(traces)), key=lambda n: traces[n].stall)
    return Panel(lane, index, traces, by_stall[(len(by_stall) - 1) // 2])


def _trace(trial: Observation) -> Trace | None:
    """One trial's trace; None: a required value is missing."""
    step, series = number(trial.context, "load", "series", "interval_ms"), at(trial.context, "load", "series", "iops")
    begins, ends = (number(trial.context, "fault", name) for name in ("begins_ms", "ends_ms"))
    late = number(trial.context, "fault", "stall_ends_ms")
    stall = number(trial.metrics, "stall")
    if not step or begins is None or ends is None or late is None or stall is None or not isinstance(series, list):
        return None
    known = [(n, iops) for n, iops in enumerate(series) if isinstance(iops, int | float) and 0 <= iops < 2**63]
    points = tuple(((n + 0.5) * step - begins, float(iops)) for n, iops in known)
    return Trace(trial.block, points, ends - begins, stall, late - begins) if points else None


_LEFT, _RIGHT, _TOP, _HEIGHT, _GAP, _FOOT = 64, 14, 6, 96, 34, 48
_FLOOR = 3
"""Between the axis and zero: a lane without I/O does not lie on the axis."""
_FAINT = 24
"""Trials that are drawn with faint lines; of more, every n-th."""


def figure(view: FailoverView, ident: str) -> Figure:
    """IOPS against time since the fault, one panel per lane on the same scales; the outage is shaded, the longest I/O
    of the strong line is a bar below it."""
    traces = [trace for panel in view.panels for trace in panel.traces]
    across = Scale(
        min(trace.points[0][0] for trace in traces),
        max(trace.points[-1][0] for trace in traces),
        _LEFT,
        WIDTH - _RIGHT,
    )
    top = max((iops for trace in traces for _, iops in trace.points), default=0.0) or 1.0
    parts: list[Markup] = []
    for n, panel in enumerate(view.panels):
        parts += _draw(panel, across, top, _TOP + n * (_HEIGHT + _GAP) + 18)
    bottom = _TOP + len(view.panels) * (_HEIGHT + _GAP) - _GAP + 18
    parts += _axis(across, bottom)
    title = f"IOPS around the fault: {view.name}"
    described = "; ".join(
        f"{panel.lane}: longest I/O {value('stall', panel.traces[panel.typical].stall)}" for panel in view.panels
    )
    caption = (
        "I/Os of the application in every 100 ms, without those that verify. All panels have the same scales. Faint: "
        "every trial; strong: the trial whose longest I/O is the median, which the bar marks from submission to "
        "completion. Shaded: the path was gone."
    )
    return Figure(ident, title, caption, svg.picture(ident, bottom + _FOOT, title, described, *parts), view.table)


def _draw(panel: Panel, across: Scale, most: float, top: float) -> list[Markup]:
    bottom = top + _HEIGHT
    up = Scale(0, most * 1.05, bottom - _FLOOR, top)
    typical = panel.traces[panel.typical]
    paint, muted = colour(f"lane-{panel.index % LANES}"), colour("muted")
    gone, back = across(0), across(typical.back_ms)
    parts = [
        svg.tag("rect", x=gone, y=top, width=max(back - gone, 0.5), height=_HEIGHT, fill=colour("band")),
        svg.text(_LEFT, top - 5, svg.fit(panel.lane, 230, 12), font_size=12, font_weight="600"),
        svg.text(WIDTH - _RIGHT, top - 5, f"longest I/O {value('stall', typical.stall)}", text_anchor="end",
                 font_size=12, fill=muted),
        svg.line(_LEFT, bottom, WIDTH - _RIGHT, bottom, stroke=muted),
    ]  # fmt: skip
    for tick in up.ticks(3):
        shown = "0" if tick == 0 else value("iops", tick)
        parts.append(svg.line(_LEFT, up(tick), WIDTH - _RIGHT, up(tick), stroke=colour("grid")))
        parts.append(svg.text(_LEFT - 6, up(tick) + 4, shown, text_anchor="end", font_size=12, fill=muted))
    others = [trace for n, trace in enumerate(panel.traces) if n != panel.typical]
    step = -(-len(others) // _FAINT) or 1
    for trace in others[::step]:
        parts.append(_line(trace, across, up, stroke=paint, stroke_width=1, opacity=0.3))
    parts.append(_line(typical, across, up, stroke=paint, stroke_width=1.8))
    first, last = across(typical.stall_ends_ms - typical.stall / 1e6), across(typical.stall_ends_ms)
    y = bottom + 7
    bar = svg.tag(
        "g",
        svg.tag("title", f"{panel.lane}, block {typical.block}: longest I/O {value('stall', typical.stall)}"),
        svg.line(first, y, max(last, first + 1), y, stroke=INK, stroke_width=3),
        svg.line(first, y - 4, first, y + 4, stroke=INK),
        svg.line(last, y - 4, last, y + 4, stroke=INK),
    )
    return [*parts, bar]


def _line(trace: Trace, across: Scale, up: Scale, **attributes: str | float | None) -> Markup:
    d = "M" + "L".join(f"{svg.num(across(x))} {svg.num(up(y))}" for x, y in trace.points)
    return svg.tag("path", d=d, fill="none", **attributes)


def _axis(across: Scale, bottom: float) -> list[Markup]:
    muted = colour("muted")
    parts = []
    for tick in across.ticks(7):
        x = across(tick)
        parts.append(svg.line(x, bottom + 12, x, bottom + 16, stroke=muted))
        parts.append(svg.text(x, bottom + 28, f"{tick / 1000:g}", text_anchor="middle", font_size=12, fill=muted))
    title = "seconds since the path failed →"
    parts.append(svg.text(WIDTH - _RIGHT, bottom + 41, title, text_anchor="end", font_size=12, fill=muted))
    return parts
