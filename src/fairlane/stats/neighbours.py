"""Neighbouring blocks that resemble each other, and the interval that is honest about it.

Slow changes that one lane has and the other does not (a cache that fills, a neighbour on its disks) make the log-ratios
of neighbouring blocks alike: n of them tell less than n independent ones, and a t interval is too narrow. One
comparison has few blocks, so its lag-1 autocorrelation is tested by permutation: among all orders of the same blocks,
how many show as much. Where few do, the interval is widened as for a first-order autoregression,

    sqrt((1 + rho) / (1 - rho)),    rho = (r + 1/(n - 1)) / (1 - 3/(n - 1))

(r of n values lies too low by about (1 + 3 rho)/(n - 1): Kendall, Biometrika 41, 1954, 403-404). That repairs a part
only: with rho of 0.8 and one comparison 38 % of equal lanes would still be called different within 20 blocks, against
67 % without it (simulated). So such a verdict is no headline either.
"""

import math
from functools import lru_cache

import numpy as np

from fairlane.stats.effects import autocorrelation

SUSPECT = 0.1
"""Chance from which on an interval is widened."""
LEAST = 8
"""Blocks: fewer show too little, and the correction would be wild."""
_ORDERS = 999
"""Random orders, besides the real one."""
_RARE = 0.005
"""Share below which twenty times as many orders are tried."""
_MOST = 0.9
"""Largest autocorrelation that is allowed for: an interval four times as wide."""


@lru_cache(maxsize=65536)
def likeness(logs: tuple[float, ...]) -> float:
    """Chance that blocks in random order show as much autocorrelation as these; 1 where there are too few to tell."""
    if len(logs) < LEAST or autocorrelation(logs) is None:
        return 1.0
    share = _share(logs, _ORDERS)
    return share if share > _RARE else _share(logs, 20 * _ORDERS + 19)  # so that many comparisons can share 5 %


def _share(logs: tuple[float, ...], count: int) -> float:
    """Share of ``count`` random orders, and the real one, with as much autocorrelation as the real one."""
    d = np.asarray(logs) - np.mean(logs)
    orders = d[_orders(len(d), count)]
    products = (orders[:, 1:] * orders[:, :-1]).sum(axis=1)
    as_much = int((products >= float(d[1:] @ d[:-1]) - 1e-12 * float(d @ d)).sum())
    return (1 + as_much) / (1 + len(orders))


def widening(logs: tuple[float, ...]) -> float:
    """Factor of the standard error; 1 where blocks may well be independent."""
    if likeness(logs) > SUSPECT:
        return 1.0
    r, n = autocorrelation(logs) or 0.0, len(logs)
    rho = min(_MOST, max(0.0, (r + 1 / (n - 1)) / (1 - 3 / (n - 1))))
    return math.sqrt((1 + rho) / (1 - rho))


@lru_cache(maxsize=64)
def _orders(n: int, count: int) -> "np.ndarray[tuple[int, int], np.dtype[np.intp]]":
    """Random orders of n blocks, the same in every run."""
    return np.argsort(np.random.default_rng(n).random((count, n)), axis=1)
