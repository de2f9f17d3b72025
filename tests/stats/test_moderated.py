"""Spreads that cells lend each other: Smyth's formulas, and the limits of what is lent."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special, stats

from fairlane.stats.effects import Effect
from fairlane.stats.moderated import Common, Moderated, common
from tests.stats.test_judge import drawn_at, primaries
from tests.words import noted


def lending(spreads):
    return common(spreads)


SPREADS = [("a", 0.010, 5.0), ("b", 0.022, 5.0), ("c", 0.046, 5.0), ("d", 0.015, 5.0)]


def smyth(variances, df):
    """s0^2 and d0 by the moments of the log variances (Smyth 2004, section 6.2): written anew, solved by scipy."""
    z = np.log(variances)
    e = z - special.digamma(df / 2) + np.log(df / 2)
    excess = ((e - e.mean()) ** 2).sum() / (len(e) - 1) - special.polygamma(1, df / 2)
    d0 = 2 * optimize.brentq(lambda x: special.polygamma(1, x) - excess, 1e-3, 1e4)
    return math.exp(e.mean() + special.digamma(d0 / 2) - math.log(d0 / 2)), d0


def test_by_hand_they_are_smyths():
    found = lending(SPREADS)
    s0, d0 = smyth(np.array([sd**2 for _, sd, _ in SPREADS]), 5.0)
    assert 1 < d0 < 8, "no limit interferes"
    assert (found.variance, found.df) == pytest.approx((s0, d0), rel=1e-8)
    assert found.cells == 4
    assert found.mean_sd == pytest.approx(stats.gmean([sd for _, sd, _ in SPREADS]))


def test_a_comparison_gets_the_weighted_mean_of_the_variances():
    lent = Common(variance=0.0004, df=6.0, mean_sd=0.001)
    assert lent.applied(0.01, 9.0, 10) == pytest.approx(math.sqrt((6 * 0.0004 + 9 * 0.0001) / 15))
    d = tuple(np.random.default_rng(1).normal(0.05, 0.01, 10))
    effect = Moderated.of(Effect(d), lent)
    mixed = math.sqrt((6 * 0.0004 + 9 * np.var(d, ddof=1)) / 15)
    assert (effect.sd, effect.df, effect.mean) == pytest.approx((mixed, 15, np.mean(d)))
    assert effect.half_width(0.02) == pytest.approx(stats.t.isf(0.01, 15) * mixed / math.sqrt(10))
    assert effect.p == pytest.approx(2 * stats.t.sf(np.mean(d) / mixed * math.sqrt(10), 15))
    n = effect.needed(0.01, 0.05) or 0
    assert stats.t.isf(0.025, n - 1 + 6) * mixed / math.sqrt(n) <= 0.01
    assert stats.t.isf(0.025, n - 2 + 6) * mixed / math.sqrt(n - 1) > 0.01
    assert Moderated.of(Effect(d, factor=2.0), lent).sd == pytest.approx(2 * mixed), "blocks that are alike widen it"
    assert Moderated.of(Effect(d, resolution=0.3), lent).half_width(0.05) == 0.3, "no interval is narrower than steps"


def test_below_eight_blocks_no_spread_is_less_than_the_cells_mean():
    """Noise with two states can look calm for four blocks."""
    found = lending(SPREADS)
    calm = found.applied(0.0001, 3, 4)
    assert calm == found.mean_sd
    assert found.applied(0.0001, 6, 7) == found.mean_sd
    assert found.applied(0.0001, 7, 8) < found.mean_sd
    assert found.applied(0.5, 3, 4) > found.mean_sd, "a floor, and no ceiling"


@pytest.mark.parametrize("cells", ["ab", "aabb", "abz"])
def test_fewer_than_three_cells_that_vary_lend_nothing(cells):
    spreads = [(cell, 0.0 if cell == "z" else 0.01, 5.0) for cell in cells]
    assert lending(spreads) is None
    assert lending([*spreads, ("c", 0.01, 5.0)]) is not None


def test_cells_that_are_alike_lend_eight_degrees_of_freedom_and_no_more():
    alike = [(str(i), 0.01, 9.0) for i in range(20)]
    assert lending(alike).df == 8
    assert lending(alike).mean_sd == pytest.approx(0.01)
    rng = np.random.default_rng(3)
    chance = [(str(i), 0.01 * math.sqrt(rng.chisquare(9) / 9), 9.0) for i in range(200)]
    assert lending(chance).df == 8
    assert math.sqrt(lending(chance).variance) == pytest.approx(0.01, rel=0.08)


def test_cells_that_differ_keep_their_own():
    wild = lending([(str(i), 10.0 ** (-i), 9.0) for i in range(5)])
    assert wild.df < 0.5
    assert wild.applied(0.01, 9.0, 10) == pytest.approx(0.01, rel=0.5)


def test_no_more_is_lent_than_the_other_cells_know():
    """Two blocks of each of three cells: one degree of freedom each."""
    assert lending([(cell, 0.01, 1.0) for cell in "abc"]).df == 2
    assert lending([("a", 0.01, 19.0), ("b", 0.01, 1.0), ("c", 0.01, 1.0)]).df == 2, "the largest may not lend itself"


def test_comparisons_of_one_cell_count_once():
    """They share the baseline's trials."""
    once = [(cell, 0.01, 1.0) for cell in "abc"]
    assert lending(once * 5).df == lending(once).df == 2
    assert lending(once * 5).cells == 3


def test_what_is_planted_comes_back():
    """Variances from the model itself: s0^2 = 0.02^2 with d0 = 4."""
    rng = np.random.default_rng(4)
    true = 4 * 0.02**2 / rng.chisquare(4, 3000)
    found = lending([(str(i), math.sqrt(v * rng.chisquare(9) / 9), 9.0) for i, v in enumerate(true)])
    assert (math.sqrt(found.variance), found.df) == pytest.approx((0.02, 4), rel=0.1)


# --- in a study


def cells_of(count, blocks, *, sd=0.01, shift=0.0, seed=7):
    rng = np.random.default_rng(seed)
    shifted = 1000 * np.exp(shift + rng.normal(0, sd, (count, blocks)))
    return [{"base": [1000.0] * blocks, "new": list(row)} for row in shifted]


def test_the_verdicts_of_a_study_use_what_its_cells_lend(run):
    cells = cells_of(6, 10)
    logs = [np.log(np.array(cell["new"]) / 1000) for cell in cells]
    verdicts = [v for v in primaries(run(cells, looks=(10,))) if "correlated" not in noted(v.notes)]
    assert len(verdicts) >= 4
    found = lending([(str(i), float(np.std(d, ddof=1)), 9.0) for i, d in enumerate(logs)])
    for v in verdicts:
        d = logs[[math.isclose(np.mean(x), math.log(v.ratio)) for x in logs].index(True)]
        half = stats.t.isf(0.025, 9 + found.df) * found.applied(np.std(d, ddof=1), 9, 10) / math.sqrt(10)
        assert math.log(v.high / v.ratio) == pytest.approx(half)


def test_two_cells_keep_their_own(run):
    cells = cells_of(2, 10)
    for v, cell in zip(primaries(run(cells, looks=(10,))), cells, strict=True):
        if "correlated" not in noted(v.notes):
            assert drawn_at(v.low, v.high, np.log(np.array(cell["new"]) / 1000)) == pytest.approx(0.05)


def test_printed_with_lent_spread_at_two_fifths_of_alpha_and_with_its_own_at_three_tenths(run):
    plan = (6, 10)
    lent, own = (primaries(run(cells_of(count, 6), looks=plan)) for count in (3, 2))
    assert {v.level for v in lent} == {0.4 * 0.05}
    assert {v.level for v in own} == {0.3 * 0.05}


@pytest.mark.parametrize(("count", "word"), [(6, "faster"), (5, "inconclusive")])
def test_four_blocks_are_enough_where_six_cells_lend(run, count, word):
    made = run(cells_of(count, 4, shift=0.3), looks=(4, 8), complete=False)
    verdicts = primaries(made)
    assert {v.verdict for v in verdicts} == {word}
    assert {v.headline for v in verdicts} == {word == "faster"}


def test_later_looks_of_other_cells_change_no_ended_one(run):
    """Six cells at their first look; five go on and turn wild. The one that ended keeps interval and word."""
    calm, wild = cells_of(6, 6, shift=0.2), cells_of(6, 10, sd=0.5, seed=8)
    later = [
        calm[0],
        *({"base": w["base"], "new": c["new"] + w["new"][6:]} for c, w in zip(calm[1:], wild[1:], strict=True)),
    ]
    early, late = (primaries(run(cells, looks=(6, 10)))[0] for cells in (calm, later))
    assert (early.blocks, late.blocks) == (6, 6)
    assert (late.low, late.high, late.verdict) == (early.low, early.high, early.verdict)
    assert replace(late, notes=()) == replace(early, notes=())
