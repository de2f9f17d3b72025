"""Neighbouring blocks that resemble each other, and the intervals that are honest about it.

Slow changes that one lane has and the other does not (a cache that fills, a neighbour on its disks) make the log-ratios
of neighbouring blocks alike: n of them tell less than n independent ones, and a t interval is too narrow. One cell has
few blocks, but all cells of a pair of lanes share what makes them alike: their lag-1 autocorrelation is pooled, and
tested by permutation of the blocks, the same orders in all cells, so that a shock that they share counts once.

Of the pooled correlation, r above its mean over all orders, one standard error (that of the orders) is taken off, and
what is left, rho, widens every interval of the pair as for a first-order autoregression: with

    tau = 1 + 2 sum_k (1 - k/n) rho^k

n blocks are worth n / tau. The spread of n correlated blocks is too small by (n - tau) / (n - 1) of its square, and has
(n - 1) (1 - rho^2) / (1 + rho^2) degrees of freedom (Bayley and Hammersley, J. R. Stat. Soc. Suppl. 8, 1946). r itself
lies too low by about 3 rho / n (Marriott and Pope, Biometrika 41, 1954).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LEAST = 4
"""Blocks: of fewer, nothing is known."""
_ALL = 5
"""Blocks up to which all orders are tried."""
_ORDERS = 999
"""Random orders, besides the real one."""
_RARE = 0.005
"""Share below which twenty times as many orders are tried."""
_MOST = 0.9
"""Largest correlation that is allowed for."""

Rows = tuple[tuple[float, ...], ...]
"""Log-ratios, cells x units in time order; nan: a unit without one."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Memory:
    """How far the units of a pair of lanes remember the ones before."""

    chance: float = 1.0
    """Chance that units in random order are as alike as these; 1 where there are too few to tell."""
    rho: float = 0.0
    """Lag-1 correlation to allow for, 0 to 0.9."""
    seen: float = 0.0
    """The lag-1 correlation itself, 0 to 0.9: before a standard error is taken off."""

    def _tau(self, n: int) -> float:
        return 1 + 2 * math.fsum((1 - k / n) * self.rho**k for k in range(1, n)) if self.rho else 1.0

    def worth(self, n: int) -> float:
        """Number of independent units that ``n`` of these are worth."""
        return n / self._tau(n)

    def widening(self, n: int) -> float:
        """Factor of the standard error of the mean of ``n`` units; 1 where they may well be independent."""
        tau = self._tau(n)
        return math.sqrt(tau * (n - 1) / (n - tau)) if tau > 1 else 1.0

    @property
    def share(self) -> float:
        """Share of the degrees of freedom of a spread that is left."""
        return (1 - self.rho**2) / (1 + self.rho**2)


@lru_cache(maxsize=65536)
def memory(rows: Rows) -> Memory:
    """The memory that the cells of a pair of lanes show together."""
    units = len(rows[0]) if rows else 0
    if units < LEAST:
        return Memory()
    off = [d for row in rows if (d := _standard(row)) is not None]
    if not off:
        return Memory()
    products = np.stack(off).T @ np.stack(off)  # of any two units, summed over the cells
    sums = _sums(products, _ORDERS)
    real = float(np.trace(products, 1))
    chance = _share(sums, real)
    if chance <= _RARE and units > _ALL:  # so that many comparisons can share 5 %
        chance = _share(_sums(products, 20 * _ORDERS + 19), real)
    total = float(np.trace(products))
    r = (real - float(sums.mean())) / total
    seen = r + 3 / units * max(0.0, r)
    rho = seen - float(sums.std()) / total
    return Memory(chance, min(_MOST, max(0.0, rho)), min(_MOST, max(0.0, seen)))


def alike(logs: Sequence[float]) -> Memory:
    """The memory of a single series."""
    return memory((tuple(logs),))


def _standard(row: Sequence[float]) -> Floats | None:
    """Residuals about the row's mean, with mean square 1; 0 where there is no figure. None: nothing varies."""
    values = np.asarray(row, dtype=float)
    there = ~np.isnan(values)
    if there.sum() < LEAST:
        return None
    off = np.where(there, values - values[there].mean(), 0.0)
    square = float(off @ off) / int(there.sum())
    return None if math.sqrt(square) <= 1e-12 else off / math.sqrt(square)


def _sums(products: Floats, count: int) -> Floats:
    """Sum of the products of neighbours, in many orders of the units."""
    orders = _orders(len(products), count)
    sums: Floats = products[orders[:, 1:], orders[:, :-1]].sum(axis=1)
    return sums


def _share(sums: Floats, real: float) -> float:
    """Share of the orders with as much likeness as the real one, which is one of them."""
    return float((sums >= real - 1e-9 * abs(real) - 1e-12).mean())


@lru_cache(maxsize=64)
def _orders(n: int, count: int) -> "np.ndarray[tuple[int, int], np.dtype[np.intp]]":
    """All orders of n units, or the real one and ``count`` random ones, the same in every run."""
    if n <= _ALL:
        return np.array(list(itertools.permutations(range(n))))
    drawn = np.argsort(np.random.default_rng(n).random((count, n)), axis=1)
    return np.vstack([np.arange(n), drawn])
