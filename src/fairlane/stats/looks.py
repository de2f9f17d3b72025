"""Planned looks: O'Brien-Fleming boundaries for any plan and error rate, by recursive numerical integration.

Under no effect the sum of paired log-ratios behaves as a Brownian motion B(t), t = blocks so far / blocks planned, and
the statistic at look k is Z_k = B(t_k) / sqrt(t_k). O'Brien and Fleming (Biometrics 35, 1979, 549-556) reject at the
first look with |B(t_k)| >= c, that is |Z_k| >= c / sqrt(t_k): next to nothing of alpha at the first look, nearly all at
the last. The density of B on the paths that have not crossed yet is carried from look to look (Armitage, McPherson and
Rowe, J. R. Stat. Soc. A 132, 1969, 235-244):

    f_1(x) = phi(x; t_1)       f_k(x) = integral over |u| < b_(k-1) of f_(k-1)(u) phi(x - u; t_k - t_(k-1)) du

Our blocks are few, so a boundary is used as a nominal p-value of the t distribution, not as a z (the significance level
approach: Pocock, Biometrika 64, 1977, 191-199; Jennison and Turnbull, *Group Sequential Methods*, 2000).

Failed trials leave fewer blocks at a look than planned. What the plan *spends* up to each look is then kept, and the
boundary for the blocks there really are is solved from it (Lan and DeMets, Biometrika 70, 1983, 659-663), using only
counts up to that look. With every block usable this is the O'Brien-Fleming boundary itself.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from fairlane.study.base import Design

Floats = NDArray[np.float64]


CALM = 0.75
"""Share of the error rate at which intervals are drawn, and stopped on, where a study stops on width. A cell tends to
end when its spread happens to look small (Anscombe, Proc. Camb. Phil. Soc. 48, 1952, on this rule): with the whole rate
the lowest coverage of a 95 % interval over spreads from 1 to 8 % was 93.5 %, with this share it is 94.8, for some 8 %
more blocks (seeded simulation, tests/stats/test_width.py)."""


def nominal_levels(plan: Sequence[int], alpha: float) -> tuple[float, ...]:
    """Two-sided nominal level at each look of ``plan`` (rising numbers of blocks); ``alpha`` (0..1) over all."""
    return _plan(tuple(plan), alpha)[0]


def level(plan: Sequence[int], usable: Sequence[int], alpha: float) -> float:
    """Two-sided nominal level at look number ``len(usable)``, where ``usable`` blocks counted at each look up to it.

    ``usable`` never falls; where it does not rise, or is below 2, there is no look: its share of the error is spent at
    the next. ValueError if the last one is not a look.
    """
    plan, usable = tuple(plan), tuple(usable)
    if usable and usable == plan[: len(usable)]:
        return nominal_levels(plan, alpha)[len(usable) - 1]
    return _level_with_voids(plan, usable, alpha)


def nominal(design: "Design", usable: Sequence[int], alpha: float) -> float:
    """Two-sided nominal level of an interval under a study's stopping rule; ``usable`` as for ``level``.

    Stopping on width depends on the width of the interval and never on its place: no look costs anything, but all
    together cost ``CALM``. Lanes that ran at different times have one look.
    """
    if not design.paired:
        return alpha
    return CALM * alpha if design.stop else level(design.looks, usable, alpha)


class _Path:
    """A Brownian motion from 0 with looks at some times: the density of the paths that have stayed inside so far."""

    def __init__(self) -> None:
        self.time = 0.0
        self._nodes: Floats = np.zeros(1)
        self._mass: Floats = np.ones(1)

    def exit(self, time: float, bound: float) -> float:
        """Probability of a first exit at ``time`` if the bound there is |B| >= ``bound``."""
        sd = math.sqrt(time - self.time)
        outside = ndtr((-bound - self._nodes) / sd) + ndtr((self._nodes - bound) / sd)
        return float(self._mass @ outside)

    def step(self, time: float, bound: float, next_time: float) -> None:
        """Carry on with the paths inside ``bound`` at ``time``; the step to ``next_time`` decides how fine."""
        sd = math.sqrt(time - self.time)
        # Gauss-Legendre converges at once when its nodes are closer than the kernels they meet, on both sides
        finest = min(sd, math.sqrt(next_time - time))
        nodes, weights = _gauss_legendre(min(2000, 48 + math.ceil(6 * bound / finest)))
        x = bound * nodes
        kernel = np.exp(-0.5 * ((x[:, None] - self._nodes[None, :]) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
        self._mass = bound * weights * (kernel @ self._mass)
        self._nodes, self.time = x, time


@lru_cache(maxsize=64)
def _gauss_legendre(n: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return nodes, weights


@lru_cache(maxsize=4096)
def _plan(plan: tuple[int, ...], alpha: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Nominal levels, and the error spent up to and including each look."""
    if not plan or plan[0] < 1 or any(b <= a for a, b in pairwise(plan)):
        raise ValueError(f"looks are rising numbers of blocks, not {plan}")
    if not 0 < alpha < 1:
        raise ValueError(f"an error rate lies between 0 and 1, not {alpha}")
    times = [n / plan[-1] for n in plan]
    if len(plan) == 1:
        return (alpha,), (alpha,)

    def exits(c: float) -> list[float]:
        path, out = _Path(), []
        for time, later in zip(times, [*times[1:], math.inf], strict=True):
            out.append(path.exit(time, c))
            if later < math.inf:
                path.step(time, c, later)
        return out

    # the last look alone would need the first figure; the second gives no look more than alpha / looks (Bonferroni)
    low, high = -ndtri(alpha / 2), -ndtri(alpha / 2 / len(plan))
    c = brentq(lambda c: math.log(sum(exits(c)) / alpha), 0.99 * low, 1.01 * high, xtol=1e-12, rtol=1e-13)
    levels = tuple(float(2 * ndtr(-c / math.sqrt(t))) for t in times)
    spent = np.cumsum(exits(c))
    return levels, tuple(float(s) for s in spent)


@lru_cache(maxsize=4096)
def _level_with_voids(plan: tuple[int, ...], usable: tuple[int, ...], alpha: float) -> float:
    if not usable or len(usable) > len(plan) or any(b < a for a, b in pairwise(usable)):
        raise ValueError(f"usable blocks {usable} do not fit the looks {plan}")
    if usable[-1] < 2 or usable[-1] in usable[:-1]:
        raise ValueError(f"no look: usable blocks {usable}")
    budget = [s for n, s in zip(usable, _plan(plan, alpha)[1], strict=False)]
    looks = [(n, s) for i, (n, s) in enumerate(zip(usable, budget, strict=True)) if n >= 2 and n not in usable[:i]]
    path, gone = _Path(), 0.0
    for i, (n, spent) in enumerate(looks):
        time, share = n / plan[-1], spent - gone
        scale = math.sqrt(time)
        top = (
            -ndtri(share / 4) * scale
        )  # crossed with probability share / 2 by all paths, so by less than share by these
        bound = brentq(lambda b, t=time, s=share: path.exit(t, b) - s, 0, top, xtol=1e-12)
        if i + 1 == len(looks):
            return float(2 * ndtr(-bound / scale))
        path.step(time, bound, looks[i + 1][0] / plan[-1])
        gone = spent
    raise AssertionError("unreachable: the last usable count is a look")
