"""The intervals of a running study as a small forest plot: a row per cell, drawn like the report's."""

import math

from markupsafe import Markup

from fairlane.records import Word
from fairlane.report import svg
from fairlane.report.forest import STYLE
from fairlane.report.phrases import SYMBOL, change, share
from fairlane.report.svg import INK, PAPER, WIDTH, Figure, Scale, Table, colour
from fairlane.web.updates import Contest, Now, Row

_TOP, _ROW, _AXIS, _SIDE = 4, 38, 44, 4
_LIKE: dict[Now, Word] = {
    "better": "faster", "worse": "slower", "small": "tie", "open": "inconclusive", "early": "no-spread",
    "refused": "refused",
}  # fmt: skip
"""Whose colour and shape of the report's forest a word takes."""
SIGN: dict[Now, str] = {now: SYMBOL[word] for now, word in _LIKE.items()}


def forest(contest: Contest, ident: str) -> Figure:
    """Cell and word above, interval below, on a logarithmic axis of ratios that spans what is known and the margin."""
    scale = _scale(contest)
    bottom = _TOP + _ROW * len(contest.rows)
    parts = [_axis(scale, contest, bottom)]
    parts += [_line(row, scale, _TOP + _ROW * n, contest) for n, row in enumerate(contest.rows)]
    described = "; ".join(f"{row.cell}: {row.interval}, {row.says}" for row in contest.rows[:40])
    caption = (
        f"Interval of the change of {contest.metric} with {contest.lane} instead of {contest.baseline}, as of now. "
        f"Shaded: differences below the margin of {share(contest.margin)}, which do not matter."
    )
    picture = svg.picture(ident, bottom + _AXIS, contest.title, described, *parts)
    table = Table(("cell", "interval so far", "blocks", "now"), ())
    return Figure(ident, contest.title, caption, picture, table)


def _scale(contest: Contest) -> Scale:
    edge = 1 + contest.margin
    ends = [x for row in contest.rows for x in (row.low, row.high) if x is not None]
    middle = [math.sqrt(row.low * row.high) for row in contest.rows if row.low and row.high]
    reach = 3.0  # an early interval spans decades: the axis stays readable, what leaves it gets an arrow
    low = max(min([1 / edge, *ends]), min([1 / edge, *middle]) / reach)
    high = min(max([edge, *ends]), max([edge, *middle]) * reach)
    pad = (high / low) ** 0.06
    return Scale(low / pad, high * pad, _SIDE, WIDTH - _SIDE, log=True)


def _axis(scale: Scale, contest: Contest, bottom: float) -> Markup:
    parts = [svg.line(scale.start, bottom, scale.end, bottom, stroke=colour("muted"), stroke_width=1)]
    last = -math.inf
    for tick in scale.ticks(7):
        x, label = scale(tick), "0 %" if abs(tick - 1) < 1e-9 else change(tick, 0)
        half = 3.8 * len(label) + 2
        at = min(max(x, scale.start + half - 4), scale.end - half)
        parts.append(svg.line(x, bottom, x, bottom + 5, stroke=colour("muted"), stroke_width=1))
        if at - half >= last:
            parts.append(svg.text(at, bottom + 18, label, text_anchor="middle", font_size=12))
            last = at + half
    down, up = ("worse", "better") if contest.better > 0 else ("better", "worse")
    lane = svg.fit(contest.lane, 170, 12)
    parts += [
        svg.text(scale.start, bottom + 36, f"← {lane} {down}", font_size=12, fill=colour("muted")),
        svg.text(scale.end, bottom + 36, f"{lane} {up} →", font_size=12, fill=colour("muted"), text_anchor="end"),
    ]
    return svg.tag("g", *parts)


def _line(row: Row, scale: Scale, top: float, contest: Contest) -> Markup:
    name, shape, filled = STYLE[_LIKE[row.now]]
    paint, y = colour(name), top + 24
    words = f"{SIGN[row.now]} {row.says}"
    left, right = scale(1 / (1 + contest.margin)), scale(1 + contest.margin)
    parts = [
        svg.tag("title", f"{row.cell}: {row.interval}, {row.says}"),
        svg.text(scale.start, top + 12, svg.fit(row.cell, scale.end - scale.start - 8.2 * len(words) - 10),
                 font_weight=600),
        svg.text(scale.end, top + 12, words, text_anchor="end", fill=paint),
        svg.tag("rect", x=left, y=y - 7, width=right - left, height=14, fill=colour("band")),
        svg.line(scale.start, y, scale.end, y, stroke=colour("grid"), stroke_width=1),
        svg.line(scale(1), y - 7, scale(1), y + 7, stroke=INK, stroke_width=1),
    ]  # fmt: skip
    if row.low is not None and row.high is not None:
        x1, x2 = scale(row.low), scale(row.high)
        dashed = "5 3" if row.now == "open" else None
        parts.append(svg.line(x1, y, x2, y, stroke=paint, stroke_width=2.5, stroke_dasharray=dashed))
        ends = _end(x1, y, row.low < scale.low, -1) + _end(x2, y, row.high > scale.high, +1)
        parts.append(svg.tag("path", d=ends, fill="none", stroke=paint, stroke_width=2))
        turned = {"right": "left", "left": "right"}.get(shape, shape) if contest.better < 0 else shape
        middle = scale(math.sqrt(row.low * row.high))
        parts.append(
            svg.marker(turned, middle, y, 4.5, fill=paint if filled else PAPER, stroke=paint, stroke_width=1.5)
        )
    return svg.tag("g", *parts)


def _end(x: float, y: float, beyond: bool, side: int) -> str:
    """Path of a cap where the interval ends, of an arrow head where it leaves the axis."""
    at, top, bottom, back = svg.num(x), svg.num(y - 5), svg.num(y + 5), svg.num(x - 6 * side)
    return f"M{back} {top}L{at} {svg.num(y)}L{back} {bottom}" if beyond else f"M{at} {top}V{bottom}"
