"""The planned looks spend their error exactly: by integration, and by simulating paths with a known spread."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtri
from scipy.stats import multivariate_normal, norm

from fairlane.stats.looks import level, nominal_levels

PLANS = [(6, 10, 15, 20), (3, 6), (5, 10, 20, 40)]
PATHS = 400_000


def bounds(plan, alpha):
    return [float(-ndtri(p / 2)) for p in nominal_levels(plan, alpha)]


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_two_looks_by_direct_integration(alpha):
    """P(first exit at look 2) = the integral over the paths that stayed inside; scipy's quadrature, no recursion."""
    plan = (3, 6)
    first, second = bounds(plan, alpha)
    t = plan[0] / plan[1]

    def leaves(x):  # x = B(t), inside; B(1) beyond the second boundary
        sd = math.sqrt(1 - t)
        return norm.pdf(x, scale=math.sqrt(t)) * (norm.sf((second - x) / sd) + norm.cdf((-second - x) / sd))

    edge = first * math.sqrt(t)
    total = 2 * norm.sf(first) + quad(leaves, -edge, edge)[0]
    assert total == pytest.approx(alpha, rel=1e-8)


def test_four_looks_by_the_multivariate_normal():
    """1 - P(inside at every look), by scipy's integration of the joint distribution of the four statistics."""
    plan = PLANS[0]
    n = np.array(plan)
    correlation = np.sqrt(np.minimum.outer(n, n) / np.maximum.outer(n, n))
    upper = np.array(bounds(plan, 0.05))
    inside = multivariate_normal(cov=correlation, seed=1).cdf(upper, lower_limit=-upper)
    assert 1 - inside == pytest.approx(0.05, abs=2e-5)


@pytest.mark.parametrize("plan", PLANS)
def test_by_simulation_look_by_look(plan):
    """What is spent up to each look is what the level of that look promises for the plan cut off there."""
    rng = np.random.default_rng(41)
    steps = np.diff([0, *plan])
    sums = np.cumsum(rng.standard_normal((PATHS, len(plan))) * np.sqrt(steps), axis=1)
    beyond = np.abs(sums / np.sqrt(plan)) >= bounds(plan, 0.05)
    spent = np.logical_or.accumulate(beyond, axis=1).mean(axis=0)
    assert spent[-1] == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / PATHS))
    first = nominal_levels(plan, 0.05)[0]
    assert spent[0] == pytest.approx(first, abs=3 * math.sqrt(first / PATHS))


def test_by_simulation_with_voided_blocks():
    """Failed trials move the looks; the total stays."""
    plan, usable = PLANS[0], (5, 9, 13, 18)
    rng = np.random.default_rng(42)
    sums = np.cumsum(rng.standard_normal((PATHS, 4)) * np.sqrt(np.diff([0, *usable])), axis=1)
    edges = [float(-ndtri(level(plan, usable[: k + 1], 0.05) / 2)) for k in range(4)]
    crossed = (np.abs(sums / np.sqrt(usable)) >= edges).any(axis=1).mean()
    assert crossed == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / PATHS))
