"""Lane diagrams: the path of an I/O from the program down to the medium, drawn from the description.

A column per lane, a band per place that the lanes have in common, so that corresponding hops are at one height. Hops
that the baseline does not have get a thick frame and a mark.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fairlane.report import svg
from fairlane.report.lanes import Lane
from fairlane.report.svg import INK, PAPER, WIDTH, Figure, Table, colour
from fairlane.report.text import DASH

BANDS = ("virtual machine", "hypervisor", "network", "storage")
MACHINE = "machine"
"""The first of ``BANDS`` where machines are not made for the study: they may be virtual or not."""

_LINK = re.compile(r"(TCP|RDMA|RoCE|soft-RoCE|Ethernet|FC|Fibre Channel|InfiniBand|link)\b")
_HYPERVISOR = re.compile(r"QEMU|ESXi|VMkernel|virt-launcher")
_MEMBERS = re.compile(r"[\w.:-]+ \+ ")
"""``path0 + path1``: a link of several paths."""

_COLUMNS = 3
_PAD, _GAP, _LINE = 8, 12, 15
_BAND_HEAD = 20
_PIPE = 7.0


@dataclass(frozen=True)
class Hop:
    text: str
    own: bool
    """Whether the baseline lacks this hop."""
    paths: int = 0
    """Number of paths of a link; 0 for other hops."""


_NOTHING = Hop("nothing here", own=True)
"""Placeholder where the baseline has hops and a lane has none."""


def bands(lane: Lane) -> dict[str, tuple[Hop, ...]]:
    """The hops of a lane by place. The first link separates machine and storage; the hypervisor's hops begin where one
    names it and end at the link. Without any link the last hop is the storage."""
    texts = [hop for hop, _ in lane.hops]
    links = [i for i, hop in enumerate(texts) if _LINK.match(hop)]
    first, last = (links[0], links[-1] + 1) if links else (len(texts) - 1, len(texts) - 1)
    below = next((i for i, hop in enumerate(texts[:first]) if _HYPERVISOR.search(hop)), first)
    hops = [
        Hop(hop, own, (1 + len(_MEMBERS.findall(hop))) if i in links else 0) for i, (hop, own) in enumerate(lane.hops)
    ]
    ends = (0, below, first, last, len(hops))
    return {band: tuple(hops[a:b]) for band, a, b in zip(BANDS, ends, ends[1:], strict=False)}


def figures(lanes: Sequence[Lane], ident: str, first: str = BANDS[0]) -> tuple[Figure, ...]:
    """Diagrams of at most three lanes each; the baseline stands first in every one. ``first``: title of the band in
    which the load runs."""
    baseline = [lane for lane in lanes if lane.baseline]
    others = [lane for lane in lanes if not lane.baseline]
    step = _COLUMNS - len(baseline)
    groups = [[*baseline, *others[at : at + step]] for at in range(0, len(others), step)] or [list(lanes)]
    return tuple(
        _figure(group, f"{ident}-{n}", n, len(groups), first) for n, group in enumerate(groups, start=1) if group
    )


def _figure(lanes: Sequence[Lane], ident: str, number: int, of: int, first: str) -> Figure:
    placed = [bands(lane) for lane in lanes]
    titles = {band: first if band == BANDS[0] else band for band in BANDS}
    width = WIDTH / len(lanes)
    parts: list[Markup] = []
    for i, lane in enumerate(lanes):
        x = i * width + width / 2
        parts.append(svg.text(x, 14, svg.fit(lane.label, width - 8), text_anchor="middle", font_weight=600))
        under = f"baseline, {lane.transport}" if lane.baseline else lane.transport
        parts.append(
            svg.text(x, 29, svg.fit(under, width - 8, 12), text_anchor="middle", font_size=12, fill=colour("muted"))
        )
    y = 38.0
    ends: list[float | None] = [None] * len(lanes)
    for band in BANDS:
        columns = [at[band] for at in placed]
        if not any(columns):
            continue
        if any(lane.baseline and hops for lane, hops in zip(lanes, columns, strict=True)):
            columns = [hops or (_NOTHING,) for hops in columns]
        tall = max(_height(hops, width) for hops in columns)
        drawn = [
            _column(hops, i * width, y + _BAND_HEAD, width=width, above=ends[i], tall=tall)
            for i, hops in enumerate(columns)
        ]
        height = _BAND_HEAD + tall + _PAD
        parts.append(
            svg.tag("rect", x=0, y=y, width=WIDTH, height=height, rx=6, fill=colour("band"), fill_opacity=".45")
        )
        parts.append(svg.text(8, y + 14, titles[band], font_size=12, fill=colour("muted")))
        for i, (shapes, bottom) in enumerate(drawn):
            parts += shapes
            if columns[i]:
                ends[i] = bottom
        y += height + _PAD
    counted = f", {number} of {of}" if of > 1 else ""
    title = f"The path of an I/O{counted}"
    source = "as described by the run" if all(lane.described for lane in lanes) else "as the study asks for it"
    caption = f"From the program to the medium, {source}. ≠ and a thick frame: differs from the baseline."
    rows = tuple(
        (lane.label, *(", ".join(f"{hop.text}{' ≠' if hop.own else ''}" for hop in at[band]) or DASH for band in BANDS))
        for lane, at in zip(lanes, placed, strict=True)
    )
    table = Table(("lane", *titles.values()), rows)
    return Figure(ident, title, caption, svg.picture(ident, y, title, caption, *parts), table)


def _height(hops: Sequence[Hop], width: float) -> float:
    """Height of a lane's hops in a band, gaps included."""
    return sum(_tall(hop, width) for hop in hops) + _GAP * max(len(hops) - 1, 0)


def _tall(hop: Hop, width: float) -> float:
    return len(_lines(hop, width)) * _LINE + 9


def _column(
    hops: Sequence[Hop], x: float, y: float, *, width: float, above: float | None, tall: float
) -> tuple[list[Markup], float]:
    """One lane's hops in a band ``tall`` high, from ``y`` down, joined to the hop that ended at ``above``; returns the
    lower edge too. The last of several stands at the bottom, so that the media of all lanes are at one height."""
    parts: list[Markup] = []
    middle, floor = x + width / 2, y + tall
    for i, hop in enumerate(hops):
        lines, height = _lines(hop, width), _tall(hop, width)
        if 0 < i == len(hops) - 1:
            y = floor - height
        if above is not None:
            parts.append(_arrow(middle, above, y))
        parts.append(_box(hop, x + _PAD, y, width - 2 * _PAD, height))
        for n, content in enumerate(lines):
            weight = 600 if hop.own else None
            parts.append(
                svg.text(middle, y + 15 + n * _LINE, content, text_anchor="middle", font_size=12, font_weight=weight)
            )
        above = y + height
        y = above + _GAP
    return parts, y - _GAP if hops else y


def _box(hop: Hop, x: float, y: float, width: float, height: float) -> Markup:
    """A box; of a link, a pipe per path behind it."""
    frame: dict[str, str | float] = {"stroke": INK, "stroke_width": 2.2}
    if not hop.own:
        frame = {"stroke": colour("muted"), "stroke_width": 1}
    elif hop is _NOTHING:
        frame |= {"stroke_dasharray": "5 4"}
    box = svg.tag("rect", x=x, y=y, width=width, height=height, rx=12 if hop.paths else 4, fill=PAPER, **frame)
    ends = Markup("")
    for n in range(hop.paths if hop.paths > 1 else 0):  # each path as a line through the ends of the pipe
        at = x + width * (n + 1) / (hop.paths + 1)
        for begin in (y - _PIPE / 2, y + height - _PIPE / 2):
            ends += svg.line(at, begin, at, begin + _PIPE, stroke=colour("lane-1"), stroke_width=4)
    return svg.tag("g", svg.tag("title", hop.text), box, ends)


def _arrow(x: float, start: float, end: float) -> Markup:
    head = (
        f"M{svg.num(x - 3.5)} {svg.num(end - 6)}L{svg.num(x)} {svg.num(end - 1)}L{svg.num(x + 3.5)} {svg.num(end - 6)}"
    )
    stem = svg.line(x, start, x, end - 1, stroke=colour("muted"), stroke_width=1.3)
    return stem + svg.tag("path", d=head, fill="none", stroke=colour("muted"), stroke_width=1.3)


def _lines(hop: Hop, column: float) -> list[str]:
    """The hop's text in at most four lines that fit a column; the title and the table have all of it."""
    width = column - 2 * _PAD - 12
    content = f"≠ {hop.text}" if hop.own else hop.text
    wide = max(8, int(width / (0.56 * 12)))
    lines = textwrap.wrap(content, wide, break_long_words=True) or [""]
    return [*lines[:3], svg.fit(" ".join(lines[3:]), width, 12)] if len(lines) > 4 else lines
