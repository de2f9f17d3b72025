"""The map of block sizes and patterns says what the verdicts say."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fairlane.report import heatmap, phrases
from fairlane.report.svg import Figure
from tests.report.test_fig_evidence import NS, drawn, fake, words

EFFECTS = 'nvme: {speed: 1.2, cells: {"64k randwrite*": 0.7, "4k randwrite*": 1.001}}, local: {speed: 2}'


@pytest.fixture(scope="module")
def case():
    return fake("rw: [randread, randwrite], bs: [64k, 4k], iodepth: [1, 16]", effects=EFFECTS)


def nvme(case) -> heatmap.HeatView:
    return next(v for v in heatmap.views(*case) if v.lane == "NVMe/TCP")


def fills(figure: Figure) -> dict[str, tuple[str, float]]:
    """Cell -> colour and opacity."""
    found = {}
    for group in drawn(figure).iter(f"{NS}g"):
        box = next((e for e in group if re.search("--(better|worse)", e.attrib.get("fill", ""))), None)
        title = group.find(f"{NS}title")
        if box is not None and title is not None:
            cell = (title.text or "").split(":")[0]
            side = re.search(r"--(\w+)", box.attrib["fill"])[1]  # type: ignore[index]
            found[cell] = (side, float(box.attrib["fill-opacity"]))
    return found


def test_every_verdict_is_a_tile_with_its_figure_and_sign(case):
    figure = heatmap.figure(nvme(case), "f")
    verdicts = [v for v in case[1] if v.lane == "nvme" and v.primary]
    shown = words(figure)
    for v in verdicts:
        at = shown.index(phrases.change(v.ratio))
        assert phrases.SYMBOL[v.verdict] in shown[at : at + 2]
    told = {cell for row in figure.table.rows for cell in row[1:]}
    assert told == {
        f"{phrases.SYMBOL[v.verdict]} {v.verdict}, {phrases.change(v.ratio)} ({phrases.interval(v.low, v.high)})"
        for v in verdicts
    }
    assert [row[0] for row in figure.table.rows] == [
        "4k, iodepth 1", "64k, iodepth 1", "4k, iodepth 16", "64k, iodepth 16"
    ]  # fmt: skip
    assert figure.table.columns[1:] == ("randread", "randwrite")


def test_colour_is_the_side_and_the_logarithm(case):
    view = nvme(case)
    painted = fills(heatmap.figure(view, "f"))
    for v in (v for v in case[1] if v.lane == "nvme" and v.primary):
        side, opacity = painted[v.cell]
        assert side == ("better" if v.ratio > 1 else "worse")
        assert opacity == pytest.approx(0.5 * abs(math.log(v.ratio)) / view.limit, abs=1e-3)
    limits = {v.lane: v.limit for v in heatmap.views(*case)}  # a lane twice as fast must not bleach another
    assert limits == {"NVMe/TCP": math.log(1.5), "local": math.log(3)}


def test_less_is_better_where_it_is():
    case = fake("rw: [randread, randwrite], bs: [4k, 64k], primary: lat_mean", effects="nvme: {speed: 1.5}")
    figure = heatmap.figure(nvme(case), "f")
    assert {side for side, _ in fills(figure).values()} == {"better"}
    scale = [w for w in words(figure) if w.endswith("%")][-5:]
    assert scale[0].startswith("+")  # worse
    assert scale[-1].startswith("\u2212")


def test_what_allows_no_claim_is_hatched_and_not_coloured(case):
    evidence, verdicts, findings, label = case
    changed = []
    for v in verdicts:
        word = {"4k randread qd1": "inconclusive", "64k randread qd1": "refused"}.get(v.cell, v.verdict)
        held = v.cell == "4k randread qd16"
        changed.append(replace(v, verdict=word, headline=v.headline and not held))
    view = next(v for v in heatmap.views(evidence, changed, findings, label) if v.lane == "NVMe/TCP")
    figure = heatmap.figure(view, "f")
    hatched = {}
    for group in drawn(figure).iter(f"{NS}g"):
        fill = [e.attrib["fill"] for e in group if e.attrib.get("fill", "").startswith("url")]
        if fill:
            hatched[group.findtext(f"{NS}title", "").split(":")[0]] = fill[0]
    assert hatched == {
        "4k randread qd1": "url(#f-unsure)",
        "64k randread qd1": "url(#f-refused)",
        "4k randread qd16": "url(#f-unsure)",
    }
    painted = fills(figure)
    assert {"4k randread qd1", "64k randread qd1"}.isdisjoint(painted)
    assert "4k randread qd16" in painted  # withheld: a difference was seen
    assert {"? inconclusive", "✕ refused", "! withheld"} <= set(words(figure))
    assert len(figure.caption) > len(heatmap.figure(nvme(case), "f").caption)  # and it says what hatching is


def test_only_where_there_are_two_sizes_and_two_patterns():
    assert heatmap.views(*fake("rw: [randread, randwrite], bs: [4k]")) == ()
    assert heatmap.views(*fake("rw: [randread], bs: [4k, 64k]")) == ()
    assert heatmap.views(*fake("rw: [randrw], rwmixread: [30, 70], bs: [4k, 64k]"))[0].panels[0].patterns == (
        "randrw 30/70",
        "randrw 70/30",
    )


def test_refused_lanes_and_controls_have_no_map(case):
    evidence, verdicts, findings, label = case
    refused = [replace(v, verdict="refused", ratio=None) if v.lane == "local" else v for v in verdicts]
    controls = [replace(v, control=v.lane == "nvme") for v in refused]
    assert heatmap.views(evidence, controls, findings, label) == ()


def rgb_of(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """WCAG 2.1."""

    def light(rgb: tuple[float, ...]) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_words_on_the_deepest_colour_can_be_read_in_both_schemes():
    css = Path(heatmap.__file__).parent.joinpath("templates/style.css").read_text()
    parts = re.findall(r":root \{(.*?)\n\s*\}", css, re.DOTALL)
    schemes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in parts]
    assert len(schemes) >= 2
    for scheme in schemes[:2]:
        paper, ink = rgb_of(scheme["paper"]), rgb_of(scheme["ink"])
        for side in ("better", "worse"):
            deep = rgb_of(scheme[side])
            ground = tuple(p + (d - p) * heatmap.DEEPEST for p, d in zip(paper, deep, strict=True))
            assert contrast(ground, ink) >= 4.5
