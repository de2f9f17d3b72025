import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import stdtrit
from scipy.stats import nct, norm
from scipy.stats import t as student

from fairlane.stats.anytime import half_width, interval, mixture, multiplier, percent
from fairlane.stats.effects import Effect

BLOCKS = 200
"""How long the simulated watcher goes on peeking after every block; the bound is for ever."""


def likelihood_ratio(t, n, g):
    """The mixed likelihood ratio by brute force: noncentral over central t, integrated over effect / spread."""

    def weighed(delta):
        return nct.pdf(t, n - 1, delta * math.sqrt(n)) * norm.pdf(delta, scale=math.sqrt(g))

    return quad(weighed, -8 * math.sqrt(g), 8 * math.sqrt(g), limit=200)[0] / student.pdf(t, n - 1)


@pytest.mark.parametrize(("n", "alpha", "g"), [(6, 0.05, 2.0), (12, 0.05, 1.0), (20, 0.003, 2.5)])
def test_the_interval_ends_where_the_likelihood_ratio_is_one_in_alpha(n, alpha, g):
    assert likelihood_ratio(multiplier(n, alpha, g), n, g) == pytest.approx(1 / alpha, rel=1e-4)


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.05 / 16])
def test_watching_all_the_time_errs_at_most_alpha(alpha):
    """20 000 watchers of two equal lanes, looking after each of 200 blocks."""
    rng = np.random.default_rng(31)
    x = rng.standard_normal((20_000, BLOCKS))
    n = np.arange(1, BLOCKS + 1)
    mean = np.cumsum(x, axis=1) / n
    sd = np.sqrt(np.maximum(np.cumsum(x * x, axis=1) - n * mean**2, 0)[:, 1:] / (n[1:] - 1))
    g = mixture(alpha, 20)
    bound = np.array([multiplier(int(k), alpha, g) for k in n[1:]])
    peeked = (np.abs(mean[:, 1:]) * np.sqrt(n[1:]) > bound * sd).any(axis=1).mean()
    error = 3 * math.sqrt(alpha * (1 - alpha) / len(x))
    assert 0.3 * alpha < peeked <= alpha + error
    ordinary = -stdtrit(n[1:] - 1, alpha / 2)
    assert (np.abs(mean[:, 1:]) * np.sqrt(n[1:]) > ordinary * sd).any(axis=1).mean() > 3 * alpha


def test_the_design_notes_figure():
    assert multiplier(20, 0.05, 1.0) / -stdtrit(19, 0.025) == pytest.approx(1.64, abs=0.005)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 10])
def test_no_limits_where_the_blocks_are_too_few(n):
    a = 1 + n
    none = (math.sqrt(a) / 0.05) ** (2 / n) >= a
    assert math.isinf(multiplier(n, 0.05, 1.0)) == none


def test_tuned_to_the_default_plan():
    g = mixture(0.05, 20)
    assert g == pytest.approx(1.05, abs=0.01)
    grid = np.exp(np.linspace(-3, 3, 400))
    for n in (10, 12, 15, 20):
        assert multiplier(n, 0.05, g) < 1.02 * min(multiplier(n, 0.05, other) for other in grid)


@pytest.mark.parametrize("alpha", [0.1, 0.05, 1e-3, 1e-6])
@pytest.mark.parametrize("last", [2, 4, 6, 20, 60, 500])
def test_every_plan_gets_an_interval_before_its_end_or_soon_after(alpha, last):
    g = mixture(alpha, last)
    assert g > 0
    assert math.isfinite(multiplier(max(3, last), alpha, g))
    assert math.isfinite(multiplier(20, alpha, g))


def test_wider_for_less_error_and_narrower_for_more_blocks():
    g = mixture(0.05, 20)
    widths = [multiplier(n, 0.05, g) / math.sqrt(n) for n in range(6, 60)]
    assert widths == sorted(widths, reverse=True)
    assert multiplier(12, 0.01, g) > multiplier(12, 0.05, g) > multiplier(12, 0.1, g)


def test_an_interval_of_figures():
    logs = tuple(float(x) for x in np.random.default_rng(3).normal(0.2, 0.05, 12))
    effect = Effect(logs)
    low, high = interval(effect, 0.05, 1.0)
    half = multiplier(12, 0.05, 1.0) * np.std(logs, ddof=1) / math.sqrt(12)
    assert (low, high) == pytest.approx((np.mean(logs) - half, np.mean(logs) + half))
    assert interval(Effect(logs[:1]), 0.05, 1.0) == (-math.inf, math.inf)


def test_never_narrower_than_the_figures_are_counted():
    assert half_width(Effect((0.1,) * 12, resolution=0.01), 0.05, 1.0) == 0.01


@pytest.mark.parametrize(("ratio", "text"), [(1.118, "+11.8 %"), (0.6, "-40.0 %"), (1.0042, "+0.42 %")])
def test_percent(ratio, text):
    assert percent(math.log(ratio)) == text
