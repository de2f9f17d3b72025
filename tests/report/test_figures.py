"""The pictures say what the figures say: positions, lengths and marks, read back from the SVG."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest

from fairlane.report import model, sections
from fairlane.report.bars import bars, stacks
from fairlane.report.forest import forest
from fairlane.report.svg import Figure

NS = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report(case):
    return model.build(*case)


def drawn(figure: Figure) -> ET.Element:
    return ET.fromstring(figure.svg)  # noqa: S314 - our own output


def groups(figure: Figure) -> list[ET.Element]:
    return [g for g in drawn(figure) if g.tag == f"{NS}g"]


def nvme(report: sections.Report) -> sections.Comparison:
    return next(c for c in report.answers if c.lane == "NVMe/TCP")


def _marks(figure: Figure) -> list[float]:
    """x of the centre of each row's mark: its last path."""
    found = []
    for group in groups(figure):
        path = [e for e in group if e.tag == f"{NS}path"][-1].attrib["d"]
        xs = [float(x) for x in re.findall(r"[ML](-?[\d.]+) ", path)]
        found.append((min(xs) + max(xs)) / 2 if "a" not in path else xs[0] + 4.5)
    return found


def test_forest_marks_stand_in_the_order_of_their_ratios(report):
    comparison = nvme(report)
    marks = _marks(forest(comparison, "f"))
    ratios = [r.ratio or 0.0 for r in comparison.rows]
    assert len(marks) == 8
    assert sorted(range(8), key=marks.__getitem__) == sorted(range(8), key=ratios.__getitem__)


def test_forest_tells_every_verdict_in_words(report):
    comparison = nvme(report)
    for group, row in zip(groups(forest(comparison, "f")), comparison.rows, strict=True):
        texts = [e.text or "" for e in group if e.tag == f"{NS}text"]
        assert texts[0] == row.cell
        assert row.word in texts[1]
        assert row.symbol in texts[1]


def test_forest_is_drawn_for_refused_and_boundless_rows_too(report):
    comparison = nvme(report)
    refused = replace(comparison.rows[0], word="refused", symbol="✕", ratio=None, low=None, high=None, sized="")
    wild = replace(comparison.rows[0], word="inconclusive", low=1e-12, high=1e12)
    both = forest(replace(comparison, rows=(refused, wild)), "f")
    ends = [float(x) for x in re.findall(r"[ML](-?[\d.]+) ", both.svg)]
    assert min(ends) >= 0
    assert max(ends) <= 480
    alone = forest(replace(comparison, rows=(refused,)), "f")
    assert "✕ refused" in alone.svg


def test_forest_says_which_side_is_better(report):
    comparison = nvme(report)
    for better, side in ((1, "worse"), (-1, "better")):
        (left,) = re.findall("← ([^<]*)", forest(replace(comparison, better=better), "f").svg)
        assert "NVMe/TCP" in left
        assert side in left


def test_bars_start_at_zero_and_keep_their_proportions(report):
    levels = next(x for x in report.sections[0].levels if x.metric == "iops")
    values = [bar.value for cell in levels.cells for bar in cell.bars]
    rects = [next(e for e in g if e.tag == f"{NS}rect") for g in groups(bars(levels, "b"))]
    assert {r.attrib["x"] for r in rects} == {"75.6"}  # as wide as the names need
    widths = [float(r.attrib["width"]) for r in rects]
    for width, value in zip(widths, values, strict=True):
        assert width / widths[0] == pytest.approx(value / values[0], abs=0.002)


def test_every_block_is_a_dot_on_its_bar(report):
    levels = report.sections[0].levels[0]
    for group in groups(bars(levels, "b")):
        rimmed = next(e for e in group if e.attrib.get("stroke-linecap") == "round")
        assert rimmed[0].attrib["d"].count("h0") == 6
        assert rimmed[1].attrib["href"] == f"#{rimmed[0].attrib['id']}"


def test_cells_of_very_different_size_get_an_axis_each(report):
    levels = report.sections[0].levels[0]
    small = levels.cells[0]
    tiny = replace(small, bars=tuple(replace(b, value=b.value / 1000, points=()) for b in small.bars))
    figure = bars(replace(levels, cells=(levels.cells[1], tiny)), "b")
    widths = [float(next(e for e in g if e.tag == f"{NS}rect").attrib["width"]) for g in groups(figure)]
    assert max(widths[3:]) == pytest.approx(max(widths[:3]), rel=0.3)  # each fills its own axis, up to a round tick
    assert len(figure.caption) > len(bars(levels, "b").caption)  # and it says so


def test_bars_without_any_figure_are_drawn_empty(report):
    levels = report.sections[0].levels[0]
    nothing = replace(levels.cells[0], bars=tuple(replace(b, value=None, points=()) for b in levels.cells[0].bars))
    assert "<rect" not in bars(replace(levels, cells=(nothing,)), "b").svg


def test_cpu_stacks_add_up_and_are_told_by_hatch_and_word_too(report):
    data = report.sections[0].cpu
    figure = stacks(data, "c")
    totals = [sum(s.parts) for c in data.cells for s in c.stacks]
    lengths = []
    for group in groups(figure):
        lengths.append(sum(float(e.attrib["width"]) for e in group if e.tag == f"{NS}rect"))
    for length, total in zip(lengths, totals, strict=True):
        assert length / lengths[0] == pytest.approx(total / totals[0], rel=0.01)
    assert {e.attrib["id"] for e in drawn(figure).iter(f"{NS}pattern")} == {
        f"c-{place}" for place in ("initiator", "target", "shared", "other")
    }
    legend = [e.text for e in drawn(figure) if e.tag == f"{NS}text"]
    assert legend[:5] == ["generator", "initiator", "target", "shared", "other"]


def test_every_figure_has_its_data(report):
    section = report.sections[0]
    for figure in (forest(section.primary[0], "a"), bars(section.levels[0], "b"), stacks(section.cpu, "c")):
        assert figure.table.rows
        assert {len(row) for row in figure.table.rows} == {len(figure.table.columns)}
        assert figure.caption


def test_labels_of_a_wide_axis_do_not_run_into_each_other(report):
    wide = [
        replace(row, ratio=x, low=x / 1.5, high=x * 1.5)
        for x, row in zip((0.6, 65.0), nvme(report).rows[:2], strict=True)
    ]
    words = [e for e in drawn(forest(replace(nvme(report), rows=tuple(wide)), "f")) if e.tag == f"{NS}text"]
    labels = [(float(e.attrib["x"]), e.text or "") for e in words if (e.text or "").endswith("%")]
    assert len(labels) >= 4
    for (x, left), (y, right) in pairwise(labels):
        assert y - x > 3.2 * (len(left) + len(right))  # half of each, at some 6.4 units a character
