"""Write inline SVG: escaped text, scales with round ticks, colours for dark mode and colour blindness.

A figure is a function from a part of the model to a ``Figure``. It draws in a view box ``WIDTH`` wide, which is
readable from a phone (scaled to 0.9) to a printed page, and takes its colours from the page's CSS variables.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from markupsafe import Markup, escape

from fairlane.report.text import shorten

WIDTH = 480
INK = "currentColor"
PAPER = "var(--paper)"
LANES = 7
"""Colours for lanes; with more lanes they repeat, so colour is never a lane's only mark."""


def colour(name: str) -> str:
    """A colour variable of the page's style sheet (light, dark, print); ``single`` puts in plain values."""
    return f"var(--{name})"


@dataclass(frozen=True)
class Table:
    """Data behind a figure: text only, the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture with title, caption and table for readers who cannot see it."""

    id: str
    title: str
    caption: str
    svg: Markup
    table: Table = field(default_factory=lambda: Table((), ()))


def num(value: float) -> str:
    """A coordinate with at most one decimal."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def tag(name: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """One element. Children that are not Markup are escaped, ``stroke_width`` is ``stroke-width``, None is left out."""
    # names are literals of this package; a page has ten thousand elements, so each is put together at once
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{num(v) if isinstance(v, int | float) else escape(v)}"'
        for key, v in attributes.items()
        if v is not None
    )
    if not children:
        return Markup(f"<{name}{pairs}/>")  # noqa: S704
    return Markup(f"<{name}{pairs}>{''.join(escape(c) for c in children)}</{name}>")  # noqa: S704


def picture(ident: str, height: float, title: str, description: str, *children: Markup, width: float = WIDTH) -> Markup:
    """The ``<svg>`` around a figure, with the title and description that a screen reader speaks."""
    return tag(
        "svg",
        tag("title", title, id=f"{ident}-t"),
        tag("desc", description, id=f"{ident}-d"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {num(width)} {num(height)}",
        role="img",
        aria_labelledby=f"{ident}-t",
        aria_describedby=f"{ident}-d",
        font_family="system-ui, sans-serif",
        font_size=13,
        fill=INK,
    )


def text(x: float, y: float, content: str, **attributes: str | float | None) -> Markup:
    """Text with its baseline at y."""
    return tag("text", content, x=x, y=y, **attributes)


def fit(content: str, width: float, size: float = 13) -> str:
    """``content`` shortened to about ``width`` units at font size ``size`` (0.64 em a character: wide fonts)."""
    return shorten(content, max(1, int(width / (0.64 * size))))


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float | None) -> Markup:
    return tag("path", d=f"M{num(x1)} {num(y1)}L{num(x2)} {num(y2)}", fill="none", **attributes)


def dots(points: Sequence[tuple[float, float]], ident: str) -> Markup:
    """Many round points, each with a rim in the paper's colour: one path of zero-length strokes, used twice.

    A hundred cells have ten thousand blocks: coordinates are relative, and written once.
    """
    d, last = "", (0.0, 0.0)
    for point in points:
        here = (round(point[0], 1), round(point[1], 1))
        d += f"m{num(here[0] - last[0])} {num(here[1] - last[1])}h0"
        last = here
    path = tag("path", id=ident, d=d) + tag("use", href=f"#{ident}", stroke=INK, stroke_width=2.8)
    return tag("g", path, fill="none", stroke=PAPER, stroke_width=4.4, stroke_linecap="round")


def marker(shape: str, x: float, y: float, size: float, **attributes: str | float | None) -> Markup:
    """A shape of half-width ``size``: right, left, diamond, square, circle, cross."""
    return tag("path", d=outline(shape, x, y, size), **attributes)


def outline(shape: str, x: float, y: float, size: float) -> str:
    """The path of a marker."""
    s, west, east, north, south = num(size), num(x - size), num(x + size), num(y - size), num(y + size)
    double = num(2 * size)
    return {
        "right": f"M{west} {north}L{east} {num(y)}L{west} {south}Z",
        "left": f"M{east} {north}L{west} {num(y)}L{east} {south}Z",
        "diamond": f"M{west} {num(y)}L{num(x)} {north}L{east} {num(y)}L{num(x)} {south}Z",
        "square": f"M{west} {north}H{east}V{south}H{west}Z",
        "circle": f"M{west} {num(y)}a{s} {s} 0 1 0 {double} 0a{s} {s} 0 1 0 -{double} 0Z",
        "cross": f"M{west} {north}L{east} {south}M{east} {north}L{west} {south}",
    }[shape]


def _round_step(span: float, count: int) -> float:
    """The step of 1, 2 or 5 times a power of ten that cuts ``span`` into at most ``count`` parts."""
    raw = span / max(count, 1)
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))


def ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Round numbers within [low, high], about ``count`` of them; 0 is exactly 0."""
    if not high > low:
        return (low,)
    step = _round_step(high - low, count)
    first = math.ceil(low / step - 1e-9)
    values = (round((first + i) * step, 12) for i in range(2 * count + 10))
    return tuple(takewhile(lambda v: v <= high + step * 1e-9, values))


def ratio_ticks(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Ratios for a log axis: round percentages on a short axis, then doublings, then 1-2-5 or whole decades."""
    if high / low < 2.5:
        return tuple(1 + t for t in ticks(low - 1, high - 1, count))
    decades = [10.0**k for k in range(-12, 13)]
    chosen: tuple[float, ...] = ()
    for candidates in ([2.0**k for k in range(-40, 41)], [m * d for d in decades for m in (1, 2, 5)], decades):
        chosen = tuple(c for c in candidates if low <= c <= high)
        if len(chosen) <= count + 2:
            break
    return chosen


@dataclass(frozen=True)
class Scale:
    """Values [low, high] to coordinates [start, end], linear or logarithmic; values outside land on the edge."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        f = math.log if self.log else float
        value = min(max(value, self.low), self.high)
        span = f(self.high) - f(self.low)
        share = (f(value) - f(self.low)) / span if span else 0.0
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> tuple[float, ...]:
        return ratio_ticks(self.low, self.high, count) if self.log else ticks(self.low, self.high, count)
