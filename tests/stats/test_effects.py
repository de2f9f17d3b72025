import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairlane.stats.effects import (
    Effect,
    blocks_needed,
    hodges_lehmann,
    position_effect,
    sign_flip_p,
)

logs = st.lists(st.floats(-1, 1).map(lambda x: round(x, 6)), min_size=2, max_size=25).map(tuple)
spread = logs.filter(lambda d: max(d) - min(d) > 1e-5)
levels = st.sampled_from([0.2, 0.1, 0.05, 0.0209, 0.003, 1e-6])


@given(spread, levels)
def test_interval_is_scipys(d, level):
    known = stats.ttest_1samp(d, 0).confidence_interval(1 - level)
    assert Effect(d).interval(level) == pytest.approx((known.low, known.high), rel=1e-6, abs=1e-9)


@given(spread)
def test_p_is_scipys(d):
    assert Effect(d).p == pytest.approx(stats.ttest_1samp(d, 0).pvalue, rel=1e-6, abs=1e-12)


@given(logs, levels, st.sampled_from([0.0, 0.01]))
def test_rejecting_is_excluding_no_difference(d, level, resolution):
    effect = Effect(d, resolution)
    low, high = effect.interval(level)
    assert effect.rejects(level) == (low > 0 or high < 0)
    if abs(effect.p - level) > 1e-9:
        assert effect.rejects(level) == (effect.p <= level)


def test_no_spread_is_a_point_as_wide_as_the_resolution():
    assert Effect((0.1, 0.1, 0.1)).sd == 0
    assert Effect((0.1, 0.1, 0.1)).interval(0.001) == pytest.approx((0.1, 0.1))
    assert Effect((0.1, 0.1, 0.1), 0.02).interval(0.001) == pytest.approx((0.08, 0.12))
    assert Effect((0.1, 0.1)).p == 0
    assert Effect((0.0, 0.0)).p == 1
    assert not Effect((0.0, 0.0)).rejects(0.05)
    assert not Effect((0.01, 0.01), 0.0156).rejects(0.05), "less than the bins can tell"


def test_rounding_is_no_spread_and_no_difference():
    d = tuple(math.log(x * 1.1) - math.log(x) for x in (1.7e3, 3.3e5, 9.1e7, 12.7))
    assert Effect(d).sd == 0
    noise = tuple(math.log(x * 3 / 3 / x) for x in (0.1, 0.7, 1e9))
    assert not Effect(noise).rejects(0.05)


def test_one_block_has_no_spread():
    with pytest.raises(ValueError, match="no spread"):
        Effect((0.1,)).interval(0.05)


def test_two_blocks_are_honest_about_how_little_they_know():
    """t with one degree of freedom: at 95 % the interval is 9 standard deviations to either side."""
    assert Effect((0.09, 0.11)).half_width(0.05) == pytest.approx(12.7062 * 0.01, rel=1e-4)


def test_blocks_needed_is_the_design_notes_table():
    assert [blocks_needed(sd, 0.02, 0.05) for sd in (0.01, 0.02, 0.05, 0.10)] == [4, 7, 27, 99]


@given(st.floats(1e-4, 0.5), st.floats(0.01, 0.2), levels)
def test_blocks_needed_is_the_fewest(sd, half, level):
    n = blocks_needed(sd, half, level)
    assert n is not None

    def width(k):
        return stats.t.isf(level / 2, k - 1) * sd / k**0.5

    assert width(n) <= half * (1 + 1e-9)
    assert n == 2 or width(n - 1) > half * (1 - 1e-9)


def test_blocks_needed_can_be_out_of_reach():
    assert blocks_needed(1.0, 1e-6, 0.05) is None
    assert blocks_needed(0.1, 0.0, 0.05) is None
    assert blocks_needed(0.1, -0.1, 0.05) is None
    assert blocks_needed(0.0, 0.01, 0.05) == 2


@given(st.lists(st.integers(-20, 20), min_size=6, max_size=9))
def test_sign_flips_are_counted_as_if_listed(d):
    ways = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=len(d))
    ]
    assert sign_flip_p([x / 64 for x in d]) == sum(w >= abs(sum(d)) for w in ways) / len(ways)


def test_sign_flips_know_their_limits():
    assert sign_flip_p([0.1] * 5) is None
    assert sign_flip_p([0.1] * 41) is None
    assert sign_flip_p([0.1] * 6) == 2 / 2**6
    assert sign_flip_p([0.1] * 40) == 2 / 2**40
    assert sign_flip_p([0.0] * 8) == 1


def test_sign_flips_agree_with_scipy_at_12_blocks():
    d = np.random.default_rng(4).normal(0.01, 0.02, 12)
    known = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=10**6)
    assert sign_flip_p(d.tolist()) == pytest.approx(known.pvalue, rel=1e-12)


def test_hodges_lehmann_is_not_pulled_away():
    d = [0.10, 0.11, 0.09, 0.10, 0.12, -3.0]
    assert hodges_lehmann(d) == pytest.approx(0.0975, abs=0.01)
    assert Effect(tuple(d)).mean < -0.4
    walsh = [(a + b) / 2 for a, b in itertools.combinations_with_replacement(d, 2)]
    assert hodges_lehmann(d) == pytest.approx(float(np.median(walsh)))


@given(spread.filter(lambda d: len(d) >= 6), st.randoms(use_true_random=False))
def test_position_effect_is_the_pooled_t_test(d, rng):
    first = [i % 2 == 0 for i in range(len(d))]
    rng.shuffle(first)
    mine = [x for x, f in zip(d, first, strict=True) if not f]
    other = [x for x, f in zip(d, first, strict=True) if f]
    found = position_effect(d, first)
    assert found is not None
    assert found.shift == pytest.approx(np.mean(mine) - np.mean(other), abs=1e-12)
    if min(np.ptp(mine), np.ptp(other)) > 1e-5:
        assert found.p == pytest.approx(stats.ttest_ind(mine, other).pvalue, rel=1e-5, abs=1e-9)


def test_position_effect_without_spread_is_certain():
    found = position_effect([0.1, 0.2, 0.1, 0.2], [True, False, True, False])
    assert found is not None
    assert found.shift == pytest.approx(0.1)
    assert found.p == 0
    same = position_effect([0.1] * 4, [True, False] * 2)
    assert same is not None
    assert same.p == 1
    assert position_effect([0.1, 0.2, 0.3], [True, False, True]) is None
