"""Failures and stalls: which words they withhold, and which they leave."""

import math

import numpy as np
import pytest
from scipy import stats

from fairlane.records import Note, Observation
from fairlane.stats.lopsided import in_a_row, withheld
from fairlane.stats.pairs import Figure, Reading, shelve
from fairlane.stats.stopping import open_cells
from tests.stats.test_judge import around, primaries
from tests.words import note, noted


def why(word, shelf, lane, baseline, metric):
    return withheld(word, shelf, lane, baseline, metric)


ALIKE = ("tie", "different-but-small")
WORDS = ("faster", "slower", *ALIKE)
OTHERS = ("inconclusive", "refused", "no-spread")


def trials(n, *, failed=0, slow=0, stalled=0, value=1000.0, factor=0.5):
    """``n`` readings, the first ones failed, then some at ``factor`` of the rest, then some with a stall inside."""
    found = {}
    for b in range(n):
        if b < failed:
            found[b] = Reading(0, "fio was killed by signal 9", {}, {})
        else:
            figure = Figure(value * (factor if b < failed + slow else 1.0))
            inside = failed + slow <= b < failed + slow + stalled
            found[b] = Reading(0, "", {"iops": figure, "lat_p99": figure}, {}, stalled=inside)
    return found


def taken(ours, theirs, metric="iops"):
    """The words that are withheld, with the kinds of the reasons."""
    shelf = {"new": ours, "base": theirs}
    reasons = {word: why(word, shelf, "new", "base", metric) for word in (*WORDS, *OTHERS)}
    assert all(isinstance(note, Note) for note in reasons.values() if note)
    return {word: note.kind for word, note in reasons.items() if note}


FAILURES = "lopsided-failures"
STALLS = "lopsided-stalls"


def test_clean_trials_withhold_nothing():
    assert taken(trials(10), trials(10)) == {}


@pytest.mark.parametrize("failed", [1, 9])
@pytest.mark.parametrize("side", [0, 1])
def test_a_lane_that_fails_alone_is_not_like_the_other(failed, side):
    """A difference has what the failed trials may have shown in its interval."""
    sides = [trials(10), trials(10)]
    sides[side] = trials(10, failed=failed)
    assert taken(*sides) == dict.fromkeys(ALIKE, FAILURES)


@pytest.mark.parametrize(("ours", "theirs"), [(2, 2), (3, 2), (1, 3), (9, 10)])
def test_failures_that_are_even_withhold_nothing(ours, theirs):
    assert taken(trials(20, failed=ours), trials(20, failed=theirs)) == {}


@pytest.mark.parametrize(("ours", "theirs"), [(a, b) for a in range(1, 13, 2) for b in range(1, 13, 2)])
def test_uneven_is_what_fishers_test_says(ours, theirs):
    """Both fail: at one in ten, one-sided."""
    more, fewer = max(ours, theirs), min(ours, theirs)
    p = stats.fisher_exact(np.array([[more, 12 - more], [fewer, 12 - fewer]]), alternative="greater").pvalue
    uneven = dict.fromkeys(ALIKE, FAILURES) if p < 0.1 else {}
    assert taken(trials(12, failed=ours), trials(12, failed=theirs)) == uneven


def test_shares_count_and_not_numbers():
    """One of 2 trials is more than 2 of 40, but so few trials show little; 6 of 10 against 8 of 40 show it."""
    assert taken(trials(40, failed=2), trials(2, failed=1)) == {}
    assert taken(trials(10, failed=6), trials(40, failed=8)).keys() == {*ALIKE}


def test_the_counts_stand_in_the_reason():
    reason = why("tie", {"new": trials(10, failed=3), "base": trials(8)}, "new", "base", "iops")
    assert [word for word in reason.replace(",", "").split() if word.isdigit()] == ["3", "10", "0", "8"]


def test_a_lane_without_trials_is_no_reason():
    assert taken({}, trials(5)) == {}


# --- stalls


@pytest.mark.parametrize("which", ["slow", "stalled"])
@pytest.mark.parametrize("side", [0, 1])
def test_stalls_of_one_lane_withhold_only_that_lanes_are_alike(which, side):
    """A difference stands: it is of means, which stalls are part of."""
    sides = [trials(10), trials(10)]
    sides[side] = trials(10, **{which: 1})
    assert taken(*sides) == dict.fromkeys(ALIKE, STALLS)


def test_stalls_that_are_even_withhold_nothing():
    assert taken(trials(10, slow=2), trials(10, stalled=1)) == {}
    assert taken(trials(20, slow=8), trials(20, stalled=1)) == dict.fromkeys(ALIKE, STALLS)


def test_a_trial_that_is_slow_and_stalled_counts_once():
    both = {b: Reading(0, "", r.figures, {}, stalled=b == 0) for b, r in trials(12, slow=1).items()}
    reason = why("tie", {"new": both, "base": trials(12)}, "new", "base", "iops")
    assert reason.split()[1] == "1"


@pytest.mark.parametrize(("metric", "factor", "slow"), [
    ("iops", 0.69, True), ("iops", 0.71, False), ("iops", 3.0, False),
    ("lat_p99", 1 / 0.69, True), ("lat_p99", 1 / 0.71, False), ("lat_p99", 0.3, False),
])  # fmt: skip
def test_slow_is_less_than_seven_tenths_of_the_lanes_own_median(metric, factor, slow):
    assert bool(taken(trials(10, slow=1, factor=factor), trials(10), metric)) == slow


def test_failures_come_before_stalls():
    assert taken(trials(10, failed=1, slow=1), trials(10)) == dict.fromkeys(ALIKE, FAILURES)
    sides = trials(10, failed=1, slow=1), trials(10, failed=1)
    assert taken(*sides) == dict.fromkeys(ALIKE, STALLS)


# --- what is a stall inside a trial


def observed(longest_ms=1.0, rates=(1000.0, 990.0, 1010.0), runtime=1000):
    load = {"runtime_ms": runtime, "series": {"iops": list(rates)}}
    bins = {"read.lat": {100_000: 5000, round(longest_ms * 1e6): 1}}
    (shelf,) = shelve(
        [Observation("c", 0, "new", 0, metrics={"iops": 1000.0}, histograms=bins, context={"load": load})]
    ).values()
    return shelf["new"][0].stalled


@pytest.mark.parametrize(
    ("given", "stalled"),
    [
        ({}, False),
        ({"longest_ms": 99}, False),
        ({"longest_ms": 101}, True),
        ({"longest_ms": 101, "runtime": 2000}, False),
        ({"rates": (1000.0, 499.0, 1000.0)}, True),
        ({"rates": (1000.0, 501.0, 1000.0)}, False),
        ({"rates": (1000.0, 0.0)}, False),  # of two intervals none is the odd one
        ({"runtime": 0, "rates": ()}, False),
    ],
)
def test_a_tenth_of_the_trial_in_one_io_or_half_of_the_rate_in_an_interval(given, stalled):
    assert observed(**given) == stalled


# --- stalls that come together


def test_the_mean_length_of_runs():
    assert in_a_row([]) == in_a_row([(range(4), ())]) == in_a_row([(range(4), {0, 2})]) == 1
    assert in_a_row([(range(9), {0, 1, 2, 6}), (range(9), {8})]) == 5 / 3
    assert in_a_row([([0, 2, 5], {0, 2})]) == 2, "blocks in which the lane did not run are no pause"


def test_the_bound_for_the_unseen_counts_stalls_in_a_row_as_one(run):
    calm = {"base": around(1000, 20), "new": around(1000, 20, -0.004)}
    stalls = {**calm, "new": [500.0 if block in (4, 5, 6, 7) else x for block, x in enumerate(calm["new"])]}
    alone, beside = (primaries(run(cells, looks=(20,)))[0] for cells in ([calm, calm], [calm, stalls]))
    assert alone.verdict == beside.verdict == "tie"
    assert (1 - alone.unseen, 1 - beside.unseen) == pytest.approx((0.05 ** (1 / 20), 0.05 ** (4 / 20)))


# --- in a study


def with_failures(run, new, base=()):
    cell = {"base": around(1000, 20), "new": around(1200, 20, -0.004)}
    for lane, lost in (("new", new), ("base", base)):
        for block in lost:
            cell[lane][block] = None
    return run([cell], looks=(10, 20))


def test_a_difference_survives_failures_that_cannot_undo_it(run):
    v = primaries(with_failures(run, [2, 7]))[0]
    assert (v.verdict, v.headline, v.blocks, v.voided) == ("faster", True, 18, 2)
    clean = primaries(with_failures(run, []))[0]
    assert v.low < clean.low < clean.high < v.high, "they may have been as slow, or as fast, as any other"


def test_failures_that_are_many_may_have_been_half_as_fast(run):
    """Even ones, too: of one lane the slow trials may fail, and of the other any."""
    v = primaries(with_failures(run, [2, 7, 12], [4, 5, 14]))[0]
    assert (v.verdict, v.headline, v.blocks, v.voided) == ("inconclusive", False, 14, 6)
    assert v.joint_low < 1 < v.ratio == pytest.approx(1.2, rel=0.01)
    assert "missing" in noted(v.notes)
    assert {"3", "20"} <= set(note(v.notes, "missing").split())
    assert "detectable" not in noted(v.notes), "it is not for want of blocks"
    assert v.more_blocks is None


def test_a_cell_without_failures_of_a_lane_that_fails_elsewhere_was_lucky(run):
    failing, lucky = ({"base": around(1000, 20), "new": around(1150, 20, -0.004)} for _ in range(2))
    assert primaries(run([failing, lucky], looks=(20,)))[1].headline
    failing["new"][::2] = [None] * 10
    v = primaries(run([failing, lucky], looks=(20,)))[1]
    assert (v.verdict, v.headline, v.voided) == ("inconclusive", False, 0)
    assert {"25", "0"} <= set(note(v.notes, "missing").split()), "of both cells"


def test_a_tie_of_a_lane_that_fails_alone_is_withheld(run):
    cell = {"base": around(1000, 20), "new": around(1000, 20, -0.004)}
    assert primaries(run([cell], looks=(20,)))[0].verdict == "tie"
    cell["new"][3] = None
    v = primaries(run([cell], looks=(20,)))[0]
    assert (v.verdict, noted(v.notes)[0]) == ("inconclusive", FAILURES)
    cell["base"][5] = None
    assert primaries(run([cell], looks=(20,)))[0].verdict == "tie", "one of each, like any other"


def test_failures_beyond_the_look_are_not_counted(run):
    """The first look has ten clean blocks; that the lane fails later does not reach back."""
    made = with_failures(run, [14, 15])
    first_look = open_cells(made.study, made.observations, 0)
    assert first_look == open_cells(made.study, [o for o in made.observations if o.block < 10], 0) == frozenset()


def test_a_tie_of_a_lane_that_stalls_is_withheld(run):
    cell = {"base": around(1000, 20), "new": around(1000, 20, -0.004)}
    assert primaries(run([cell]))[0].verdict == "tie"

    def stalls(lane, block, value):
        return {} if (lane, block) != ("new", 3) else {"iops": value * 0.69}

    v = primaries(run([cell], margins={"iops": 0.2}, others=stalls))[0]
    assert math.log(v.tie_high / v.ratio) < math.log(1.2), "the interval is narrow enough"
    assert v.verdict == "inconclusive"
    assert STALLS in noted(v.notes)
