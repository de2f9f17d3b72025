"""Forest plot: the effect of a lane against the baseline in every cell, with interval, margin and verdict word. Pure.

The report draws its verdicts, the live page the intervals so far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fairlane.records import Word
from fairlane.report import svg
from fairlane.report.phrases import SYMBOL, change, share
from fairlane.report.sections import Comparison
from fairlane.report.svg import INK, PAPER, WIDTH, Figure, Scale, Table, colour

_TOP, _ROW, _AXIS, _SIDE = 4, 42, 46, 4

STYLE: dict[Word, tuple[str, str, bool]] = {
    "faster": ("better", "right", True),
    "slower": ("worse", "left", True),
    "different-but-small": ("even", "diamond", True),
    "tie": ("even", "diamond", False),
    "inconclusive": ("unsure", "circle", False),
    "no-spread": ("unsure", "square", False),
    "refused": ("unsure", "cross", False),
}
"""Verdict word -> colour, shape, filled. The shape points to the better side, whatever the axis."""


@dataclass(frozen=True)
class Mark:
    """One row: a cell."""

    cell: str
    word: Word
    text: str
    """Text at the right end: ``faster, 13.5 %``."""
    hover: str
    ratio: float | None
    """The estimate and the ends of its interval; None: missing."""
    low: float | None
    high: float | None
    tie_low: float | None = None
    """The tie test's narrower interval."""
    tie_high: float | None = None


@dataclass(frozen=True)
class Axis:
    """Properties common to all rows."""

    lane: str
    """Label."""
    better: int
    margin: float


def forest(comparison: Comparison, ident: str) -> Figure:
    """One row per cell: name and verdict in words above, interval on a logarithmic ratio axis below."""
    marks = []
    for r in comparison.rows:
        text = ", ".join(x for x in (r.word, r.sized, "withheld" if r.withheld else "") if x)
        interval_text = f", {r.change} ({r.interval})" if r.low is not None else f": {r.reason}" if r.reason else ""
        hover = f"{r.cell}: {r.word}{interval_text}"
        marks.append(Mark(r.cell, r.word, text, hover, r.ratio, r.low, r.high, r.tie_low, r.tie_high))
    title = f"{comparison.metric}: {comparison.lane} against {comparison.baseline}"
    described = "; ".join(f"{r.cell}: {r.word} {r.interval}" for r in comparison.rows[:40])
    caption = (
        f"Change of {comparison.metric} with {comparison.lane} instead of {comparison.baseline}. Mark: estimate; "
        "thin: interval; thick: the tie test's interval; shaded: differences below the margin of "
        f"{share(comparison.margin)}. Log scale; axes differ between charts."
    )
    table = Table(
        ("cell", "change", "interval", "coverage", "blocks", "verdict"),
        tuple((r.cell, r.change, r.interval, r.coverage, str(r.blocks), r.word) for r in comparison.rows),
    )
    axis = Axis(comparison.lane, comparison.better, comparison.margin)
    return Figure(ident, title, caption, draw(ident, title, described, axis, marks), table)


def draw(ident: str, title: str, described: str, axis: Axis, marks: Sequence[Mark]) -> Markup:
    """The picture alone."""
    scale = _scale(axis, marks)
    bottom = _TOP + _ROW * len(marks)
    rows = (_row(mark, scale, _TOP + _ROW * n, axis) for n, mark in enumerate(marks))
    return svg.picture(ident, bottom + _AXIS, title, described, *_frame(scale, axis, bottom), *rows)


def _scale(axis: Axis, marks: Sequence[Mark]) -> Scale:
    margin = 1 + axis.margin
    values = [x for m in marks for x in (m.ratio, m.low, m.high) if x is not None and 0 < x < math.inf]
    # An interval of two wild blocks can span decades: the axis stays readable, what leaves it gets an arrow.
    points = [m.ratio for m in marks if m.ratio is not None and 0 < m.ratio < math.inf]
    reach = 3.0
    low = max(min([1 / margin, *values]), min([1 / margin, *points]) / reach)
    high = min(max([margin, *values]), max([margin, *points]) * reach)
    pad = (high / low) ** 0.04
    return Scale(low / pad, high * pad, _SIDE, WIDTH - _SIDE, log=True)


def _frame(scale: Scale, axis: Axis, bottom: float) -> list[Markup]:
    parts = [
        svg.line(scale.start, bottom, scale.end, bottom, stroke=colour("muted"), stroke_width=1),
    ]
    last = -math.inf
    for tick in scale.ticks(8):
        x = scale(tick)
        parts.append(svg.line(x, bottom, x, bottom + 5, stroke=colour("muted"), stroke_width=1))
        label = _tick(tick)
        half = 3.8 * len(label) + 2  # 12 px type, and a gap
        at = min(max(x, scale.start + half - 4), scale.end - half)
        if at - half >= last:
            parts.append(svg.text(at, bottom + 18, label, text_anchor="middle", font_size=12))
            last = at + half
    up, down = ("better", "worse") if axis.better > 0 else ("worse", "better")
    lane = svg.fit(axis.lane, 170, 12)
    parts += [
        svg.text(scale.start, bottom + 38, f"← {lane} {down}", font_size=12, fill=colour("muted")),
        svg.text(scale.end, bottom + 38, f"{lane} {up} →", font_size=12, fill=colour("muted"), text_anchor="end"),
    ]
    return parts


def _tick(ratio: float) -> str:
    return "0 %" if abs(ratio - 1) < 1e-9 else change(ratio, 0)


def _row(mark: Mark, scale: Scale, top: float, axis: Axis) -> Markup:
    name, shape, filled = STYLE[mark.word]
    paint = colour(name)
    words = f"{SYMBOL[mark.word]} {mark.text}"
    y = top + 26
    left, right = scale(1 / (1 + axis.margin)), scale(1 + axis.margin)
    room = scale.end - scale.start
    parts = [
        svg.tag("title", mark.hover),
        svg.text(scale.start, top + 12, svg.fit(mark.cell, room - 8.2 * len(words) - 10), font_weight=600),
        svg.text(scale.end, top + 12, words, text_anchor="end", fill=paint),
        svg.tag("rect", x=left, y=y - 8, width=right - left, height=16, fill=colour("band")),
        svg.line(scale.start, y, scale.end, y, stroke=colour("grid"), stroke_width=1),
        svg.line(scale(1), y - 8, scale(1), y + 8, stroke=INK, stroke_width=1),
    ]
    if mark.low is not None and mark.high is not None:
        dashed = None if filled or mark.word == "tie" else "5 3"
        x1, x2 = scale(mark.low), scale(mark.high)
        parts.append(svg.line(x1, y, x2, y, stroke=paint, stroke_width=2, stroke_dasharray=dashed))
        ends = _end(x1, y, mark.low < scale.low, -1) + _end(x2, y, mark.high > scale.high, +1)
        parts.append(svg.tag("path", d=ends, fill="none", stroke=paint, stroke_width=2))
    if mark.tie_low is not None and mark.tie_high is not None:
        x1, x2 = scale(mark.tie_low), scale(mark.tie_high)
        parts.append(svg.line(x1, y, x2, y, stroke=paint, stroke_width=4.5))
    if mark.ratio is not None:
        turned = pointing(shape, axis.better)
        fill = paint if filled else PAPER
        parts.append(svg.marker(turned, scale(mark.ratio), y, 4.5, fill=fill, stroke=paint, stroke_width=1.5))
    return svg.tag("g", *parts)


def pointing(shape: str, better: int) -> str:
    """The triangle of "faster" points to the side where the lane is better."""
    return {"right": "left", "left": "right"}.get(shape, shape) if better < 0 else shape


def _end(x: float, y: float, beyond: bool, side: int) -> str:
    """Path of a cap where the interval ends, of an arrow head where it leaves the axis."""
    at, top, bottom = svg.num(x), svg.num(y - 5), svg.num(y + 5)
    if not beyond:
        return f"M{at} {top}V{bottom}"
    back = svg.num(x - 6 * side)
    return f"M{back} {top}L{at} {svg.num(y)}L{back} {bottom}"
