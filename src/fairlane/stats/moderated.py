"""The spread of a comparison, moderated by those of its study's other comparisons (empirical Bayes).

A few blocks tell little of a spread; the cells of one study share disks, links and noise. Smyth (Stat. Appl. Genet. Mol.
Biol. 3, 2004, article 3): variances s^2 with df degrees of freedom scatter about a common one, s0^2, as if that had been
measured with d0 degrees of freedom of its own. Both are estimated from the logarithms of all variances, and each
comparison gets the weighted mean (d0 s0^2 + df s^2) / (d0 + df), with df + d0 degrees of freedom.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma

LEAST = 3
"""Fewest comparisons that lend each other their spread."""
_CAP = 8.0
"""Most degrees of freedom of what is common: cells whose spreads differ keep most of their own."""
_FEW = 6
"""Blocks below which a spread is not taken as smaller than the cells' geometric mean. Noise with two states can look
calm for four blocks: without this floor 9 to 22 % of 24-cell studies without a difference showed one (simulated)."""


@dataclass(frozen=True)
class Common:
    """What the spreads of a study's comparisons have in common."""

    variance: float
    df: float
    mean_sd: float
    """Geometric mean of the spreads."""

    def applied(self, sd: float, df: float, blocks: int) -> tuple[float, float]:
        """(spread, degrees of freedom) of a comparison with spread ``sd`` from ``blocks`` blocks."""
        mixed = math.sqrt((self.df * self.variance + df * sd**2) / (self.df + df))
        return (max(mixed, self.mean_sd) if blocks < _FEW else mixed), df + self.df


def common(spreads: Sequence[tuple[float, float]]) -> Common | None:
    """Of (standard deviation, degrees of freedom), one per comparison. None: fewer than ``LEAST`` vary at all."""
    some = [(sd, df) for sd, df in spreads if sd > 0 and df > 0]
    if len(some) < LEAST:
        return None
    sd, df = np.array(some).T
    logs = 2 * np.log(sd) - digamma(df / 2) + np.log(df / 2)
    beyond_chance = float(logs.var(ddof=1) - polygamma(1, df / 2).mean())
    own = min(_CAP, 2 * _inverse_trigamma(beyond_chance)) if beyond_chance > 0 else _CAP
    variance = math.exp(float(logs.mean()) + float(digamma(own / 2)) - math.log(own / 2))
    return Common(variance, own, math.exp(float(np.log(sd).mean())))


def _inverse_trigamma(y: float) -> float:
    """x with trigamma(x) = y > 0, by Newton's method on 1 / trigamma (Smyth 2004, appendix)."""
    x = 0.5 + 1 / y
    for _ in range(50):
        value = float(polygamma(1, x))
        step = value * (1 - value / y) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
