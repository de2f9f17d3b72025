"""Bars of absolute figures, from an honest zero, with every block drawn on them; and CPU per I/O stacked by place."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from fairlane.report import svg
from fairlane.report.levels import REFUSED, Bar, Bars, Levels, Stack, Stacks
from fairlane.report.phrases import value
from fairlane.report.svg import INK, LANES, WIDTH, Figure, Scale, Table, colour
from fairlane.report.text import DASH

_NAME, _VALUE = 112, 84
_ROW, _HEAD, _GAP = 20, 20, 8
_APART = 12.0
"""Cells whose largest values differ by more than this get an axis each: on a common one the small ones would vanish."""

PAINT = {
    "generator": ("#4aa3dc", ""),
    "initiator": ("#d98a00", "M0 6L6 0M-1 1L1 -1M5 7L7 5"),
    "target": ("#00966b", "M0 3H6"),
    "shared": ("#b9588f", "M3 0V6"),
    "other": ("#8a909c", "M1 1h1M4 4h1"),
}
"""Place -> colour and, so that it is never colour alone, the strokes of a hatch."""


_TICKS = 4


def _zero(top: float) -> Scale:
    """From zero to the first tick at or beyond ``top``."""
    step = svg.ticks(0, top or 1, _TICKS)[1]
    return Scale(0, math.ceil((top or 1) / step - 1e-9) * step, _NAME, WIDTH - _VALUE)


def _axis(scale: Scale, metric: str, y: float) -> list[Markup]:
    """Ticks below the bars; the first is zero."""
    parts = [svg.line(scale.start, y, scale.end, y, stroke=colour("muted"), stroke_width=1)]
    for tick in scale.ticks(_TICKS):
        x = scale(tick)
        parts.append(svg.line(x, y, x, y + 4, stroke=colour("muted"), stroke_width=1))
        shown = "0" if tick == 0 else value(metric, tick)
        parts.append(svg.text(x, y + 17, shown, text_anchor="middle", font_size=12, fill=colour("muted")))
    return parts


def _row(lane: str, shown: str, y: float, full: str, *body: Markup) -> Markup:
    """A row's name on the left, its bar, its figure on the right; the full text for pointer and screen reader."""
    base = y + _ROW / 2 + 4
    return svg.tag(
        "g",
        svg.tag("title", f"{full}: {shown}"),
        svg.text(_NAME - 6, base, svg.fit(lane, _NAME - 8, 12)),
        *body,
        svg.text(WIDTH, base, shown),
        text_anchor="end",
        font_size=12,
    )


def _head(name: str, y: float, rows: int) -> Markup:
    """A cell's name and the zero line of its rows."""
    top = y + _HEAD
    return svg.text(0, y + 13, svg.fit(name, WIDTH), font_weight=600) + svg.line(
        _NAME, top, _NAME, top + _ROW * rows, stroke=INK, stroke_width=1
    )


def bars(levels: Levels, ident: str) -> Figure:
    """One group per cell, one bar per lane; the dots on a bar are its blocks."""
    tops = [_top(cell) for cell in levels.cells]
    widest = max(tops)
    common = widest <= _APART * min((t for t in tops if t > 0), default=widest)
    parts: list[Markup] = []
    y = 4.0
    for cell, top in zip(levels.cells, tops, strict=True):
        scale = _zero(widest if common else top)
        parts.append(_head(cell.cell, y, len(cell.bars)))
        y += _HEAD
        for bar in cell.bars:
            parts.append(
                _row(bar.lane, bar.text, y, f"{cell.cell}, {bar.lane}", *_bar(bar, scale, y, f"{ident}-{svg.num(y)}"))
            )
            y += _ROW
        y += _GAP
    if common:
        parts += _axis(_zero(widest), levels.metric, y)
        y += 24
    name = levels.title if levels.title[1:2].isdigit() else levels.title[:1].upper() + levels.title[1:]
    title = f"{name} by lane ({'more' if levels.better > 0 else 'less'} is better)"
    axes = "One axis for all cells." if common else "Each cell has its own axis from zero: compare lanes, not cells."
    refused = any(b.lane.startswith(REFUSED) for c in levels.cells for b in c.bars)
    caption = f"Bar: {levels.title} over all blocks, from zero. Dots: the single blocks. {axes}"
    caption += f" {REFUSED} is not to be compared: its verdict is refused." if refused else ""
    return Figure(ident, title, caption, svg.picture(ident, y, title, caption, *parts), table(levels))


def table(levels: Levels) -> Table:
    """The data behind the bars."""
    return Table(
        ("cell", "lane", levels.title, "lowest block", "highest block", "blocks"),
        tuple((c.cell, b.lane, b.text, b.lowest, b.highest, str(len(b.points))) for c in levels.cells for b in c.bars),
    )


def _top(cell: Bars) -> float:
    return max([0.0, *(x for b in cell.bars for x in (b.value or 0.0, *b.points))])


def _bar(bar: Bar, scale: Scale, y: float, ident: str) -> list[Markup]:
    parts = []
    if bar.value is not None:
        length = scale(bar.value) - scale.start
        paint = colour(f"lane-{bar.index % LANES}")
        parts.append(svg.tag("rect", x=scale.start, y=y + 2, width=length, height=_ROW - 4, fill=paint))
    if bar.points:  # spread over three heights, so that equal blocks stay countable
        spread = [(scale(p), y + _ROW / 2 + (i % 3 - 1) * 3.5) for i, p in enumerate(bar.points)]
        parts.append(svg.dots(spread, ident))
    return parts


def stacks(data: Stacks, ident: str) -> Figure:
    """One group per cell, one stacked bar per lane, places in the order in which an I/O travels."""
    scale = _zero(max((sum(s.parts) for c in data.cells for s in c.stacks), default=0.0))
    parts: list[Markup] = [_hatches(data.places, ident)]
    x, y = 0.0, 0.0
    for place in data.places:
        parts.append(_swatch(place, ident, x=x, y=y + 2, width=14, height=12))
        parts.append(svg.text(x + 19, y + 12.5, place, font_size=12))
        x += 34 + 7.2 * len(place)
    y += 28
    for cell in data.cells:
        parts.append(_head(cell.cell, y, len(cell.stacks)))
        y += _HEAD
        for stack in cell.stacks:
            pieces = _pieces(stack, data.places, scale, y, ident)
            parts.append(_row(stack.lane, stack.text, y, f"{cell.cell}, {stack.lane}", *pieces))
            y += _ROW
        y += _GAP
    parts += _axis(scale, "cpu_per_io", y)
    title = "CPU per I/O by place (less is better)"
    table = Table(
        ("cell", "lane", *data.places, "total"),
        tuple((c.cell, s.lane, *_shares(s), s.text) for c in data.cells for s in c.stacks),
    )
    return Figure(ident, title, data.note, svg.picture(ident, y + 24, title, data.note, *parts), table)


def _pieces(stack: Stack, places: Sequence[str], scale: Scale, y: float, ident: str) -> list[Markup]:
    pieces, done = [], 0.0
    for place, part in zip(places, stack.parts, strict=True):
        start, end = scale(done), scale(done + part)
        if end - start >= 0.3:
            pieces.append(_swatch(place, ident, x=start, y=y + 2, width=end - start, height=_ROW - 4))
        done += part
    return pieces


def _shares(stack: Stack) -> list[str]:
    """Each place's time and its share of the total: ``18.4 us (32 %)``."""
    total = sum(stack.parts)
    return [f"{value('cpu_per_io', p)} ({p / total:.0%})".replace("%", " %") if total else DASH for p in stack.parts]


def _hatches(places: Sequence[str], ident: str) -> Markup:
    patterns = [
        svg.tag(
            "pattern",
            svg.tag("rect", width=6, height=6, fill=PAINT[place][0]),
            svg.tag("path", d=PAINT[place][1], stroke="#fff", stroke_width=1.2, stroke_opacity=".75"),
            id=f"{ident}-{place}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )
        for place in places
        if PAINT[place][1]
    ]
    return svg.tag("defs", *patterns) if patterns else Markup("")


def _swatch(place: str, ident: str, **box: float) -> Markup:
    return svg.tag("rect", **box, fill=f"url(#{ident}-{place})" if PAINT[place][1] else PAINT[place][0])
