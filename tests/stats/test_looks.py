"""The planned looks spend their error exactly: by simulating t tests, whose spread is estimated, path by path."""

import math

import numpy as np
import pytest
from scipy.special import stdtr

from fairlane.stats.looks import level, nominal_levels, spent

DEFAULT = tuple(range(4, 21, 2))
PLANS = [DEFAULT, (6, 10, 15, 20), (3, 6), (5, 10, 20, 40, 60), (2, 3, 4, 5, 6, 7, 8), (10, 11)]
PATHS = 60_000


def crossings(usable, levels, seed):
    """Share of studies without a difference that crossed a boundary up to each look."""
    rng = np.random.default_rng(seed)
    crossed = np.zeros((PATHS, len(usable)), bool)
    total, squares, before = np.zeros(PATHS), np.zeros(PATHS), 0
    for k, (n, nominal) in enumerate(zip(usable, levels, strict=True)):
        blocks = rng.standard_normal((PATHS, n - before))
        total, squares, before = total + blocks.sum(1), squares + (blocks**2).sum(1), n
        t = total / n / np.sqrt(np.maximum(squares - total**2 / n, 1e-12) / (n - 1) / n)
        crossed[:, k] = 2 * stdtr(n - 1, -np.abs(t)) <= nominal
    return np.logical_or.accumulate(crossed, axis=1).mean(axis=0)


def error(share):
    return 3.5 * math.sqrt(share / PATHS) + 2e-4


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("alpha", [0.1, 0.05 / 8])
def test_each_look_spends_what_it_may(plan, alpha):
    shares = crossings(plan, nominal_levels(plan, alpha), seed=plan[-1])
    for n, share in zip(plan, shares, strict=True):
        planned = alpha * spent(n, plan[-1])
        assert share == pytest.approx(planned, abs=error(planned)), n


def test_spending_is_that_of_hwang_shih_and_decani():
    """gamma = -2: (1 - e^(2 t)) / (1 - e^2) of the error after the share t of the blocks."""
    shares = [spent(n, 20) for n in DEFAULT]
    assert shares == pytest.approx([(1 - math.exp(2 * n / 20)) / (1 - math.exp(2)) for n in DEFAULT])
    assert shares[-1] == 1
    assert shares[0] == pytest.approx(0.077, abs=5e-4)


@pytest.mark.parametrize(
    ("alpha", "factors"),
    [
        (0.05, (8.16, 5.32, 4.17, 3.59, 3.22, 2.95, 2.74, 2.55, 2.39)),
        (0.05 / 8, (16.54, 8.58, 6.16, 5.12, 4.53, 4.14, 3.86, 3.63, 3.44)),
        (0.05 / 24, (23.90, 10.87, 7.41, 6.02, 5.27, 4.78, 4.44, 4.18, 3.96)),
        (0.10, (6.41, 4.47, 3.58, 3.11, 2.79, 2.55, 2.34, 2.16, 2.00)),
    ],
)
def test_boundaries_of_the_default_plan(alpha, factors):
    """Half widths in standard errors, from another implementation with four times as many bins."""
    from scipy.special import stdtrit  # noqa: PLC0415

    ours = [-stdtrit(n - 1, p / 2) for n, p in zip(DEFAULT, nominal_levels(DEFAULT, alpha), strict=True)]
    assert ours == pytest.approx(factors, rel=2e-3)


def test_one_look_is_alpha_itself():
    assert nominal_levels((7,), 0.05) == (0.05,)
    assert level((7,), (7,), 0.0123) == 0.0123


def test_levels_rise_with_alpha_at_every_look():
    """What Holm through looks needs (Maurer and Bretz 2013), and what keeps the tie interval inside the other."""
    alphas = [1e-4, 0.05 / 16, 0.05 / 3, 0.025, 0.05, 0.1, 0.5, 0.9]
    for plan in PLANS:
        table = np.array([nominal_levels(plan, a) for a in alphas])
        assert (np.diff(table, axis=0) > 0).all()
        assert (table <= np.array(alphas)[:, None]).all()


@pytest.mark.parametrize("usable", [(5, 9, 14, 19), (6, 9, 9 + 1, 20), (3, 10, 15, 16), (2, 3, 4, 5), (6, 10, 14, 19)])
def test_voided_blocks_spend_what_the_plan_spends(usable):
    plan = (6, 10, 15, 20)
    levels = [level(plan, usable[: k + 1], 0.05) for k in range(4)]
    shares = crossings(usable, levels, seed=4)
    for n, share in zip(plan, shares, strict=True):
        planned = 0.05 * spent(n, plan[-1])
        assert share == pytest.approx(planned, abs=error(planned))


def test_no_voids_is_the_plan():
    for k in range(len(DEFAULT)):
        assert level(DEFAULT, DEFAULT[: k + 1], 0.05) == pytest.approx(nominal_levels(DEFAULT, 0.05)[k], rel=1e-9)


def test_a_look_that_brings_no_block_spends_nothing():
    plan = (6, 10, 15, 20)
    assert level(plan, (1, 10), 0.05) == pytest.approx(level(plan, (0, 10), 0.05))
    levels = [nominal_levels(plan, 0.05)[0], level(plan, (6, 6, 15), 0.05)]
    planned = 0.05 * spent(15, 20)
    assert crossings((6, 15), levels, seed=5)[-1] == pytest.approx(planned, abs=error(planned))


def test_a_single_test_at_every_look_would_err_three_times_as_often():
    assert crossings(DEFAULT, [0.05] * len(DEFAULT), seed=6)[-1] > 0.15


@pytest.mark.parametrize("plan", [(), (6, 6), (10, 6), (0, 4)])
def test_no_plan(plan):
    with pytest.raises(ValueError, match="rising"):
        nominal_levels(plan, 0.05)


@pytest.mark.parametrize("alpha", [0, 1, -0.1])
def test_no_error_rate(alpha):
    with pytest.raises(ValueError, match="between 0 and 1"):
        nominal_levels(DEFAULT, alpha)


@pytest.mark.parametrize("usable", [(), (6, 5), (1,), (6, 6), (5, 9, 14, 19, 20)])
def test_no_look(usable):
    with pytest.raises(ValueError, match=r"look|fit"):
        level((6, 10, 15, 20), usable, 0.05)
