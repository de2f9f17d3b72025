"""Bars of absolute figures, from an honest zero, with every block drawn on them; and CPU per I/O stacked by place."""

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from fairlane.report import svg
from fairlane.report.levels import REFUSED, Bar, Bars, Levels, Stack, Stacks
from fairlane.report.phrases import metric_of, value
from fairlane.report.svg import INK, LANES, Figure, Scale, Table, colour
from fairlane.report.text import DASH

ACROSS = 392
"""Width of the view box: 361 pixels on a phone of 390, where ``FONT`` is 12 pixels high."""
FONT = 13.2
_CHARACTER = 0.64 * FONT
_VALUE = 84
_LEAST, _MOST = 72, 160
"""Width of the names' column, which is as wide as the longest name."""
_ROW, _HEAD, _GAP = 20, 20, 8
_APART = 12.0
"""Cells whose largest values differ by more than this get an axis each: on a common one the small ones would vanish."""

PAINT = {
    "generator": ("#4aa3dc", ""),
    "initiator": ("#d98a00", "M0 6L6 0M-1 1L1 -1M5 7L7 5"),
    "target": ("#00966b", "M0 3H6"),
    "shared": ("#b9588f", "M3 0V6"),
    "other": ("#8a909c", "M1 1h1M4 4h1"),
    "submission": ("#4aa3dc", ""),
    "completion": ("#2b7fba", "M0 1.5H6M0 4.5H6"),
    "link": ("#c9a400", "M0 0L6 6M-1 5L1 7M5 -1L7 1"),
    "medium": ("#6a7486", ""),
    "server": ("#4aa3dc", ""),
    "flushes": ("#6a7486", "M0 3H6M3 0V6"),
    "not attributed": ("#8a909c", "M0 0L6 6M6 0L0 6"),
}
"""Place, or part of an I/O's time (``waterfall``) -> colour and, so that it is never colour alone, the strokes of a
hatch."""


_TICKS = 4


def column_of(lanes: Iterable[str]) -> float:
    """Where the bars begin."""
    return min(max([_LEAST, *(len(lane) * _CHARACTER + 8 for lane in lanes)]), _MOST)


def _ticks(top: float, metric: str) -> tuple[float, ...]:
    """Round numbers from zero to ``top`` in the unit in which the metric is printed: MiB/s are no powers of ten."""
    unit = 2.0**20 if metric_of(metric).unit == "B/s" else 1.0
    return tuple(tick * unit for tick in svg.ticks(0, top / unit, _TICKS))


def zero(top: float, start: float, metric: str) -> Scale:
    """From zero at ``start`` to the first tick at or beyond ``top``."""
    step = _ticks(top or 1, metric)[1]
    return Scale(0, math.ceil((top or 1) / step - 1e-9) * step, start, ACROSS - _VALUE)


def axis(scale: Scale, metric: str, y: float) -> list[Markup]:
    """Ticks below the bars; the first is zero."""
    parts = [svg.line(scale.start, y, scale.end, y, stroke=colour("muted"), stroke_width=1)]
    free = 0.0
    for tick in _ticks(scale.high, metric):
        x = scale(tick)
        parts.append(svg.line(x, y, x, y + 4, stroke=colour("muted"), stroke_width=1))
        shown = "0" if tick == 0 else value(metric, tick)
        half = _CHARACTER * len(shown) / 2
        if x - half >= free and x + half <= ACROSS:
            parts.append(svg.text(x, y + 17, shown, text_anchor="middle", font_size=FONT, fill=colour("muted")))
            free = x + half + 4
    return parts


def _own_axis(scale: Scale, metric: str, name: str, y: float, rows: int) -> list[Markup]:
    """The axis of one cell: its end, and the tick before where the cell's ``name`` leaves room, beside that name."""
    *_, before, last = _ticks(scale.high, metric)
    parts: list[Markup] = []
    free = ACROSS + 1.0
    for tick in (last, before):
        x, shown = scale(tick), value(metric, tick)
        half = _CHARACTER * len(shown) / 2
        if tick > 0 and x + half < free and x - half > 1.1 * _CHARACTER * len(name) + 8:
            top = y + _HEAD - 4
            parts.append(svg.line(x, top, x, top + 4 + _ROW * rows, stroke=colour("grid"), stroke_width=1))
            parts.append(svg.text(x, y + 13, shown, text_anchor="middle", font_size=FONT, fill=colour("muted")))
            free = x - half - 8
    return parts


def row(lane: str, shown: str, y: float, full: str, start: float, *body: Markup) -> Markup:
    """A row's name on the left, its bar, its figure on the right; the full text for pointer and screen reader."""
    base = y + _ROW / 2 + 4
    return svg.tag(
        "g",
        svg.tag("title", f"{full}: {shown}"),
        svg.text(start - 6, base, svg.fit(lane, start - 8, FONT)),
        *body,
        svg.text(ACROSS, base, shown),
        text_anchor="end",
        font_size=FONT,
    )


def head(name: str, y: float, rows: int, start: float, room: float = ACROSS) -> Markup:
    """A cell's name and the zero line of its rows."""
    top = y + _HEAD
    return svg.text(0, y + 13, svg.fit(name, room, FONT), font_weight=600, font_size=FONT) + svg.line(
        start, top, start, top + _ROW * rows, stroke=INK, stroke_width=1
    )


def bars(levels: Levels, ident: str) -> Figure:
    """One group per cell, one bar per lane; the dots on a bar are its blocks."""
    tops = [_top(cell) for cell in levels.cells]
    widest = max(tops)
    common = widest <= _APART * min((t for t in tops if t > 0), default=widest)
    parts: list[Markup] = []
    y, start = 4.0, column_of(b.lane for c in levels.cells for b in c.bars)
    for cell, top in zip(levels.cells, tops, strict=True):
        scale = zero(widest if common else top, start, levels.metric)
        if not common:
            parts += _own_axis(scale, levels.metric, cell.cell, y, len(cell.bars))
        parts.append(head(cell.cell, y, len(cell.bars), start, ACROSS if common else scale.end - 50))
        y += _HEAD
        for bar in cell.bars:
            body = _bar(bar, scale, y, f"{ident}-{svg.num(y)}")
            parts.append(row(bar.lane, bar.text, y, f"{cell.cell}, {bar.lane}", start, *body))
            y += _ROW
        y += _GAP
    if common:
        parts += axis(zero(widest, start, levels.metric), levels.metric, y)
        y += 24
    name = levels.title if levels.title[1:2].isdigit() else levels.title[:1].upper() + levels.title[1:]
    title = f"{name} by lane ({'more' if levels.better > 0 else 'less'} is better)"
    axes = "One axis for all cells." if common else "Each cell has its own axis from zero: compare lanes, not cells."
    refused = any(b.lane.startswith(REFUSED) for c in levels.cells for b in c.bars)
    caption = f"Bar: {levels.title} over all blocks, from zero. Dots: the single blocks. {axes}"
    caption += f" {REFUSED} is not comparable: its verdict is refused." if refused else ""
    return Figure(ident, title, caption, svg.picture(ident, y, title, caption, *parts, width=ACROSS), table(levels))


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
    start = column_of(s.lane for c in data.cells for s in c.stacks)
    scale = zero(max((sum(s.parts) for c in data.cells for s in c.stacks), default=0.0), start, "cpu_per_io")
    parts, y = legend(data.places, ident)
    for cell in data.cells:
        parts.append(head(cell.cell, y, len(cell.stacks), start))
        y += _HEAD
        for stack in cell.stacks:
            pieces = _pieces(stack, data.places, scale, y, ident)
            parts.append(row(stack.lane, stack.text, y, f"{cell.cell}, {stack.lane}", start, *pieces))
            y += _ROW
        y += _GAP
    parts += axis(scale, "cpu_per_io", y)
    title = "CPU per I/O by place (less is better)"
    table = Table(
        ("cell", "lane", *data.places, "total"),
        tuple((c.cell, s.lane, *_shares(s), s.text) for c in data.cells for s in c.stacks),
    )
    return Figure(ident, title, data.note, svg.picture(ident, y + 24, title, data.note, *parts, width=ACROSS), table)


def legend(places: Sequence[str], ident: str) -> tuple[list[Markup], float]:
    """Hatches, swatches and names of ``places`` in as many lines as they need, and where the bars may begin."""
    parts: list[Markup] = [hatches(places, ident)]
    x, y = 0.0, 0.0
    for place in places:
        wide = 36 + 0.9 * _CHARACTER * len(place)
        if x + wide - 15 > ACROSS:
            x, y = 0.0, y + _LEGEND
        parts.append(swatch(place, ident, x=x, y=y + 2, width=14, height=12))
        parts.append(svg.text(x + 19, y + 12.5, place, font_size=FONT))
        x += wide
    return parts, y + _LEGEND + 8


_LEGEND = 20
"""Height of a line of the legend."""


def _pieces(stack: Stack, places: Sequence[str], scale: Scale, y: float, ident: str) -> list[Markup]:
    pieces, done = [], 0.0
    for place, part in zip(places, stack.parts, strict=True):
        start, end = scale(done), scale(done + part)
        if end - start >= 0.3:
            pieces.append(swatch(place, ident, x=start, y=y + 2, width=end - start, height=_ROW - 4))
        done += part
    return pieces


def _shares(stack: Stack) -> list[str]:
    """Each place's time and its share of the total: ``18.4 µs (32 %)``."""
    total = sum(stack.parts)
    return [f"{value('cpu_per_io', p)} ({p / total:.0%})".replace("%", " %") if total else DASH for p in stack.parts]


def _id(place: str) -> str:
    return place.replace(" ", "-")


def hatches(places: Sequence[str], ident: str) -> Markup:
    patterns = [
        svg.tag(
            "pattern",
            svg.tag("rect", width=6, height=6, fill=PAINT[place][0]),
            svg.tag("path", d=PAINT[place][1], stroke="#fff", stroke_width=1.2, stroke_opacity=".75"),
            id=f"{ident}-{_id(place)}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
        )
        for place in places
        if PAINT[place][1]
    ]
    return svg.tag("defs", *patterns) if patterns else Markup("")


def swatch(place: str, ident: str, **box: float) -> Markup:
    return svg.tag("rect", **box, fill=f"url(#{ident}-{_id(place)})" if PAINT[place][1] else PAINT[place][0])
