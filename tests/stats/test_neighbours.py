"""Blocks that remember the ones before: how that is tested over all cells together, and what it does to intervals."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fairlane.stats.effects import Effect
from fairlane.stats.neighbours import Memory, alike, memory
from tests.stats.test_judge import primaries
from tests.words import noted


def series(rng, n, rho, sd=0.01):
    """A stationary first-order autoregression."""
    x = np.empty(n)
    x[0] = rng.normal()
    for i in range(1, n):
        x[i] = rho * x[i - 1] + math.sqrt(1 - rho**2) * rng.normal()
    return tuple(sd * x)


def cells(rng, many, n, rho):
    return tuple(series(rng, n, rho) for _ in range(many))


def shuffled(rng, rows):
    """All cells in the same random order."""
    order = rng.permutation(len(rows[0]))
    return tuple(tuple(row[i] for i in order) for row in rows)


def likeness(rows):
    """Sum over the cells of the lag-1 autocorrelations."""
    total = 0.0
    for row in rows:
        d = np.array(row) - np.mean(row)
        total += float(d[1:] @ d[:-1]) / float(d @ d)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("units", [5, 8])
def test_it_is_the_share_of_orders_that_show_as_much(units):
    """All orders, counted one by one: of five units these are all tried, of eight 999 random ones come close."""
    rows = ((0.01, 0.02, 0.03, 0.05, 0.04, 0.07, 0.06, 0.06)[:units], (0.1, 0.2, 0.3, 0.5, 0.6, 0.4, 0.9, 0.7)[:units])
    real = likeness(rows)
    orders = itertools.permutations(range(units))
    exact = np.mean([likeness([[row[i] for i in o] for row in rows]) >= real - 1e-12 for o in orders])
    assert 0.005 < exact < 0.3
    assert memory(rows).chance == pytest.approx(
        exact, abs=0 if units == 5 else 4 * math.sqrt(exact * (1 - exact) / 999)
    )


@pytest.mark.parametrize("many", [1, 8])
def test_its_chance_is_a_p_value_whatever_the_cells_share(many):
    """Also where a shock of a block hits all cells alike: it is one event, not eight."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(1000):
        shocks = rng.normal(0, 0.02, 12)
        rows = tuple(tuple(shocks + rng.normal(0, 0.01, 12)) for _ in range(many))
        found.append(memory(rows).chance)
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(found) <= level) == pytest.approx(level, abs=3.5 * math.sqrt(level / 1000))


def test_eight_cells_show_what_one_does_not():
    """After eight blocks, with a correlation of 0.6; in another order there is none."""
    rng = np.random.default_rng(2)
    seen = {many: [memory(cells(rng, many, 8, 0.6)).chance <= 0.05 for _ in range(200)] for many in (1, 8)}
    assert np.mean(seen[1]) < 0.35
    assert np.mean(seen[8]) > 0.8
    mixed = [memory(shuffled(rng, cells(rng, 8, 8, 0.6))).chance <= 0.05 for _ in range(200)]
    assert np.mean(mixed) < 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 200)


@pytest.mark.parametrize("logs", [(0.01, 0.02, 0.03), (0.02,) * 10, ()])
def test_too_few_blocks_or_none_that_differ_tell_nothing(logs):
    assert alike(logs) == Memory()
    assert alike(logs).widening(len(logs)) == 1


def test_blocks_that_alternate_are_not_alike():
    found = alike([(-1) ** i * 0.01 for i in range(12)])
    assert found.chance > 0.99
    assert (found.rho, found.share, found.widening(12), found.worth(12)) == (0, 1, 1, 12)


def test_neither_level_nor_scale_matters():
    logs = series(np.random.default_rng(5), 15, 0.8)
    moved = [0.7 + 30 * x for x in logs]
    assert alike(logs).rho > 0.3
    assert (alike(moved).chance, alike(moved).rho) == pytest.approx((alike(logs).chance, alike(logs).rho))


def test_a_unit_that_a_cell_lacks_is_left_out_of_that_cell():
    rng = np.random.default_rng(4)
    rows = cells(rng, 6, 10, 0.7)
    holes = tuple((math.nan, *row[1:]) if i < 2 else row for i, row in enumerate(rows))
    assert memory(holes).rho == pytest.approx(memory(rows).rho, abs=0.15)


def test_widening_and_degrees_of_freedom_are_those_of_an_autoregression():
    """Simulated: variance of the mean of n values, mean of their s^2, and what a t interval then covers."""
    rng, rho, n = np.random.default_rng(5), 0.6, 10
    known = Memory(0.0, rho, rho)
    made = np.array([series(rng, n, rho, sd=1) for _ in range(20_000)])
    means, spreads = made.mean(axis=1), made.std(axis=1, ddof=1)
    assert n / known.worth(n) == pytest.approx(means.var() * n, rel=0.05)
    assert known.widening(n) ** 2 == pytest.approx(means.var() * n / (spreads**2).mean(), rel=0.05)
    limit = stats.t.isf(0.025, max(1, known.share * (n - 1)))
    assert np.mean(np.abs(means) > limit * known.widening(n) * spreads / math.sqrt(n)) == pytest.approx(0.05, abs=0.025)


def test_the_correlation_is_found_less_its_standard_error():
    rng = np.random.default_rng(6)
    for many, n, low, high in ((24, 20, 0.45, 0.6), (1, 20, 0.1, 0.45)):
        assert low < np.mean([memory(cells(rng, many, n, 0.6)).rho for _ in range(100)]) < high


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_slow_wave_is_found_beneath_noise_that_does_not_last(noise):
    """24 cells, 20 blocks: the correlation at lag 1 is 0.8 of the wave's share, and it decays by 0.8 in both."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(100):
        waves = np.array(cells(rng, 24, 20, 0.8))
        found.append(memory(tuple(map(tuple, waves + noise * rng.normal(0, 0.01, waves.shape)))).seen)
    rho, decay = np.mean(found, axis=0)
    assert rho == pytest.approx(0.8 / (1 + noise), abs=0.08)
    assert decay == pytest.approx(0.8, abs=0.08)


# --- in a study


def of(run, logs, **options):
    cells_ = [{"base": [1000.0] * len(x), "new": list(1000 * np.exp(x))} for x in logs]
    return primaries(run(cells_, looks=(len(logs[0]),), **options))


ALIKE = (0.020, 0.028, 0.032, 0.027, 0.019, 0.011, 0.009, 0.014, 0.021, 0.029, 0.028, 0.018)
MIXED = (0.027, 0.011, 0.032, 0.014, 0.028, 0.009, 0.019, 0.020, 0.029, 0.018, 0.021, 0.028)
"""The same figures in another order."""


def test_the_order_of_blocks_alone_widens_every_interval_and_takes_the_headline(run):
    shown = alike(ALIKE)
    assert shown.chance <= 0.05 < alike(MIXED).chance
    assert alike(MIXED).rho == 0
    (held,), (free,) = of(run, [ALIKE]), of(run, [MIXED])
    assert held.ratio == pytest.approx(free.ratio)
    few, many = (stats.t.isf(0.025, df) for df in (11 * shown.share, 11))
    wide, narrow = (math.log(v.high / v.low) for v in (held, free))
    assert wide / narrow == pytest.approx(shown.widening(12) * few / many)
    assert (held.verdict, free.verdict) == ("different-but-small",) * 2
    assert (held.headline, free.headline) == (False, True)
    assert (held.held, free.held) == ("alike-blocks", "")
    assert held.held_because == f"blocks remember: 12 blocks are worth {shown.whole.worth(12):.0f}"
    assert ("correlated" in noted(held.notes), "correlated" in noted(free.notes)) == (True, False)


def test_the_virtual_clock_has_no_slow_changes_of_one_lane(run):
    cell = {"base": [1000.0] * 12, "new": list(1000 * np.exp(ALIKE))}
    made = replace(run([cell], looks=(12,)), modelled=True)
    (v,) = primaries(made)
    assert v.headline
    half = stats.t.isf(0.025, 11) * np.std(ALIKE, ddof=1) / math.sqrt(12)
    assert math.log(v.high / v.ratio) == pytest.approx(half)


def test_all_cells_of_a_pair_of_lanes_answer_together(run):
    """One cell that is alike among calm ones widens all of them a little, and takes no headline."""
    found = of(run, [ALIKE, MIXED, MIXED, MIXED])
    assert [v.headline for v in found] == [True] * 4
    assert len({"correlated" in noted(v.notes) for v in found}) == 1
    assert [v.headline for v in of(run, [ALIKE] * 4)] == [False] * 4
    far = [x + 0.2 for x in ALIKE]
    assert [v.headline for v in of(run, [far] * 4)] == [True] * 4, "12 blocks that are worth 2 show as much"


@pytest.mark.slow
def test_it_repairs_most_and_costs_independent_blocks_little():
    """False differences at 5 % among equal lanes, one cell of eight, after 20 blocks: with what the cells show, and
    without."""

    def false(rho):
        rng = np.random.default_rng(7)
        plain, widened = [], []
        for _ in range(400):
            rows = cells(rng, 8, 20, rho)
            found = memory(rows)
            plain.append(Effect(rows[0]).rejects(0.05))
            widened.append(Effect(rows[0], factor=found.widening(20), share=found.share).rejects(0.05))
        return np.mean(plain), np.mean(widened)

    plain, widened = false(0.6)
    assert plain > 0.2
    assert widened < plain / 3
    plain, widened = false(0.0)
    assert widened <= plain < 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 400)
