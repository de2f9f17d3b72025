"""Heat map of block size against access pattern: a lane's change against the baseline in every cell. Pure.

One map per lane that is compared; one panel per load (iodepth, numjobs, rate) where the cells differ in it too.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from fairlane.records import Cell, Evidence, Finding, Verdict, Word
from fairlane.report import svg
from fairlane.report.phrases import SYMBOL, change, interval, metric_of, reason, share
from fairlane.report.svg import INK, WIDTH, Figure, Table, colour
from fairlane.report.text import DASH
from fairlane.units import format_size
from fairlane.verdicts.scorecard import SETTLED, SIGN, outcome_of, withheld


@dataclass(frozen=True)
class Tile:
    """One verdict."""

    cell: str
    word: Word
    withheld: bool
    ratio: float | None
    change: str
    interval: str
    reason: str

    @property
    def sure(self) -> bool:
        """Whether the verdict allows a claim; other tiles are hatched."""
        return outcome_of(self.word) in SETTLED and not self.withheld

    @property
    def sign(self) -> str:
        return SIGN["withheld"] if self.withheld else SYMBOL[self.word]


@dataclass(frozen=True)
class Panel:
    """All cells under one load."""

    name: str
    """``qd16 x4``; empty where there is one load."""
    patterns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Tile | None, ...]], ...]
    """(block size, a tile for each pattern); None: no such cell."""


@dataclass(frozen=True)
class HeatView:
    """A lane against the baseline in one workload."""

    workload: str
    lane: str
    """Label."""
    baseline: str
    metric: str
    better: int
    margin: float
    limit: float
    """ln of the change at which the colour is deepest: the lane's own, since one lane's ten times would bleach the
    50 % of another."""
    panels: tuple[Panel, ...]


def views(
    evidence: Evidence,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],  # noqa: ARG001 - all views share one signature
    label: Mapping[str, str],
) -> tuple[HeatView, ...]:
    """By workload and lane, in the study's order; only of workloads with two block sizes and two patterns or more, and
    of lanes that have a figure in any cell."""
    result = []
    for workload in evidence.study.workloads:
        cells = [c for c in evidence.cells() if c.workload == workload and _bs(c) and _pattern(c)]
        if min(len({_bs(c) for c in cells}), len({_pattern(c) for c in cells})) < 2:
            continue
        mine = [v for v in verdicts if v.primary and v.workload == workload and v.lane != v.baseline and not v.control]
        shown = [v for v in mine if v.ratio is not None and v.verdict != "refused"]
        for lane in label:
            if first := next((v for v in shown if v.lane == lane), None):
                panels = tuple(_panels(cells, {v.key: v for v in mine if v.lane == lane}))
                lanes = label[lane], label.get(first.baseline, first.baseline)
                better = metric_of(first.metric).better
                limit = _limit([v for v in shown if v.lane == lane], first.margin)
                result.append(HeatView(workload, *lanes, first.metric, better, first.margin, limit, panels))
    return tuple(result)


def _limit(verdicts: Sequence[Verdict], margin: float) -> float:
    """A round factor that contains every change, at least four margins."""
    changes = [abs(math.log(v.ratio)) for v in verdicts if v.ratio]
    most = max([math.log1p(4 * margin), *changes])
    steps = (1.1, 1.2, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0)
    return next((math.log(s) for s in steps if math.log(s) >= most - 1e-9), most)


def _bs(cell: Cell) -> int:
    bs = cell.params.get("bs")
    return bs if isinstance(bs, int) else 0


def _pattern(cell: Cell) -> str:
    """``randread``, ``randrw 70/30``."""
    rw, mix = cell.params.get("rw"), cell.params.get("rwmixread")
    if not isinstance(rw, str):
        return ""
    return f"{rw} {mix}/{100 - mix}" if isinstance(mix, int) else rw


def _panels(cells: Sequence[Cell], verdicts: Mapping[str, Verdict]) -> Iterable[Panel]:
    """Cells that differ only in block size and pattern share a panel."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        rest = {k: v for k, v in cell.params.items() if k not in ("bs", "rw", "rwmixread")}
        groups.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(cell)
    for group in groups.values():
        patterns = tuple(dict.fromkeys(_pattern(c) for c in group))
        at = {(_bs(c), _pattern(c)): _tile(c, verdicts.get(c.key)) for c in group}
        rows = tuple(
            (format_size(bs), tuple(at.get((bs, pattern)) for pattern in patterns)) for bs in sorted({b for b, _ in at})
        )
        if any(tile for _, tiles in rows for tile in tiles):
            yield Panel(_load(group[0].params) if len(groups) > 1 else "", patterns, rows)


def _load(params: Mapping[str, Any]) -> str:
    parts = [f"iodepth {params['iodepth']}"] if params.get("iodepth") else []
    parts += [f"numjobs {params['numjobs']}"] if params.get("numjobs", 1) != 1 else []
    parts += [f"{params['rate_iops']} IOPS asked for"] if params.get("rate_iops") else []
    return ", ".join(parts)


def _tile(cell: Cell, v: Verdict | None) -> Tile | None:
    if v is None:
        return None
    shown = change(v.ratio) if v.ratio is not None and v.verdict != "refused" else ""
    span = interval(v.low, v.high) if shown else DASH
    return Tile(cell.name, v.verdict, withheld(v), v.ratio if shown else None, shown, span, reason(v))


_NAME, _HEAD, _TITLE, _ROW, _LEGEND, _MOST = 46, 20, 24, 42, 66, 6
DEEPEST = 0.5
"""Opacity of the strongest change: words on it keep a contrast of 4.5 in both schemes."""


def figure(view: HeatView, ident: str) -> Figure:
    """Panels below each other; more than six patterns go on in further rows of tiles."""
    y = 0.0
    parts = [_hatches(ident)]
    for panel in view.panels:
        if panel.name:
            parts.append(svg.text(0, y + 14, svg.fit(panel.name, WIDTH, 12), font_weight=600))
            y += _TITLE
        for start in range(0, len(panel.patterns), _MOST):
            parts += _map(panel, start, y, view, ident)
            y += _HEAD + _ROW * len(panel.rows) + 12
    parts += _legend(view, y + 6)
    metric = metric_of(view.metric)
    title = f"{metric.title} by block size and pattern: {view.lane} against {view.baseline}"
    texts = [(t, f"{t.cell}: {t.change} {t.word}".replace(":  ", ": ")) for t in _tiles(view)]
    hatched = " Hatched: no claim (withheld, inconclusive, refused)." if any(not t.sure for t, _ in texts) else ""
    caption = (
        f"Change of {metric.title} with {view.lane} instead of {view.baseline}, and the verdict's sign. The colour is "
        f"the change on a symmetric logarithmic scale of this lane's own; blue is better.{hatched} "
        f"Margin: {share(view.margin)}."
    )
    described = "; ".join(text for _, text in texts[:40])
    drawn = svg.picture(ident, y + _LEGEND, title, described, *parts)
    return Figure(ident, title, caption, drawn, _table(view))


def _tiles(view: HeatView) -> list[Tile]:
    return [tile for panel in view.panels for _, tiles in panel.rows for tile in tiles if tile]


def _fill(ratio: float, view: HeatView) -> dict[str, str | float]:
    """Paint and opacity of a ratio; opacity rises from 0 with the logarithm."""
    strength = max(-1.0, min(1.0, math.log(ratio) / view.limit)) * view.better
    return {"fill": colour("better" if strength >= 0 else "worse"), "fill_opacity": f"{DEEPEST * abs(strength):.3f}"}


def _map(panel: Panel, start: int, top: float, view: HeatView, ident: str) -> list[Markup]:
    patterns = panel.patterns[start : start + _MOST]
    wide = (WIDTH - _NAME) / max(len(patterns), 2)
    parts = []
    for n, pattern in enumerate(patterns):
        x = _NAME + wide * (n + 0.5)
        parts.append(svg.text(x, top + 13, svg.fit(pattern, wide - 4, 10.5), text_anchor="middle", font_size=12))
    for i, (bs, tiles) in enumerate(panel.rows):
        y = top + _HEAD + _ROW * i
        parts.append(svg.text(_NAME - 6, y + _ROW / 2 + 4, svg.fit(bs, _NAME - 6, 12), text_anchor="end", font_size=12))
        for n, tile in enumerate(tiles[start : start + _MOST]):
            box = {"x": _NAME + wide * n + 1, "y": y + 1, "width": wide - 2, "height": float(_ROW - 2)}
            parts.append(_box(tile, box, view, ident))
    return parts


def _box(tile: Tile | None, box: dict[str, float], view: HeatView, ident: str) -> Markup:
    x, y = box["x"] + box["width"] / 2, box["y"]
    frame = svg.tag("rect", **box, fill="none", stroke=colour("grid"))
    if tile is None:
        return svg.tag("g", frame, svg.text(x, y + 24, DASH, text_anchor="middle", fill=colour("muted")))
    word = "withheld" if tile.withheld else tile.word
    description = ", ".join(
        t for t in (tile.change, word, tile.interval if tile.interval != DASH else "", tile.reason) if t
    )
    parts = [svg.tag("title", f"{tile.cell}: {description}")]
    if tile.ratio is not None and (tile.sure or tile.withheld):
        parts.append(svg.tag("rect", **box, **_fill(tile.ratio, view)))
    parts.append(frame)
    if not tile.sure:
        kind = "refused" if tile.word == "refused" else "unsure"
        parts.append(svg.tag("rect", **box, fill=f"url(#{ident}-{kind})"))
        # words on a hatch stand on a ground of their own
        words = max(len(tile.change), 2) * 7.4 + 6
        width = min(words, box["width"] - 4)
        parts.append(
            svg.tag(
                "rect", x=x - width / 2, y=y + 4, width=width, height=_ROW - 10, rx=3, fill=svg.PAPER, fill_opacity=".8"
            )
        )
    line = y + 17 if tile.change else y + 25
    if tile.change:
        parts.append(svg.text(x, line, tile.change, text_anchor="middle", font_size=13, font_weight=600))
        line += 16
    parts.append(svg.text(x, line, tile.sign, text_anchor="middle", font_size=13))
    return svg.tag("g", *parts)


def _hatches(ident: str) -> Markup:
    strokes: dict[Literal["unsure", "refused"], str] = {
        "unsure": "M0 8L8 0M-2 2L2 -2M6 10L10 6",
        "refused": "M0 8L8 0M-2 2L2 -2M6 10L10 6M0 0L8 8",
    }
    return svg.tag(
        "defs",
        *(
            svg.tag(
                "pattern",
                svg.tag("path", d=d, stroke=colour("unsure"), stroke_width=1, stroke_opacity=".55"),
                id=f"{ident}-{name}",
                width=8,
                height=8,
                patternUnits="userSpaceOnUse",
            )
            for name, d in strokes.items()
        ),
    )


def _legend(view: HeatView, y: float) -> list[Markup]:
    """The scale from worst to best, and the signs that stand in this map."""
    steps, wide = 9, 30.0
    left, limit = _NAME, view.limit
    parts = []
    for n in range(steps):
        at = (n / (steps - 1) * 2 - 1) * limit * view.better
        box = {"x": left + wide * n, "y": y, "width": wide, "height": 14}
        parts.append(svg.tag("rect", **box, **_fill(math.exp(at), view), stroke=colour("grid"), stroke_width=0.5))
    ends = [
        (0, -limit),
        ((steps - 1) / 4, -limit / 2),
        ((steps - 1) / 2, 0.0),
        (3 * (steps - 1) / 4, limit / 2),
        (steps - 1, limit),
    ]
    for place, at in ends:
        shown = change(math.exp(at * view.better), 0)
        parts.append(
            svg.text(
                left + wide * (place + 0.5), y + 28, shown, text_anchor="middle", font_size=12, fill=colour("muted")
            )
        )
    muted: dict[str, str | float | None] = {"font_size": 12, "fill": colour("muted")}
    parts.append(svg.text(left - 6, y + 12, "worse", text_anchor="end", **muted))
    parts.append(svg.text(left + wide * steps + 6, y + 12, "better", **muted))
    signs = [(t.sign, "withheld" if t.withheld else t.word) for t in _tiles(view)]
    x = 0.0
    rows = 0
    for sign, word in dict.fromkeys(signs):
        width = 6.4 * (len(word) + 2) + 14
        if x + width > WIDTH:
            x, rows = 0.0, rows + 1
        parts.append(svg.text(x, y + 48 + 15 * rows, f"{sign} {word}", font_size=12, fill=INK))
        x += width
    return parts


def _table(view: HeatView) -> Table:
    patterns = tuple(dict.fromkeys(p for panel in view.panels for p in panel.patterns))
    rows = []
    for panel in view.panels:
        for bs, tiles in panel.rows:
            at = dict(zip(panel.patterns, tiles, strict=True))
            name = f"{bs}, {panel.name}" if panel.name else bs
            rows.append((name, *(_cell_text(at.get(p)) for p in patterns)))
    return Table(("block size", *patterns), tuple(rows))


def _cell_text(tile: Tile | None) -> str:
    """``▲ +11.8 % (+11.72 % to +11.94 %)``, ``✕ refused``."""
    if tile is None:
        return DASH
    if not tile.change:
        return f"{tile.sign} {tile.word}"
    word = "withheld" if tile.withheld else tile.word
    return f"{tile.sign} {word}, {tile.change}" + (f" ({tile.interval})" if tile.interval != DASH else "")
