"""Shared parts of line figures: a lane's colour, shape and dash; ticks, grid lines, places for names."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from fairlane.report import svg
from fairlane.report.svg import INK, LANES, WIDTH, Scale, colour

SHAPES = ("circle", "square", "diamond", "right", "left")
DASHES = (None, "7 3", "2 3", "10 3 2 3", "5 2", "14 4", "1 4")


def lane_order(study: Any) -> list[str]:
    """The baseline, then the other lanes in the study's order: a lane's place decides its colour, shape and dash."""
    return [study.baseline, *(lane for lane in study.lanes if lane != study.baseline)]


def paint(index: int) -> str:
    return colour(f"lane-{index % LANES}")


def mark(index: int, x: float, y: float, size: float = 4) -> Markup:
    """A lane's own shape in its colour."""
    return svg.marker(SHAPES[index % len(SHAPES)], x, y, size, fill=paint(index), stroke=INK, stroke_width=0.8)


def drawn(index: int, d: str) -> Markup:
    """The path ``d`` in a lane's colour and dash."""
    dash = DASHES[index % len(DASHES)]
    return svg.tag("path", d=d, fill="none", stroke=paint(index), stroke_width=2, stroke_dasharray=dash)


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near ``wanted``, in the same order, at least ``gap`` apart and within [low, high] as far as they fit."""
    if not wanted:
        return []
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    rising = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    places: list[float] = []
    for i in rising:
        places.append(max(min(max(wanted[i], low), high), places[-1] + gap if places else low))
    for k in range(len(places) - 1, -1, -1):
        places[k] = min(places[k], places[k + 1] - gap if k + 1 < len(places) else high)
    by_index = dict(zip(rising, places, strict=True))
    return [by_index[i] for i in range(len(wanted))]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade, powers of ten where those would crowd, evenly spaced round numbers on a short axis."""
    decades = [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    fine = [m * d for d in decades for m in (1, 2, 5) if low <= m * d <= high]
    if len(fine) < 3:
        return [t for t in svg.ticks(low, high, 4) if t > 0]
    return fine if len(fine) <= 7 else [d for d in decades if low <= d <= high]


def level(x: float, end: float, y: float, shown: str) -> Markup:
    """A grid line from ``x`` to ``end`` with its figure to the left."""
    label = svg.text(x - 6, y + 4, shown, text_anchor="end", font_size=12, fill=colour("muted"))
    return svg.line(x, y, end, y, stroke=colour("grid")) + label


def axis(across: Scale, y: float, ticks: Iterable[tuple[float, str]], title: str) -> list[Markup]:
    """The line at ``y`` with ``ticks`` (value, text) below it, those left out whose text has no room, and its name."""
    muted, last = colour("muted"), -math.inf
    parts = [svg.line(across.start, y, across.end, y, stroke=muted)]
    for tick, shown in ticks:
        x = across(tick)
        half = 3.8 * len(shown) + 3
        at = min(max(x, half), WIDTH - half + 3)
        parts.append(svg.line(x, y, x, y + 5, stroke=muted))
        if at - half >= last:
            parts.append(svg.text(at, y + 18, shown, text_anchor="middle", font_size=12, fill=muted))
            last = at + half
    parts.append(svg.text(across.end, y + 34, f"{title} →", text_anchor="end", font_size=12, fill=muted))
    return parts


def named(index: int, lane: str, x: float, y: float, room: float) -> Markup:
    """A lane's shape and name."""
    return mark(index, x + 5, y - 4) + svg.text(x + 15, y, svg.fit(lane, room - 15, 12), font_size=12)


def path(points: Sequence[tuple[float, float]], across: Scale, up: Scale, **attributes: str | float) -> Markup:
    d = "M" + "L".join(f"{svg.num(across(x))} {svg.num(up(y))}" for x, y in points)
    return svg.tag("path", d=d, fill="none", **attributes)
