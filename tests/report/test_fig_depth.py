"""Load against throughput and latency says what the trials and the capacities say."""

from itertools import pairwise
from statistics import geometric_mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.report import curves, depth, plot
from fairlane.report.phrases import value
from fairlane.stats.capacity import capacities
from tests.report.test_fig_evidence import fake, placed, words

LADDER = "rw: [randread], bs: [4k], iodepth: [1, 2, 4, 8, 16, 32]"


@pytest.fixture(scope="module")
def case():
    return fake(f"{LADDER}, slo: {{lat_p99: 400us}}", effects="nvme: {speed: 1.2}, local: {speed: 9}")


def test_every_rung_is_its_trials(case):
    (view,) = depth.views(*case)
    assert [x.lane for x in view.lines] == ["iSCSI", "NVMe/TCP", "local"]
    assert (view.metric, view.rate, view.rounds) == ("lat_p99", "iops", 6)
    for line, lane in zip(view.lines, ("iscsi", "nvme", "local"), strict=True):
        for step in line.steps:
            cell = f"main.4k-randread-qd{step.load:g}"
            seen = [o.metrics["iops"] for o in case[0].observations if (o.cell, o.lane) == (cell, lane)]
            assert (step.throughput.low, step.throughput.high) == (min(seen), max(seen))
            assert step.throughput.mean == pytest.approx(geometric_mean(seen))
            assert step.latency.low <= step.latency.mean <= step.latency.high


def test_it_agrees_with_the_curves_and_the_capacities(case):
    (view,) = depth.views(*case)
    (curve,) = curves.views(case[0], case[3], case[2])
    for mine, theirs in zip(view.lines, curve.curves, strict=True):
        assert [(s.load, s.throughput.mean, s.latency.mean) for s in mine.steps] == [
            (r.load, r.throughput, r.latency) for r in theirs.rungs
        ]
    told = {c.lane: c for c in capacities(case[0].study, case[0].observations)}
    assert view.lines[1].carries == (told["nvme"].lane_value,)
    assert view.lines[0].carries == (told["nvme"].baseline_value,)
    last = depth.figure(view, "f").table.rows[-1]
    assert "400 us" in last[0]
    assert last[5] == value("iops", told["nvme"].lane_value.low)
    assert last[9].startswith("≥")  # local meets it on every rung


def test_marks_rise_with_throughput_and_latency_and_stand_at_their_load(case):
    (view,) = depth.views(*case)
    figure = depth.figure(view, "f")
    at = placed(figure, "iSCSI at ")
    assert len(at) == 12
    rising, falling = at[:6], at[6:]
    assert [x for x, _ in rising] == [x for x, _ in falling] == sorted(x for x, _ in rising)
    steps = [b[0] - a[0] for a, b in pairwise(rising)]
    assert max(steps) - min(steps) < 0.2  # doublings are equal steps
    for marks, figures in ((rising, [s.throughput.mean for s in view.lines[0].steps]),
                           (falling, [s.latency.mean for s in view.lines[0].steps])):  # fmt: skip
        assert [y for _, y in marks] == sorted((y for _, y in marks), reverse=True)
        assert figures == sorted(figures)


def test_the_ring_is_as_high_as_the_capacity_and_only_where_it_is_known(case):
    (view,) = depth.views(*case)
    figure = depth.figure(view, "f")
    rings = placed(figure, "iSCSI carries")
    assert len(rings) == 1
    marks = placed(figure, "iSCSI at ")[:6]
    base, top = marks[0], marks[-1]
    low, high = view.lines[0].steps[0].throughput.mean, view.lines[0].steps[-1].throughput.mean
    (carried,) = view.lines[0].carries
    assert carried
    share = (carried.low - low) / (high - low)
    assert rings[0][1] == pytest.approx(base[1] + share * (top[1] - base[1]), abs=0.2)
    assert base[0] < rings[0][0] < top[0]
    assert placed(figure, "local carries") == []
    assert any(w.startswith("SLO: ≥") for w in words(figure))
    assert [w for w in words(figure) if w.endswith("400 us")]


def test_without_objective_and_without_ladder():
    (view,) = depth.views(*fake(LADDER))
    assert view.limits == ()
    assert "400" not in depth.figure(view, "f").caption
    assert depth.views(*fake("rw: [randread], bs: [4k], iodepth: [1, 2]")) == ()


def test_rates_asked_for_are_told_as_such():
    (view,) = depth.views(*fake("rw: [randread], bs: [4k], iodepth: [64], rate_iops: [1000, 2000, 4000]"))
    assert view.axis.endswith("1/s")
    assert {"1,000", "2,000", "4,000"} <= set(words(depth.figure(view, "f")))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(1, 20))
def test_labels_are_moved_apart_and_keep_their_order(wanted, gap):
    places = plot.apart(wanted, gap, 0, 100)
    gap = min(gap, 100 / max(len(wanted) - 1, 1))
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    rising = [places[i] for i in order]
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(rising))
    assert rising[0] >= -1e-6
    assert rising[-1] <= 100 + 1e-6


def test_labels_with_room_stay_where_they_belong():
    assert plot.apart([80, 10, 50], 20, 0, 100) == [80, 10, 50]
