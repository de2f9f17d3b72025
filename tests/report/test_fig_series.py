"""The run in time: order, looks, failures and incidents as the journal and the schedule have them."""

import re
from dataclasses import replace
from statistics import geometric_mean

import pytest

from fairlane.records import Evidence
from fairlane.report import series, time_series
from fairlane.runs.read import in_order
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from tests.report import test_timeline
from tests.report.test_fig_evidence import Case, fake, judged, words

GRID = "rw: [randread, randwrite], bs: [4k, 64k]"


@pytest.fixture(scope="module")
def case():
    return fake(GRID, blocks=8, failures="6%")


def of(case, kind):
    return [v for v in series.views(*case) if isinstance(v, kind)]


def changed(case, **fields) -> Case:
    return judged(replace(case[0], **fields))


def test_every_trial_is_a_dot_in_the_order_of_the_schedule(case):
    (view,) = of(case, series.RunView)
    evidence: Evidence = case[0]
    assert view.blocks == 32
    order = [(b.cell.key, b.index) for b in evidence.blocks]
    figures = {(o.cell, o.block): o.metrics["iops"] for o in evidence.observations if o.lane == "nvme" and not o.failed}
    strip = next(s for s in view.strips if s.lane == "NVMe/TCP")
    assert [p for p, _ in strip.points] == sorted(order.index(key) for key in figures)
    for place, ratio in strip.points:
        cell = order[place][0]
        assert ratio == pytest.approx(
            figures[order[place]] / geometric_mean(f for k, f in figures.items() if k[0] == cell)
        )
    lost = [o for o in evidence.observations if o.failed]
    assert lost
    assert sum(len(s.failed) for s in view.strips) == len(lost)
    figure = series.figure(view, "f")
    assert figure.svg.count("h0") == len(evidence.observations) - len(lost)
    assert [row[2] for row in figure.table.rows] == [str(len(s.failed)) for s in view.strips]


@pytest.mark.slow
def test_a_drift_is_seen():
    (view,) = of(fake(f"{GRID}, iodepth: [1, 4]", blocks=10), series.RunView)
    flat = [ratio for _, ratio in view.strips[0].rounds]
    assert max(flat) / min(flat) < 1.02
    case = fake(GRID, blocks=10)
    slower = tuple(
        replace(o, metrics={**o.metrics, "iops": o.metrics["iops"] * 0.97**o.block}) for o in case[0].observations
    )
    (view,) = of(changed(case, observations=slower), series.RunView)
    medians = [ratio for _, ratio in view.strips[0].rounds]
    assert medians == sorted(medians, reverse=True)
    thirds = series.figure(view, "f").table.rows[0][3:6]
    assert thirds[0].startswith("+")
    assert thirds[2].startswith("\u2212")


def test_cells_that_ended_early_are_measured_by_the_same_blocks():
    """A wave over the run must not become a step at a look, where some cells end."""
    case = fake(GRID, blocks=10)
    wave = tuple(
        replace(o, metrics={**o.metrics, "iops": 1000.0 * (1 + o.block / 10)})
        for o in case[0].observations
        if o.block < 5 or o.cell == case[0].cells()[0].key
    )
    looks = ({"type": "look", "look": 0, "blocks": 5, "open": ["x"]},)
    (view,) = of(changed(case, observations=wave, events=looks), series.RunView)
    medians = [ratio for _, ratio in view.strips[0].rounds]
    assert medians == pytest.approx([medians[0] * (1 + b / 10) for b in range(10)])
    assert view.places == {5: 20}


def test_looks_resumes_and_lost_blocks_are_marked(case):
    key = case[0].cells()[0].key
    events = (
        {"type": "start"},
        {"type": "block-failed", "cell": key, "block": 2, "reason": "the guest died"},
        {"type": "resume"},
        {"type": "look", "look": 0, "blocks": 4, "open": [key]},
        {"type": "resume"},
        {"type": "look", "look": 1, "blocks": 8, "open": []},
        {"type": "resume"},
        {"type": "damaged", "trial": "x"},
        {"type": "mismatch", "cell": 7, "block": None},
        {"type": "look", "look": "x", "blocks": None},
    )
    one = tuple(o for o in case[0].observations if o.cell == key and not o.failed)
    (view,) = series.views(*changed(case, observations=one, events=events))
    assert isinstance(view, series.RunView)
    assert view.journal.looks == (4, 8)
    assert [(i.kind, i.block, i.after, i.before) for i in view.journal.incidents] == [
        ("block failed", 2, 0, 4),
        ("resumed", None, 0, 4),
        ("resumed", None, 4, 8),
        ("resumed", None, 8, None),
        ("not repeated", None, 8, None),
        ("damaged", None, 0, None),
    ]
    figure = series.figure(view, "f")
    assert {"look at 4", "look at 8", "block failed"} <= set(words(figure))
    assert "block failed" in figure.caption
    assert re.search(r"resumed 3\b", figure.caption)
    (whole,) = of(changed(case, events=events), series.RunView)
    assert whole.places == {4: 16, 8: 32}
    at = [(b.cell.key, b.index) for b in case[0].blocks].index((key, 2))
    assert whole.spans[:3] == ((at - 0.4, at + 0.4), (-0.5, 15.5), (15.5, 31.5))
    assert "block failed" in words(series.figure(whole, "f"))


def test_rates_within_trials_are_drawn_where_a_tool_tells_them(case):
    assert of(case, time_series.TimeSeriesView) == []
    ramp = {"load": {"series": {"interval_ms": 500, "iops": [100.0 * n for n in range(1, 11)]}}}
    seen = tuple(replace(o, context={**o.context, **ramp}) for o in case[0].observations)
    (view,) = of(changed(case, observations=seen), time_series.TimeSeriesView)
    label, _, trials = view.lanes[0]
    assert label == "iSCSI"
    assert trials[0][1][0] == (0.25, 100.0)
    assert trials[0][1][-1] == (4.75, 1000.0)
    figure = series.figure(view, "f")
    assert figure.table.rows[0][3:] == ("200", "900")
    assert {"0", "1,000"} <= set(words(figure))


@pytest.mark.parametrize("told", ["x", [1.0, "x", 3.0], [1.0, 2.0], [-1.0] * 9, None, {"a": 1}])
def test_a_series_that_cannot_be_read_is_none(case, told):
    context = {"load": {"series": {"interval_ms": 100, "iops": told}}}
    seen = tuple(replace(o, context=context) for o in case[0].observations)
    assert of(changed(case, observations=seen), time_series.TimeSeriesView) == []


def test_long_series_are_thinned_by_means():
    context = {"load": {"series": {"interval_ms": 1000, "iops": [float(n) for n in range(1000)]}}}
    samples = time_series._samples(context, "iops")
    assert len(samples) == 100
    assert samples[0] == (5.0, 4.5)
    assert samples[-1] == (995.0, 994.5)


def test_failover_keeps_the_picture_that_it_has():
    """report.timeline draws what is within those trials."""
    study = parse_study(test_timeline.STUDY, "faults.yaml")
    blocks = schedule(study, 6)
    seen = [test_timeline.trial(b.cell.key, b.index, lane, n) for b in blocks for n, lane in enumerate(b.order)]
    evidence = Evidence("r", study, "", 1, blocks, in_order(seen), {}, {})
    assert [type(v) for v in series.views(*judged(evidence))] == [series.RunView]
