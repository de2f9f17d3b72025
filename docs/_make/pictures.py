"""Draws the pictures of ``docs/statistics-in-pictures.md`` from simulated trials and Fairlane's own statistics.

``tables.py`` writes them into ``docs/pictures``, and checks that they are those that the code draws.

Every interval, word and percentile is computed by ``fairlane.stats``; the trials are invented, with fixed seeds, so
that the same bytes come out. The pictures have their own paper and follow the reader's light or dark scheme.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from fairlane.report.svg import INK, PAPER, Scale, colour, line, marker, picture, tag, text
from fairlane.stats import histogram
from fairlane.stats.answers import word
from fairlane.stats.effects import Effect, Estimate
from fairlane.stats.looks import nominal_levels
from fairlane.stats.samples import Samples
from fairlane.study.schedule import lane_order

WIDTH = 640
MARGIN = 0.05
LEVEL = 0.05
LOOKS = tuple(range(6, 21, 2))
"""The default of ``design.looks`` in studies of few cells."""
SYMBOL = {"faster": "▲", "slower": "▼", "different-but-small": "◆", "tie": "◇", "inconclusive": "○"}

_STYLE = """
svg { color: #1b2733; --paper: #ffffff; --muted: #5b6270; --grid: #d5d8dd; --band: #dfe7e4;
  --better: #0072b2; --worse: #c44e00; --even: #00795a; --unsure: #6b7280; --lane-0: #767c88; --lane-1: #0072b2 }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3; --paper: #1d232b; --muted: #a9b6c3; --grid: #3b4552;
  --band: #2c3f3a; --better: #62b0ea; --worse: #f08a4b; --even: #4cc39b; --unsure: #a4acb9; --lane-0: #b3bac5;
  --lane-1: #62b0ea } }
"""

Floats = NDArray[np.float64]


def frame(name: str, height: float, title: str, described: str, *parts: Markup) -> str:
    """A whole picture on its own paper."""
    style = tag("style", Markup(_STYLE))  # noqa: S704 - a literal
    paper = tag("rect", width=WIDTH, height=height, rx=8, fill=PAPER)
    return str(picture(name, height, title, described, style, paper, *parts, width=WIDTH)) + "\n"


def change(log_ratio: float) -> str:
    """A log-ratio for a reader: ``+4.2 %``."""
    return f"{100 * math.expm1(log_ratio):+.1f} %".replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    """A round change on an axis: ``+5 %``, ``0 %``."""
    return f"{100 * share:+.0f} %".replace("-", "\N{MINUS SIGN}") if share else "0 %"


def told(effect: Estimate) -> str:
    """What the judge says of one comparison with one look: word and interval."""
    low, high = effect.interval(LEVEL)
    said = word(effect.mean, (low, high), effect.interval(2 * LEVEL), MARGIN, +1)
    return f"{SYMBOL[said]} {said}: {change(low)} to {change(high)}"


def drift() -> str:
    """Two lanes that are the same, on an array that becomes slower while it is measured."""
    rng = np.random.default_rng(3)
    slots = 20
    iops = 10_000 * (1 - 0.25 * np.arange(slots) / (slots - 1)) * np.exp(rng.normal(0, 0.01, slots))
    apart = ["A"] * 10 + ["B"] * 10
    mixed = [lane for block in range(10) for lane in lane_order(("A", "B"), 1, "cell", block)]
    logs = np.log(iops)

    def of(order: Sequence[str], lane: str) -> tuple[float, ...]:
        return tuple(float(x) for x, name in zip(logs, order, strict=True) if name == lane)

    a, b = of(mixed, "A"), of(mixed, "B")
    answers = [
        ("One lane after the other", apart, Samples(of(apart, "B"), of(apart, "A"))),
        ("In blocks, in random order", mixed, Effect(tuple(y - x for x, y in zip(a, b, strict=True)))),
    ]
    parts: list[Markup] = []
    for i, (title, order, effect) in enumerate(answers):
        top = 10 + 190 * i
        x, y = Scale(0, slots - 1, 70, WIDTH - 30), Scale(7_000, 10_500, top + 150, top + 42)
        parts.append(text(20, top + 20, title, font_weight=600))
        parts.append(text(WIDTH - 20, top + 20, f"B against A: {told(effect)}", text_anchor="end"))
        for tick in (7_000, 8_000, 9_000, 10_000):
            parts.append(line(60, y(tick), WIDTH - 20, y(tick), stroke=colour("grid"), stroke_width=1))
            parts.append(text(54, y(tick) + 4, f"{tick:,}", text_anchor="end", font_size=11, fill=colour("muted")))
        for slot, lane in enumerate(order):
            shape, paint = ("circle", "lane-0") if lane == "A" else ("diamond", "better")
            parts.append(marker(shape, x(slot), y(float(iops[slot])), 5.5, fill=colour(paint)))
        if i:
            for block in range(1, 10):
                at = (x(2 * block - 1) + x(2 * block)) / 2
                parts.append(
                    line(at, y.start, at, y.end, stroke=colour("grid"), stroke_width=1, stroke_dasharray="3 3")
                )
        parts.append(text(WIDTH - 20, top + 170, "time →", text_anchor="end", font_size=11, fill=colour("muted")))
        parts.append(marker("circle", 74, top + 166, 5, fill=colour("lane-0")))
        parts.append(text(84, top + 170, "A", font_size=11))
        parts.append(marker("diamond", 108, top + 166, 5, fill=colour("better")))
        parts.append(text(118, top + 170, "B, which is A under another name (IOPS)", font_size=11))
    said = "; ".join(f"{title}: {told(effect)}" for title, _, effect in answers)
    return frame("drift", 392, "Drift, and why lanes are interleaved", said, *parts)


def _rejected(rows: Floats, looks: Sequence[tuple[int, float]]) -> float:
    """Share of the comparisons (a row each) that are called different at any of ``looks`` (blocks, level)."""
    return sum(any(Effect(tuple(row[:n])).rejects(level) for n, level in looks) for row in rows.tolist()) / len(rows)


def looks() -> str:
    """An identical pair, watched after every block and at the planned looks."""
    peeks = [(n, LEVEL) for n in range(3, LOOKS[-1] + 1)]
    planned = list(zip(LOOKS, nominal_levels(LOOKS, LEVEL), strict=True))
    many = np.random.default_rng(7).normal(0, 0.03, (2_000, LOOKS[-1]))
    # the first pair of identical lanes that fools the watcher and not the plan
    chosen = next(
        row for row in many.tolist() if sum(Effect(tuple(row[:n])).rejects(LEVEL) for n, _ in peeks) >= 2
        and not any(Effect(tuple(row[:n])).rejects(level) for n, level in planned)
    )  # fmt: skip
    x, y = Scale(3, LOOKS[-1], 70, WIDTH - 55), Scale(-0.10, 0.10, 250, 50)
    parts = [text(20, 28, "The same two lanes twice, block by block", font_weight=600)]
    for tick in (-0.10, -0.05, 0.0, 0.05, 0.10):
        ink = INK if not tick else colour("grid")
        parts.append(line(60, y(tick), WIDTH - 20, y(tick), stroke=ink, stroke_width=1))
        parts.append(text(54, y(tick) + 4, percent(tick), text_anchor="end", font_size=11))
    for n, level in peeks:
        effect = Effect(tuple(chosen[:n]))
        low, high = effect.interval(level)
        fooled = effect.rejects(level)
        paint = colour("worse" if fooled else "lane-0")
        parts.append(line(x(n), y(low), x(n), y(high), stroke=paint, stroke_width=4 if fooled else 2.5))
    for n, level in planned:
        low, high = Effect(tuple(chosen[:n])).interval(level)
        at = x(n) + 7
        parts.append(line(at, y(low), at, y(high), stroke=colour("better"), stroke_width=3))
        parts.append(text(at, 268, f"look at {n}", text_anchor="middle", font_size=11, fill=colour("better")))
    watched, waited = f"{100 * _rejected(many, peeks):.0f} %", f"{100 * _rejected(many, planned):.1f} %"
    notes = (
        ("lane-0", f"95 % interval drawn after every block: it excludes 0 somewhere in {watched} of 2,000 such pairs"),
        ("worse", "the moments at which a watcher would have stopped and called it a difference"),
        ("better", f"interval of the planned looks: it excludes 0 at any of them in {waited} of the same 2,000"),
    )  # fmt: skip
    for i, (paint, note) in enumerate(notes):
        parts.append(line(30, 294 + 20 * i, 46, 294 + 20 * i, stroke=colour(paint), stroke_width=4))
        parts.append(text(54, 298 + 20 * i, note, font_size=12))
    return frame("looks", 350, "What an interval at planned looks means", "; ".join(n for _, n in notes), *parts)


def words() -> str:
    """One comparison for each word: where intervals and margin lie."""
    shape = np.array([-1.6, -1.1, -0.7, -0.4, -0.1, 0.1, 0.4, 0.7, 1.1, 1.6])
    shape = (shape - shape.mean()) / shape.std(ddof=1)
    cases = [(0.12, 0.05), (0.06, 0.04), (-0.09, 0.05), (0.02, 0.02), (0.003, 0.025), (0.035, 0.06)]
    x = Scale(-0.16, 0.18, 30, WIDTH - 30)
    bottom = 68 + 52 * len(cases)
    parts = [
        text(20, 26, "B against A: the interval decides the word", font_weight=600),
        tag("rect", x=x(-math.log1p(MARGIN)), y=56, width=x(math.log1p(MARGIN)) - x(-math.log1p(MARGIN)),
            height=bottom - 60, fill=colour("band")),
        text(x(0), 50, "the margin, ±5 %", text_anchor="middle", font_size=11, fill=colour("muted")),
        line(x(0), 56, x(0), bottom - 4, stroke=INK, stroke_width=1),
    ]  # fmt: skip
    paints = {
        "faster": "better",
        "slower": "worse",
        "different-but-small": "even",
        "tie": "even",
        "inconclusive": "unsure",
    }
    said = []
    for i, (mean, sd) in enumerate(cases):
        effect = Effect(tuple((mean + sd * shape).tolist()))
        outer, inner = effect.interval(LEVEL), effect.interval(2 * LEVEL)
        found = word(effect.mean, outer, inner, MARGIN, +1)
        paint, y = colour(paints[found]), 96 + 52 * i
        parts.append(text(24, y - 14, f"{SYMBOL[found]} {found}", fill=paint, font_weight=600))
        low, high = change(outer[0]), change(outer[1])
        parts.append(text(WIDTH - 24, y - 14, f"{low} to {high}", text_anchor="end", font_size=12))
        parts.append(line(x(outer[0]), y, x(outer[1]), y, stroke=paint, stroke_width=2))
        parts.append(line(x(inner[0]), y, x(inner[1]), y, stroke=paint, stroke_width=5))
        parts.append(marker("circle", x(effect.mean), y, 5, fill=PAPER, stroke=paint, stroke_width=2))
        said.append(f"{found}: {low} to {high}")
    parts.append(line(30, bottom, WIDTH - 30, bottom, stroke=colour("muted"), stroke_width=1))
    for tick in (-0.15, -0.10, -0.05, 0.0, 0.05, 0.10, 0.15):
        at = x(math.log1p(tick))
        parts.append(line(at, bottom, at, bottom + 5, stroke=colour("muted"), stroke_width=1))
        parts.append(text(at, bottom + 18, percent(tick), text_anchor="middle", font_size=11))
    note = "thin: the 95 % interval.  thick: the 90 % interval of the tie test.  10 blocks each"
    parts.append(text(WIDTH / 2, bottom + 40, note, text_anchor="middle", font_size=12, fill=colour("muted")))
    return frame("words", bottom + 54, "Which word an interval gets", "; ".join(said), *parts)


def percentiles() -> str:
    """Ten machines, one of which stalls: percentiles of the merged bins against the mean of the machines' own."""
    rng = np.random.default_rng(5)
    machines = []
    for i in range(10):
        ns = 2e5 * np.exp(rng.normal(0, 0.25, 20_000))
        if i == 9:  # every 25th I/O waits for some 8 ms, so that the machine does fewer of them
            ns = np.where(np.arange(12_000) % 25 == 0, 8e6 * np.exp(rng.normal(0, 0.1, 12_000)), ns[:12_000])
        machines.append(histogram.binned(ns.astype(np.int64)))
    whole = histogram.merge(machines)
    x = Scale(2e5, 2e7, 130, WIDTH - 30, log=True)
    parts = [text(20, 28, "Ten machines, one of which stalls now and then", font_weight=600)]
    said = []
    for i, (q, name) in enumerate(((0.99, "p99"), (0.999, "p99.9"))):
        top = 50 + 136 * i
        own = [histogram.percentile(bins, q) for bins in machines]
        mean, merged = sum(own) / len(own), histogram.percentile(whole, q)
        parts.append(text(20, top + 8, name, font_weight=600))
        rows: tuple[tuple[str, Sequence[float], str, str], ...] = (
            ("each machine's", own, "circle", "lane-0"),
            ("their mean", [mean], "cross", "worse"),
            ("of all I/Os", [merged], "diamond", "better"),
        )
        for j, (label, values, shape, paint) in enumerate(rows):
            y = top + 30 + 32 * j
            parts.append(text(120, y + 4, label, text_anchor="end", font_size=12))
            parts.append(line(x.start, y, x.end, y, stroke=colour("grid"), stroke_width=1))
            for value in values:
                stroke = colour(paint) if shape == "cross" else PAPER
                width = 2.5 if shape == "cross" else 1
                fill = None if shape == "cross" else colour(paint)
                parts.append(marker(shape, x(value), y, 6, fill=fill, stroke=stroke, stroke_width=width))
            if j:
                parts.append(text(x(values[0]) + 14, y - 5, _ms(values[0]), font_size=12, fill=colour(paint)))
        said.append(f"{name}: mean of the machines' {_ms(mean)}, of all I/Os {_ms(merged)}")
    bottom = 312
    for tick, label in ((2e5, "0.2 ms"), (1e6, "1 ms"), (1e7, "10 ms")):
        parts.append(line(x(tick), bottom - 8, x(tick), bottom - 3, stroke=colour("muted"), stroke_width=1))
        parts.append(text(x(tick), bottom + 10, label, text_anchor="middle", font_size=11, fill=colour("muted")))
    return frame("percentiles", 336, "Why percentiles are merged and not averaged", "; ".join(said), *parts)


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.2f} ms"


def _trials(rng: np.random.Generator, trials: int, seconds: int) -> Floats:
    """Logarithms of IOPS, trials x seconds, whose neighbouring seconds resemble each other (0.9) in a spread of 4 %."""
    shocks = rng.normal(0, 0.04, (trials, seconds))
    out = shocks.copy()
    for second in range(1, seconds):
        out[:, second] = 0.9 * out[:, second - 1] + math.sqrt(1 - 0.9**2) * shocks[:, second]
    return out


def unit() -> str:
    """Identical pairs: intervals from single seconds, and from blocks."""
    rng = np.random.default_rng(11)
    studies, shown = 600, 40
    by_second: list[Estimate] = []
    by_block: list[Estimate] = []
    for _ in range(studies):
        a, b = _trials(rng, 10, 30), _trials(rng, 10, 30)
        by_second.append(Samples(tuple(b.ravel().tolist()), tuple(a.ravel().tolist())))
        by_block.append(Effect(tuple((b.mean(axis=1) - a.mean(axis=1)).tolist())))
    parts: list[Markup] = []
    said = []
    for i, (title, effects) in enumerate((("every second a number (300 each)", by_second),
                                          ("every block a number (10)", by_block))):  # fmt: skip
        top = 10 + 160 * i
        wrong = sum(effect.rejects(LEVEL) for effect in effects) / studies
        x, y = Scale(0, shown - 1, 70, WIDTH - 30), Scale(-0.065, 0.065, top + 150, top + 30)
        summary = f"called different: {100 * wrong:.0f} % of {studies} identical pairs"
        parts.append(text(20, top + 20, title, font_weight=600))
        parts.append(text(WIDTH - 20, top + 20, summary, text_anchor="end"))
        for tick in (-0.04, 0.0, 0.04):
            ink = INK if not tick else colour("grid")
            parts.append(line(60, y(tick), WIDTH - 20, y(tick), stroke=ink, stroke_width=1))
            parts.append(text(54, y(tick) + 4, percent(tick), text_anchor="end", font_size=11))
        for k, effect in enumerate(effects[:shown]):
            low, high = effect.interval(LEVEL)
            paint = colour("worse" if effect.rejects(LEVEL) else "lane-0")
            parts.append(line(x(k), y(low), x(k), y(high), stroke=paint, stroke_width=4))
        said.append(f"{title}: {summary}")
    note = "95 % intervals of the first 40 pairs; orange: the interval excludes 0, which is the truth"
    parts.append(text(20, 346, note, font_size=12, fill=colour("muted")))
    return frame("unit", 360, "Why the block is the unit, not the second", "; ".join(said), *parts)


def pictures() -> Iterator[tuple[str, str]]:
    """File name -> SVG."""
    for draw in (drift, looks, words, percentiles, unit):
        yield f"{draw.__name__}.svg", draw()
