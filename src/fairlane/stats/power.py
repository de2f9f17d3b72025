"""The smallest detectable difference: the power of Student's t test.

With a true difference of delta standard errors the statistic is noncentral t with df degrees of freedom and
noncentrality delta (Cohen, *Statistical Power Analysis for the Behavioral Sciences*, 1988, ch. 2):

    P(T > c) = E[ Phi(delta - c U) ],   U = sqrt(chi2_df / df)

the chance over the mean, given the spread, averaged over the spread. The expectation is taken over quantiles of U, by
Gauss-Legendre quadrature: scipy's inverse of the noncentral t does not return where df is 1 and the level tiny.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_SHARES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_ROOT = math.sqrt(2 * math.pi)
_STEPS, _CLOSE = 100, 1e-12


def power(df: float, level: float, delta: float) -> float:
    """Chance that the two-sided test at ``level`` finds a true difference of ``delta`` >= 0 standard errors *with the
    right sign*; the other one is less likely than level / 2."""
    critical = -float(stdtrit(df, level / 2))
    return float(_WEIGHTS @ ndtr(delta - critical * _spread(df)))


@lru_cache(maxsize=4096)
def detectable(df: float, level: float, chance: float) -> float:
    """The difference in standard errors that the two-sided test at ``level`` detects with ``chance`` (level .. 1)."""
    critical = -float(stdtrit(df, level / 2))
    scaled = critical * _spread(df)
    # at delta = c U_max + z the chance is reached
    low, high = 0.0, float(scaled[-1]) + float(ndtri(chance)) + 1
    delta = min(high, critical + float(ndtri(chance)))
    for _ in range(_STEPS):  # Newton's method, halving where it would leave what is known to hold the answer
        away = delta - scaled
        missing = chance - float(_WEIGHTS @ ndtr(away))
        low, high = (delta, high) if missing > 0 else (low, delta)
        slope = float(_WEIGHTS @ np.exp(-away * away / 2)) / _ROOT
        better = delta + missing / slope if slope else low
        if not low < better < high:
            better = (low + high) / 2
        if abs(better - delta) <= _CLOSE * high:
            return better
        delta = better
    return delta


@lru_cache(maxsize=256)
def _spread(df: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Quantiles of U at the quadrature's shares, rising."""
    quantiles: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.sqrt(gammaincinv(df / 2, _SHARES) * 2 / df)
    return quantiles
