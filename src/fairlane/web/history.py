"""The runs of one study over time: the answer of each, drawn, and what changed from one to another. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fairlane.compare.comparison import Comparison
from fairlane.compare.deltas import percent
from fairlane.records import Verdict, Word
from fairlane.report import svg
from fairlane.report.forest import STYLE
from fairlane.report.phrases import ORDER, SYMBOL, interval, metric_of, reason, share
from fairlane.report.phrases import change as as_change
from fairlane.report.svg import INK, PAPER, Figure, Scale, Table, colour
from fairlane.report.text import DASH, clean, scrub
from fairlane.web import views

MOST = 24
"""Runs in a picture: the newest."""
_WIDE = 400
"""Width of a picture: its text can be read on a phone."""
_ROW, _HEAD, _PLOT, _SIDE, _AXIS = 104, 20, 62, 14, 34
_REACH = 1.5
"""An interval is drawn as far as this factor beyond all estimates: one of two wild blocks can span decades."""


@dataclass(frozen=True)
class Dated:
    """The answer of one run."""

    when: str
    """Text for readers."""
    verdicts: Sequence[Verdict]
    """Those of the primary metrics."""


def figures(runs: Sequence[Dated], label: Mapping[str, str]) -> list[Figure]:
    """A picture for each workload and lane: its ratio to the baseline in every cell, run by run. ``runs``: oldest
    first, ``MOST`` at most; ``label``: lane -> label."""
    groups: dict[tuple[str, str], dict[str, list[Verdict | None]]] = {}
    for n, run in enumerate(runs):
        for v in run.verdicts:
            if v.lane != v.baseline and not v.control:
                row = groups.setdefault((v.workload, v.lane), {}).setdefault(v.cell, [None] * len(runs))
                row[n] = v
    several = len({workload for workload, _ in groups}) > 1
    return [
        _figure(f"over-time-{n}", rows, [run.when for run in runs], label, where=f", {workload}" if several else "")
        for n, ((workload, _), rows) in enumerate(groups.items(), start=1)
    ]


def _figure(
    ident: str, rows: Mapping[str, list[Verdict | None]], dates: Sequence[str], label: Mapping[str, str], *, where: str
) -> Figure:
    first = next(v for row in rows.values() for v in row if v)
    lane, baseline = (clean(label.get(name, name)) for name in (first.lane, first.baseline))
    metric = metric_of(first.metric)
    title = f"{metric.title}: {lane} against {baseline}{where}"
    caption = (
        f"Change of {metric.title} with {lane} instead of {baseline}, in each run, oldest on the left, with its "
        f"interval. Shaded: below the margin of {share(first.margin)}. Every cell has an axis of its own."
    )
    table = Table(("cell", *dates), tuple((clean(cell), *(_entry(v) for v in row)) for cell, row in rows.items()))
    described = "; ".join(f"{clean(cell)}: {_entry(row[-1])}" for cell, row in list(rows.items())[:40])
    parts = [_row(clean(cell), row, _ROW * n) for n, (cell, row) in enumerate(rows.items())]
    bottom = _ROW * len(rows)
    ends = [(_SIDE, dates[0], "start"), (_WIDE - _SIDE, dates[-1], "end")] if len(dates) > 1 else [
        (_WIDE / 2, dates[0], "middle")
    ]  # fmt: skip
    parts += [
        svg.text(x, bottom + 14, text, text_anchor=anchor, font_size=13, fill=colour("muted"))
        for x, text, anchor in ends
    ]
    drawn = svg.picture(ident, bottom + _AXIS - 12, title, described, *parts, width=_WIDE)
    return Figure(ident, title, caption, drawn, table)


def _entry(v: Verdict | None) -> str:
    if v is None:
        return DASH
    return f"{SYMBOL[v.verdict]} {as_change(v.ratio)}" if v.ratio is not None else f"{SYMBOL[v.verdict]} {v.verdict}"


def _row(cell: str, row: Sequence[Verdict | None], top: float) -> Markup:
    newest = next((v for v in reversed(row) if v), None)
    margin = 1 + (newest.margin if newest else 0.0)
    points = [v.ratio for v in row if v and v.ratio and 0 < v.ratio < math.inf]
    ends = [x for v in row if v for x in (v.low, v.high) if x and 0 < x < math.inf]
    low = max(min([1 / margin, *points, *ends]), min([1 / margin, *points]) / _REACH)
    high = min(max([margin, *points, *ends]), max([margin, *points]) * _REACH)
    pad = (high / low) ** 0.06
    head, foot = top + _HEAD + 8, top + _HEAD + 8 + _PLOT
    up = Scale(low / pad, high * pad, foot, head, log=True)
    along = Scale(0, max(1, len(row) - 1), _SIDE + 8, _WIDE - _SIDE - 8)
    last = _entry(row[-1])
    parts = [
        svg.text(0, top + 14, svg.fit(cell, _WIDE - 8.4 * len(last) - 16), font_weight=600),
        svg.text(_WIDE, top + 14, last, text_anchor="end", fill=colour(STYLE[row[-1].verdict][0]) if row[-1] else None),
        svg.tag("rect", x=0, y=up(margin), width=_WIDE, height=up(1 / margin) - up(margin), fill=colour("band")),
        svg.line(0, up(1), _WIDE, up(1), stroke=INK, stroke_width=1),
    ]
    drawn = [(along(n) if len(row) > 1 else _WIDE / 2, v) for n, v in enumerate(row) if v and v.ratio]
    path = "".join(f"{'L' if n else 'M'}{svg.num(x)} {svg.num(up(v.ratio or 1))}" for n, (x, v) in enumerate(drawn))
    if len(drawn) > 1:
        parts.append(svg.tag("path", d=path, fill="none", stroke=colour("muted"), stroke_width=1))
    for x, v in drawn:
        name, shape, filled = STYLE[v.verdict]
        if v.low is not None and v.high is not None:
            parts.append(svg.line(x, up(v.low), x, up(v.high), stroke=colour(name), stroke_width=2))
        fill = colour(name) if filled else PAPER
        parts.append(svg.marker(shape, x, up(v.ratio or 1), 4.5, fill=fill, stroke=colour(name), stroke_width=1.5))
    return svg.tag("g", *parts)


@dataclass(frozen=True)
class Changed:
    """One lane in one cell, before and after."""

    lane: str
    cell: str
    before: str
    after: str
    change: str
    interval: str
    word: Word
    symbol: str


@dataclass(frozen=True)
class Changes:
    """All lanes and cells in one metric."""

    title: str
    rows: tuple[Changed, ...]

    @property
    def differing(self) -> tuple[Changed, ...]:
        return tuple(row for row in self.rows if row.word in _DIFFERS)

    @property
    def count(self) -> str:
        """``slower in 2, tie in 21, inconclusive in 1 of 24 comparisons``"""
        counts = Counter(row.word for row in self.rows)
        words = ", ".join(f"{word} in {counts[word]}" for word in ORDER if counts[word])
        return f"{words} of {len(self.rows)} comparison{'' if len(self.rows) == 1 else 's'}"


_DIFFERS = ("faster", "slower", "different-but-small")


def change(c: Comparison) -> str:
    """HTML of the changes from the baseline of ``c`` to its other run."""
    tables, reasons = [], dict[str, None]()
    for t in c.tables:
        if t.primary:
            rows = []
            for row in t.rows:
                for d in row.deltas:
                    v = d.verdict
                    reasons |= {reason(v): None} if v.verdict == "refused" else {}
                    shown = t.shown(row.baseline), t.shown(d.value), percent(d.ratio), interval(v.low, v.high)
                    rows.append(Changed(row.category, row.cell, *shown, v.verdict, SYMBOL[v.verdict]))
            unit = f" ({t.unit.replace('us', 'µs')})" if t.unit not in ("", "1/s") else ""
            less = ", less is better" if t.metric.better < 0 else ""
            tables.append(Changes(f"{t.metric.title}{unit}{less}", tuple(rows)))
    return views.page("change.html.j2", tables=scrub(tuple(tables)), reasons=scrub(tuple(filter(None, reasons))))
