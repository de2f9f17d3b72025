"""Trials without a figure: what they may have shown, and the intervals that allow for it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.stats.missing import reach
from fairlane.stats.pairs import Figure, Reading, apart, pair

STATE = math.log(2)


def readings(values, *, lost=()):
    """A trial per block; None: it failed."""
    return {
        b: Reading(0, "timeout", {}, {}) if v is None else Reading(0, "", {"iops": Figure(v)}, {}, lost=int(b in lost))
        for b, v in enumerate(values)
    }


def test_they_may_have_been_as_far_off_as_any_other():
    ours, theirs = [0.0, 0.1, 0.3], [5.0, 4.8, 5.1]
    assert reach([ours, theirs], [0, 0]) == pytest.approx((-0.2, 0.2))
    assert reach([ours], [0]) == pytest.approx((-0.1, 0.2))


@pytest.mark.parametrize(
    ("shares", "many"), [((0.1, 0), False), ((0, 0.1), False), ((0.1, 0.1), False), ((0.11, 0), True)]
)
def test_more_than_one_in_ten_are_a_state_of_their_own(shares, many):
    low, high = reach([[0.0, 0.01] * 5] * 2, shares)
    assert (low, high) == pytest.approx((-STATE, STATE) if many else (-0.005, 0.005))


def test_figures_far_apart_reach_beyond_a_state():
    assert reach([[0.0, 0.0, 2.0]], [0.5]) == pytest.approx((-STATE, 2.0))


def test_nothing_is_filled_where_nothing_is_missing():
    shelf = {"new": readings([1.2, 1.3]), "base": readings([1.0, 1.0])}
    assert pair(shelf, "new", "base", "iops").filled() == ()
    assert apart(shelf, "new", "base", "iops").filled() == ()
    gone = {"new": readings([None, None]), "base": readings([1.0, 1.0])}
    assert pair(gone, "new", "base", "iops").filled() == ()


LOGS = st.lists(st.one_of(st.none(), st.floats(-1, 1)), min_size=4, max_size=12)


@given(LOGS, LOGS)
def test_both_ends_hold_every_way_to_fill_in(ours, theirs):
    """The two means lie as far apart as any figures within reach could bring them."""
    n = min(len(ours), len(theirs))
    sides = [[None if x is None else math.exp(x) for x in side[:n]] for side in (ours, theirs)]
    both = [b for b in range(n) if None not in (sides[0][b], sides[1][b])]
    found = pair({"new": readings(sides[0]), "base": readings(sides[1])}, "new", "base", "iops")
    if len(both) in (0, n):
        assert not both or found.filled() == ()
        return
    logs = [np.log([x for x in side if x is not None]) for side in sides]
    low, high = reach([side.tolist() for side in logs], [1 - len(side) / n for side in logs])
    ends = [
        [math.log(x) if x is not None else np.median(side) + off for x in values]
        for side, values, off in zip(logs, sides, (low, high), strict=True)
    ]
    least, most = found.filled()
    assert least.n == most.n == n
    assert least.mean == pytest.approx(np.mean(ends[0]) - np.mean(ends[1]), abs=1e-9)
    assert least.mean <= most.mean + 1e-9


def test_the_figure_of_a_second_try_counts_but_the_first_may_have_been_another():
    shelf = {"new": readings([1.2] * 11, lost=[4]), "base": readings([1.0] * 10 + [1.1])}
    found = pair(shelf, "new", "base", "iops")
    assert (found.n, found.voided) == (11, 0)
    least, most = found.filled()
    assert least.logs[4] == pytest.approx(math.log(1.2))
    assert most.logs[4] == pytest.approx(math.log(1.2) + math.log(1.1))
    samples = apart(shelf, "new", "base", "iops")
    assert [len(made.lane) for made in (samples.effect, *samples.filled())] == [11, 12, 12]


def test_blocks_that_were_interrupted_are_nobodys_failure():
    shelf = {"new": readings([1.2] * 5), "base": readings([1.0] * 4)}
    found = pair(shelf, "new", "base", "iops")
    assert (found.n, found.voided, found.filled()) == (4, 1, ())


def test_only_the_blocks_in_question_count():
    shelf = {"new": readings([None, 1.2, 1.2, None, 1.3]), "base": readings([1.0] * 5)}
    found = pair(shelf, "new", "base", "iops")
    assert found.between(1, 3).filled() == ()
    assert [e.n for e in found.between(0, 3).filled()] == [3, 3]
    assert found.between(0, 5) is found


def test_where_the_lane_fails_often_elsewhere_this_cell_was_lucky():
    shelf = {"new": readings([1.2] * 6), "base": readings([1.0] * 6)}
    found = pair(shelf, "new", "base", "iops")
    assert found.filled((0.1, 0.05)) == (), "exceptions"
    for everywhere, off in (((0.25, 0.0), 0.25 * STATE), ((0.25, 0.5), 0.75 * STATE)):
        least, most = found.filled(everywhere)
        assert (least.mean, most.mean) == pytest.approx((math.log(1.2) - off, math.log(1.2) + off))
        assert least.sd == most.sd == found.effect.sd
    one = pair({**shelf, "new": readings([1.2] * 5 + [None])}, "new", "base", "iops")
    assert [e.mean for e in one.filled((0.05, 0.0))] == pytest.approx([math.log(1.2)] * 2), "one in all cells"
    assert one.filled((0.17, 0.0))[0].mean < one.filled()[0].mean < math.log(1.15), "one of many"
    own = pair({**shelf, "new": readings([1.2] * 3 + [None] * 3)}, "new", "base", "iops")
    assert own.filled((0.5, 0.0)) == own.filled((0.2, 0.0)) == own.filled()


def test_provisionings_are_filled_block_by_block():
    shelf = {"new": readings([None, 1.2, 1.2, 1.2]), "base": readings([1.0] * 4)}
    (least, most) = pair(shelf, "new", "base", "iops", each=2).filled()
    assert (least.n, most.n) == (2, 2)
    assert least.logs[0] == pytest.approx(math.log(1.2) - STATE / 2)
    assert most.logs[0] == pytest.approx(math.log(1.2) + STATE / 2)
