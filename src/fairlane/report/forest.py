"""Forest plot: the effect of a lane against the baseline in every cell, with interval, margin and verdict word."""

import math

from markupsafe import Markup

from fairlane.records import Word
from fairlane.report import svg
from fairlane.report.phrases import change, share
from fairlane.report.sections import Comparison, Row
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
"""Verdict word -> colour, shape, filled. The shape points to the better side as the word says, whatever the axis."""


def forest(comparison: Comparison, ident: str) -> Figure:
    """One row per cell: name and verdict in words above, interval on a logarithmic ratio axis below."""
    rows = comparison.rows
    scale = _scale(comparison)
    bottom = _TOP + _ROW * len(rows)
    title = f"{comparison.metric}: {comparison.lane} against {comparison.baseline}"
    parts = [*_frame(scale, comparison, bottom)]
    for i, row in enumerate(rows):
        parts.append(_line(row, scale, _TOP + _ROW * i, comparison))
    described = "; ".join(f"{r.cell}: {r.word} {r.interval}" for r in rows[:40])
    caption = (
        f"Change of {comparison.metric} with {comparison.lane} instead of {comparison.baseline}. Mark: estimate; "
        "thin: interval; thick: the tie test's interval; shaded: differences below the margin of "
        f"{share(comparison.margin)}, which do not matter. The axis is logarithmic, and this picture's own."
    )
    table = Table(
        ("cell", "change", "interval", "coverage", "blocks", "verdict"),
        tuple((r.cell, r.change, r.interval, r.coverage, str(r.blocks), r.word) for r in rows),
    )
    return Figure(ident, title, caption, svg.picture(ident, bottom + _AXIS, title, described, *parts), table)


def _scale(comparison: Comparison) -> Scale:
    margin = 1 + comparison.margin
    seen = [x for r in comparison.rows for x in (r.ratio, r.low, r.high) if x is not None and 0 < x < math.inf]
    # An interval of two wild blocks can span decades: the axis stays readable, what leaves it gets an arrow.
    points = [r.ratio for r in comparison.rows if r.ratio is not None and 0 < r.ratio < math.inf]
    reach = 3.0
    low = max(min([1 / margin, *seen]), min([1 / margin, *points]) / reach)
    high = min(max([margin, *seen]), max([margin, *points]) * reach)
    pad = (high / low) ** 0.04
    return Scale(low / pad, high * pad, _SIDE, WIDTH - _SIDE, log=True)


def _frame(scale: Scale, comparison: Comparison, bottom: float) -> list[Markup]:
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
    up, down = ("better", "worse") if comparison.better > 0 else ("worse", "better")
    lane = svg.fit(comparison.lane, 170, 12)
    parts += [
        svg.text(scale.start, bottom + 38, f"← {lane} {down}", font_size=12, fill=colour("muted")),
        svg.text(scale.end, bottom + 38, f"{lane} {up} →", font_size=12, fill=colour("muted"), text_anchor="end"),
    ]
    return parts


def _tick(ratio: float) -> str:
    return "0 %" if abs(ratio - 1) < 1e-9 else change(ratio, 0)


def _line(row: Row, scale: Scale, top: float, comparison: Comparison) -> Markup:
    name, shape, filled = STYLE[row.word]
    paint = colour(name)
    word = f"{row.symbol} " + ", ".join(x for x in (row.word, row.sized, "withheld" if row.withheld else "") if x)
    y = top + 26
    left, right = scale(1 / (1 + comparison.margin)), scale(1 + comparison.margin)
    room = scale.end - scale.start
    seen = f", {row.change} ({row.interval})" if row.low is not None else f": {row.reason}" if row.reason else ""
    parts = [
        svg.tag("title", f"{row.cell}: {row.word}{seen}"),
        svg.text(scale.start, top + 12, svg.fit(row.cell, room - 8.2 * len(word) - 10), font_weight=600),
        svg.text(scale.end, top + 12, word, text_anchor="end", fill=paint),
        svg.tag("rect", x=left, y=y - 8, width=right - left, height=16, fill=colour("band")),
        svg.line(scale.start, y, scale.end, y, stroke=colour("grid"), stroke_width=1),
        svg.line(scale(1), y - 8, scale(1), y + 8, stroke=INK, stroke_width=1),
    ]
    if row.low is not None and row.high is not None:
        dashed = None if filled or row.word == "tie" else "5 3"
        x1, x2 = scale(row.low), scale(row.high)
        parts.append(svg.line(x1, y, x2, y, stroke=paint, stroke_width=2, stroke_dasharray=dashed))
        ends = _end(x1, y, row.low < scale.low, -1) + _end(x2, y, row.high > scale.high, +1)
        parts.append(svg.tag("path", d=ends, fill="none", stroke=paint, stroke_width=2))
    if row.tie_low is not None and row.tie_high is not None:
        x1, x2 = scale(row.tie_low), scale(row.tie_high)
        parts.append(svg.line(x1, y, x2, y, stroke=paint, stroke_width=4.5))
    if row.ratio is not None:
        # The triangle of "faster" points to the side where the lane is better.
        turned = {"right": "left", "left": "right"}.get(shape, shape) if comparison.better < 0 else shape
        fill = paint if filled else PAPER
        parts.append(svg.marker(turned, scale(row.ratio), y, 4.5, fill=fill, stroke=paint, stroke_width=1.5))
    return svg.tag("g", *parts)


def _end(x: float, y: float, beyond: bool, side: int) -> str:
    """Path of a cap where the interval ends, of an arrow head where it leaves the axis."""
    at, top, bottom = svg.num(x), svg.num(y - 5), svg.num(y + 5)
    if not beyond:
        return f"M{at} {top}V{bottom}"
    back = svg.num(x - 6 * side)
    return f"M{back} {top}L{at} {svg.num(y)}L{back} {bottom}"
