"""Cost against performance: the places are the verdicts', the front is the front."""

from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import pytest

from fairlane.report import pareto
from fairlane.report.phrases import interval
from tests.figures import figures
from tests.report.test_fig_evidence import fake, placed, words

COSTS: dict[str, Any] = {"iscsi": "cost: 10", "nvme": "cost: 12", "local": "cost: 15"}
GRID = "rw: [randread], bs: [4k, 64k], iodepth: [1, 16]"


@pytest.fixture(scope="module")
def case():
    return fake(GRID, effects='nvme: {speed: 1.5, cells: {"64k*": 1.2}}, local: {speed: 1.1}', **COSTS)


def test_the_mean_of_the_cells_with_their_range(case):
    (view,) = pareto.views(*case)
    assert [(p.lane, p.cost) for p in view.places] == [("iSCSI", 10), ("NVMe/TCP", 12), ("local", 15)]
    assert (len(view.cells), view.of) == (4, 4)
    for place, lane in zip(view.places[1:], ("nvme", "local"), strict=True):
        ratios = [v.ratio for v in case[1] if v.primary and v.lane == lane]
        assert place.ratio == pytest.approx(geometric_mean(ratios))
        assert (place.low, place.high) == (min(ratios), max(ratios))
    caption = pareto.figure(view, "f").caption
    assert figures(caption) == ["4"]


def test_one_cell_has_its_interval():
    case = fake("rw: [randread], bs: [4k]", effects="nvme: {speed: 1.5}", **COSTS)
    (view,) = pareto.views(*case)
    verdict = next(v for v in case[1] if v.primary and v.lane == "nvme")
    assert (view.places[1].low, view.places[1].high) == (verdict.low, verdict.high)
    figure = pareto.figure(view, "f")
    assert "4k randread qd1" in figure.caption
    assert figure.table.rows[1][3] == interval(verdict.low, verdict.high)


def test_who_is_beaten_by_whom(case):
    (view,) = pareto.views(*case)
    assert [p.beaten_by for p in view.places] == ["", "", "NVMe/TCP"]
    figure = pareto.figure(view, "f")
    assert [word for word in words(figure) if word.startswith("✕") and "NVMe/TCP" in word]
    first, second, third = (row[-1] for row in figure.table.rows)
    assert first == second
    assert "NVMe/TCP" in third
    worth = [row[4] for row in figure.table.rows]
    assert worth[0] == "100 %"
    assert worth[1] == f"{view.places[1].ratio / 1.2 * 100:.0f} %"


def test_less_is_better_where_it_is():
    case = fake(f"{GRID}, primary: lat_mean", effects="nvme: {speed: 1.5}, local: {speed: 0.8}", **COSTS)
    (view,) = pareto.views(*case)
    assert view.places[1].ratio < 1 < view.places[2].ratio
    assert [p.beaten_by for p in view.places] == ["", "", "NVMe/TCP"]
    assert view.better == -1
    assert words(pareto.figure(view, "f")) != words(pareto.figure(replace(view, better=1), "f"))


def test_the_same_in_both_beats_nobody_and_cheaper_at_equal_speed_does():
    costs, gains = {"a": 1.0, "b": 1.0, "c": 2.0}, {"a": 1.2, "b": 1.2, "c": 1.2}
    assert [pareto._beats(lane, costs, gains, +1) for lane in costs] == ["", "", "a"]


def test_places_are_where_cost_and_ratio_are(case):
    figure = pareto.figure(pareto.views(*case)[0], "f")
    (iscsi,) = placed(figure, "iSCSI: cost 10")
    assert iscsi[0] == pytest.approx(62 + 10 / (15 * 1.08) * (480 - 168 - 62), abs=0.2)
    (view,) = pareto.views(*case)
    top = max(p.high or p.ratio for p in view.places) * 1.06
    assert iscsi[1] == pytest.approx(26 + 210 * (1 - 1 / top), abs=0.2)


def test_only_cells_and_lanes_that_can_be_compared(case):
    evidence, verdicts, findings, label = case
    some = [replace(v, verdict="refused") if v.cell.startswith("64k") and v.lane == "nvme" else v for v in verdicts]
    (view,) = pareto.views(evidence, some, findings, label)
    assert view.cells == ("4k randread qd1", "4k randread qd16")
    assert figures(pareto.figure(view, "f").caption) == ["2", "2", "4"]
    held = [replace(v, headline=False) if v.lane == "nvme" else v for v in verdicts]
    assert "NVMe/TCP" not in pareto.figure(view, "f").caption
    (view,) = pareto.views(evidence, held, findings, label)
    assert view.left_out == ("NVMe/TCP",)
    assert "NVMe/TCP" in pareto.figure(view, "f").caption
    assert pareto.views(evidence, [v for v in verdicts if not v.primary], findings, label) == ()


def test_two_costs_are_needed():
    assert pareto.views(*fake(GRID, nvme="cost: 12")) == ()
    assert len(pareto.views(*fake(GRID, nvme="cost: 12", local="cost: 9"))[0].places) == 2
