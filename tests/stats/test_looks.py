import numpy as np
import pytest
from gsdesign import h1, hupdate
from scipy.special import ndtri, stdtr

from fairlane.stats.looks import level, nominal_levels

DEFAULT = (6, 10, 15, 20)
PLANS = [DEFAULT, (3, 6), (5, 10, 20, 40, 80), (2, 3, 4, 5, 6, 7, 8), (10, 11)]


def boundaries(levels):
    return [float(-ndtri(p / 2)) for p in levels]


def gsdesign_error(usable, levels):
    """Chance of ever crossing the two-sided boundaries, by gsdesign's integration: an independent implementation."""
    bounds = boundaries(levels)
    info = [n / usable[-1] for n in usable]
    total, density = 0.0, None
    for k, b in enumerate(bounds):
        if k == 0:
            _, _, upper = h1(r=80, theta=0, info=info[0], a=b)
            density = h1(r=80, theta=0, info=info[0], a=-b, b=b)
        else:
            _, _, upper = hupdate(80, 0, info[k], b, np.inf, 0, info[k - 1], density)
            density = hupdate(80, 0, info[k], -b, b, 0, info[k - 1], density)
        total += 2 * float(upper.sum())
    return total


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.05 / 16, 1e-5])
def test_the_whole_error_is_alpha_by_another_implementation(plan, alpha):
    assert gsdesign_error(plan, nominal_levels(plan, alpha)) == pytest.approx(alpha, rel=2e-5)


@pytest.mark.parametrize("plan", PLANS)
def test_the_shape_is_obrien_flemings(plan):
    constants = [z * (n / plan[-1]) ** 0.5 for z, n in zip(boundaries(nominal_levels(plan, 0.05)), plan, strict=True)]
    assert constants == pytest.approx([constants[-1]] * len(plan), rel=1e-9)


@pytest.mark.parametrize(
    ("looks", "constant"), [(1, 1.960), (2, 1.977), (3, 2.004), (4, 2.024), (5, 2.040), (10, 2.087), (20, 2.126)]
)
def test_published_constants(looks, constant):
    """C_B(K, 0.05) for equally spaced looks: Jennison and Turnbull 2000, table 2.3."""
    assert boundaries(nominal_levels(range(1, looks + 1), 0.05))[-1] == pytest.approx(constant, abs=6e-4)


def test_default_plan():
    """The design note's table (.00045/.0052/.0209/.0401, by Monte-Carlo) has another shape: its constants z sqrt(t)
    rise from 1.92 to 2.05, so it is not O'Brien-Fleming's. These figures are gsdesign's to 2e-5 (above)."""
    assert nominal_levels(DEFAULT, 0.05) == pytest.approx((0.000218695, 0.00419381, 0.0193978, 0.0429094), rel=1e-5)


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
    levels = [level(DEFAULT, usable[: k + 1], 0.05) for k in range(4)]
    for k in range(4):
        planned = gsdesign_error(DEFAULT[: k + 1], nominal_levels(DEFAULT, 0.05)[: k + 1])
        assert gsdesign_error(usable[: k + 1], levels[: k + 1]) == pytest.approx(planned, rel=1e-4)


def test_no_voids_is_the_plan():
    for k in range(4):
        assert level(DEFAULT, DEFAULT[: k + 1], 0.05) == nominal_levels(DEFAULT, 0.05)[k]


def test_a_look_that_brings_no_block_spends_nothing():
    assert level(DEFAULT, (1, 10), 0.05) == pytest.approx(level(DEFAULT, (0, 10), 0.05))
    later = level(DEFAULT, (6, 6, 15), 0.05)
    levels = [nominal_levels(DEFAULT, 0.05)[0], later]
    planned = gsdesign_error(DEFAULT[:3], nominal_levels(DEFAULT, 0.05)[:3])
    assert gsdesign_error((6, 15), levels) == pytest.approx(planned, rel=1e-4)


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
        level(DEFAULT, usable, 0.05)


@pytest.mark.parametrize("plan", [DEFAULT, (3, 5, 8)])
def test_monte_carlo_with_students_t(plan):
    """The boundary is used as a p-value of t. With so few blocks the error is 5.2 to 5.3 %, as simulated with 2 000 000
    studies; told in docs/verdict.md. Not more than that, and nothing like the 12 % and more of four looks at 5 %."""
    rng = np.random.default_rng(20)
    x = rng.standard_normal((100_000, plan[-1]))
    crossed, peeked = np.zeros(len(x), bool), np.zeros(len(x), bool)
    for n, nominal in zip(plan, nominal_levels(plan, 0.05), strict=True):
        seen = x[:, :n]
        p = 2 * stdtr(n - 1, -abs(seen.mean(1)) / (seen.std(1, ddof=1) / n**0.5))
        crossed |= p <= nominal
        peeked |= p <= 0.05
    assert 0.045 < crossed.mean() < 0.053 + 3 * (0.05 * 0.95 / len(x)) ** 0.5
    assert peeked.mean() > 0.10
