import math

import pytest

from fairlane.records import Observation
from fairlane.stats.pairs import apart, pair, shelve, too_few_beyond, typical, upto

BINS = {"read.lat": {1000: 3000}, "write.lat": {9000: 1000}, "read.clat": {1: 10**6}}


def trial(lane, block, position=0, **fields):
    return Observation("main.c", block, lane, position, **fields)


def shelf_of(*trials):
    return shelve(trials)["main.c"]


def test_blocks_in_order_of_number_with_the_order_of_lanes():
    shelf = shelf_of(
        trial("new", 1, 0, metrics={"iops": 300.0}),
        trial("base", 1, 1, metrics={"iops": 100.0}),
        trial("base", 0, 0, metrics={"iops": 100.0}),
        trial("new", 0, 2, metrics={"iops": 200.0}),
    )
    seen = pair(shelf, "new", "base", "iops")
    assert [row.block for row in seen.rows] == [0, 1]
    assert seen.effect.logs == pytest.approx((math.log(2), math.log(3)))
    assert seen.lane_first == (False, True)
    assert pair(shelf, "base", "new", "iops").effect.mean == -seen.effect.mean


@pytest.mark.parametrize(
    "bad",
    [
        {"failed": "killed", "metrics": {"iops": 1.0}},
        {},
        *({"metrics": {"iops": v}} for v in (0.0, -1.0, math.nan, math.inf)),
    ],
)
def test_what_has_no_figure_voids_its_block(bad):
    good = {"metrics": {"iops": 5.0}}
    shelf = shelf_of(
        trial("new", 0, **bad), trial("base", 0, **good), trial("new", 1, **good), trial("base", 1, **good)
    )
    seen = pair(shelf, "new", "base", "iops")
    assert ([row.block for row in seen.rows], seen.voided) == ([1], 1)


def test_a_trial_that_is_missing_voids_its_block_too():
    seen = pair(shelf_of(trial("base", 0, metrics={"iops": 5.0})), "new", "base", "iops")
    assert (seen.rows, seen.voided) == ((), 1)
    with pytest.raises(ValueError, match="no block"):
        _ = seen.effect


def test_percentiles_come_from_all_directions_and_from_bins_only():
    shelf = shelf_of(trial("new", 0, histograms=BINS, metrics={"lat_p99": 1.0}))
    figures = shelf["new"][0].figures
    assert (figures["lat_p50"].value, figures["lat_p99"].value) == (1000, 9000)
    assert not figures["lat_p99"].reported


def test_without_bins_a_percentile_is_what_the_tool_told():
    told = {"lat_p99": 4.0, "iops": 2.0}
    bare = shelf_of(trial("new", 0, metrics=told), trial("new", 1, metrics={**told, "lat_p99": 9.0}))
    assert {name: f.reported for name, f in bare["new"][0].figures.items()} == {"iops": False, "lat_p99": True}
    assert too_few_beyond(bare, ["new"], "lat_p99") is None, "nobody can say"
    assert typical(bare, "new", "lat_p99", [0, 1]) == pytest.approx(6), "no bins to merge: the geometric mean"


def test_lanes_apart_have_all_their_trials_whatever_their_numbers():
    shelf = shelf_of(
        trial("new", 7, metrics={"iops": 300.0}), trial("new", 3, metrics={"iops": 100.0}),
        trial("new", 4, failed="no"), *(trial("base", b, metrics={"iops": 10.0}) for b in (0, 1, 2)),
    )  # fmt: skip
    seen = apart(shelf, "new", "base", "iops")
    assert (seen.n, seen.voided, seen.blocks) == (2, 1, ((3, 7), (0, 1, 2)))
    assert seen.effect.lane == pytest.approx((math.log(100), math.log(300)))
    assert seen.effect.mean == -apart(shelf, "base", "new", "iops").effect.mean
    with pytest.raises(ValueError, match="no trial"):
        _ = apart(shelf, "new", "nobody", "iops").effect


def test_resolution_adds_the_steps_of_both():
    shelf = shelf_of(*(trial(lane, 0, histograms=BINS, metrics={"iops": 9.0}) for lane in ("new", "base")))
    assert pair(shelf, "new", "base", "lat_p99").effect.resolution == pytest.approx(2 / 128)
    assert pair(shelf, "new", "base", "iops").effect.resolution == pytest.approx(2 / 4000)


def test_too_few_beyond_names_the_first_block():
    few = {"read.lat": {10: 999}}
    shelf = shelf_of(
        trial("base", 0, histograms=BINS), trial("new", 0, failed="no"), trial("new", 2, histograms=few),
        trial("new", 1, histograms=few),
    )  # fmt: skip
    assert too_few_beyond(shelf, ["new", "base"], "lat_p99") == 1
    assert too_few_beyond(shelf, ["base"], "lat_p99") is None
    assert too_few_beyond(shelf, ["new", "base"], "iops") is None


def test_typical_is_of_the_blocks_asked_for():
    shelf = shelf_of(*(trial("new", b, metrics={"iops": 10.0**b}, histograms=BINS) for b in range(4)))
    assert typical(shelf, "new", "iops", [1, 3]) == pytest.approx(100)
    assert typical(shelf, "new", "lat_p50", [0]) == 1000
    assert set(upto(shelf, 2)["new"]) == {0, 1}


def test_steps_that_the_tool_tells_of_itself_go_before_the_rule():
    told = {"metrics": {"iops": 9.0, "cpu_per_io": 5e4}, "histograms": BINS}
    shelf = shelf_of(trial("new", 0, **told, steps={"iops": 0.004, "cpu_per_io": 0.02}), trial("base", 0, **told))
    assert pair(shelf, "new", "base", "iops").effect.resolution == pytest.approx(0.004 + 1 / 4000)
    assert pair(shelf, "new", "base", "cpu_per_io").effect.resolution == pytest.approx(0.02)
