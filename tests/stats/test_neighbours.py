"""Blocks that resemble their neighbours: when an interval is widened, and what that repairs."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fairlane.stats.effects import Effect, autocorrelation
from fairlane.stats.neighbours import SUSPECT, likeness, widening
from tests.stats.test_judge import primaries
from tests.words import noted


def lag1(logs):
    return autocorrelation(logs)


def series(rng, n, rho, sd=0.01):
    """A stationary first-order autoregression."""
    x = np.empty(n)
    x[0] = rng.normal()
    for i in range(1, n):
        x[i] = rho * x[i - 1] + math.sqrt(1 - rho**2) * rng.normal()
    return tuple(sd * x)


def shuffled(rng, logs):
    return tuple(rng.permutation(logs))


def test_it_is_the_share_of_orders_that_show_as_much():
    """All 40,320 orders of eight blocks, counted one by one; 999 random ones come close."""
    logs = (0.02, 0.01, 0.05, 0.02, 0.04, 0.07, 0.06, 0.06)
    every = [lag1(order) for order in itertools.permutations(logs)]
    exact = np.mean([r >= lag1(logs) - 1e-12 for r in every])
    assert 0.01 < exact < 0.2
    assert likeness(logs) == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 999))


def test_blocks_in_random_order_are_called_alike_one_time_in_ten():
    """And in a hundredth part of orders at a hundredth: it is a p-value."""
    rng = np.random.default_rng(1)
    found = np.array([likeness(shuffled(rng, series(rng, 12, 0.9))) for _ in range(2000)])
    for level in (0.01, 0.05, SUSPECT):
        assert (found <= level).mean() == pytest.approx(level, abs=3.5 * math.sqrt(level / 2000))


@pytest.mark.parametrize(("rho", "n", "least"), [(0.8, 10, 0.5), (0.8, 20, 0.9), (0.4, 20, 0.4)])
def test_an_autoregression_is_noticed_and_its_blocks_shuffled_are_not(rho, n, least):
    rng = np.random.default_rng(2)
    real = [series(rng, n, rho) for _ in range(200)]
    assert np.mean([likeness(x) <= SUSPECT for x in real]) > least
    assert np.mean([likeness(shuffled(rng, x)) <= SUSPECT for x in real]) < 0.17


def test_blocks_that_alternate_are_not_alike():
    logs = tuple((-1) ** i * 0.01 for i in range(12))
    assert likeness(logs) > 0.99
    assert widening(logs) == 1


@pytest.mark.parametrize("logs", [(0.01, 0.02, 0.03, 0.04, 0.05), (0.02,) * 10, ()])
def test_too_few_blocks_or_none_that_differ_tell_nothing(logs):
    assert likeness(logs) == 1
    assert widening(logs) == 1


def test_neither_level_nor_scale_matters():
    logs = series(np.random.default_rng(3), 15, 0.8)
    moved = tuple(0.7 + 30 * x for x in logs)
    assert likeness(logs) < SUSPECT
    assert (likeness(moved), widening(moved)) == pytest.approx((likeness(logs), widening(logs)))
    assert likeness(tuple(-x for x in logs)) == likeness(logs)


def test_the_factor_is_that_of_an_autoregression_with_kendalls_correction():
    logs = series(np.random.default_rng(6), 60, 0.4)
    r = lag1(logs)
    rho = (r + 1 / 59) / (1 - 3 / 59)
    assert 0.3 < rho < 0.6
    assert widening(logs) == pytest.approx(math.sqrt((1 + rho) / (1 - rho)))
    drift = tuple(0.01 * i for i in range(8))
    assert widening(drift) == pytest.approx(math.sqrt(1.9 / 0.1)), "no more than for a correlation of 0.9"


@pytest.mark.slow
def test_the_factor_is_about_that_of_the_true_correlation():
    """Long series: sqrt((1 + rho) / (1 - rho)) is how much the mean of an autoregression varies more."""
    rng = np.random.default_rng(4)
    factors = [widening(series(rng, 400, 0.6)) for _ in range(30)]
    assert np.mean(factors) == pytest.approx(2.0, rel=0.05)


def test_it_repairs_a_good_part_and_costs_independent_blocks_nothing():
    """False differences at 5 % among equal lanes after 20 blocks, with the factor and without."""

    def false(rho):
        rng = np.random.default_rng(5)
        logs = [series(rng, 20, rho) for _ in range(600)]
        plain, widened = (
            np.mean([Effect(x, factor=f(x)).rejects(0.05) for x in logs]) for f in (lambda _: 1.0, widening)
        )
        return plain, widened

    plain, widened = false(0.6)
    assert plain > 0.25
    assert widened < plain / 2
    plain, widened = false(0.0)
    assert widened <= plain < 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 600)


# --- in a study


def of(run, logs, **options):
    cells = [{"base": [1000.0] * len(x), "new": list(1000 * np.exp(x))} for x in logs]
    return primaries(run(cells, looks=(len(logs[0]),), **options))


ALIKE = (0.11, 0.115, 0.112, 0.108, 0.10, 0.098, 0.093, 0.092, 0.09, 0.096)
MIXED = (0.11, 0.092, 0.115, 0.09, 0.108, 0.112, 0.093, 0.10, 0.096, 0.098)
PARTLY = (0.115, 0.112, 0.108, 0.098, 0.11, 0.1, 0.092, 0.093, 0.09, 0.096)
"""The same figures in other orders."""


def test_the_order_of_blocks_alone_widens_every_interval_and_takes_the_headline(run):
    assert likeness(ALIKE) <= 0.05 < SUSPECT < likeness(MIXED)
    (alike,), (mixed,) = of(run, [ALIKE]), of(run, [MIXED])
    assert alike.ratio == pytest.approx(mixed.ratio)
    for ends in (("low", "high"), ("joint_low", "joint_high"), ("tie_low", "tie_high")):
        wide, narrow = (math.log(getattr(v, ends[1]) / getattr(v, ends[0])) for v in (alike, mixed))
        assert wide / narrow == pytest.approx(widening(ALIKE)), ends
    assert (alike.verdict, mixed.verdict) == ("faster", "faster")
    assert (alike.headline, mixed.headline) == (False, True)
    assert (alike.held, mixed.held) == ("alike-blocks", "")
    assert ("correlated" in noted(alike.notes), "correlated" in noted(mixed.notes)) == (True, False)


def test_the_virtual_clock_has_no_slow_changes_of_one_lane(run):
    cell = {"base": [1000.0] * 10, "new": list(1000 * np.exp(ALIKE))}
    made = replace(run([cell], looks=(10,)), modelled=True)
    (v,) = primaries(made)
    assert v.headline
    half = stats.t.isf(0.025, 9) * np.std(ALIKE, ddof=1) / math.sqrt(10)
    assert math.log(v.high / v.ratio) == pytest.approx(half)


def test_one_of_many_that_are_alike_by_chance_keeps_its_headline(run):
    """The chance to lose one is shared among the primaries."""
    assert 0.05 / 4 < likeness(PARTLY) < 0.05
    assert [v.headline for v in of(run, [PARTLY])] == [False]
    found = of(run, [PARTLY, MIXED, MIXED, MIXED])
    assert [v.headline for v in found] == [True] * 4
    assert "correlated" in noted(found[0].notes), "but it is widened"
