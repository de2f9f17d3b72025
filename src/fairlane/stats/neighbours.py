"""Neighbouring blocks that resemble each other, and the intervals that are honest about it.

Slow changes that one lane has and the other does not (a cache that fills, a neighbour on its disks) make the log-ratios
of neighbouring blocks alike: n of them tell less than n independent ones, and a t interval is too narrow. One cell has
few blocks, but all cells of a pair of lanes share what makes them alike: their lag-1 autocorrelation is pooled, and
tested by permutation of the blocks, the same orders in all cells, so that a shock that they share counts once.

What makes blocks alike is taken for a first-order autoregression beneath noise that does not last: at a lag of k
blocks the correlation is rho decay^(k - 1), with rho <= decay. Both come from the pooled correlations, whose bias, that
of the mean taken off, is known exactly: rho from that at lag 1 less one standard error (that of the orders), decay from
the sum of those at lags 2 to 4 less a standard error that is divided by the root of the number of cells. They widen
every interval of the pair: with

    tau = 1 + 2 sum_k (1 - k/n) rho decay^(k - 1)

n blocks are worth n / tau. The spread of n correlated blocks is too small by (n - tau) / (n - 1) of its square, and has
(n - 1) / (1 + 2 rho^2 / (1 - decay^2)) degrees of freedom (Bayley and Hammersley, J. R. Stat. Soc. Suppl. 8, 1946).
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
_LATER = 3
"""Lags after the first from which the decay is found."""
_DECAYS = np.linspace(0, 0.9, 37)
"""The decays that are tried."""

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
    decay: float = 0.0
    """Of a unit's correlation, the share that is left one unit on; ``rho`` to 0.9."""
    seen: tuple[float, float] = (0.0, 0.0)
    """``rho`` and ``decay`` before standard errors are taken off."""

    @property
    def whole(self) -> "Memory":
        """The memory with nothing taken off."""
        return Memory(self.chance, *self.seen, self.seen)

    def _tau(self, n: int) -> float:
        return 1 + 2 * math.fsum((1 - k / n) * self.rho * self.decay ** (k - 1) for k in range(1, n))

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
        return 1 / (1 + 2 * self.rho**2 / (1 - self.decay**2))


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
    real, total = float(np.trace(products, 1)), float(np.trace(products))
    chance = _share(sums, real)
    if chance <= _RARE and units > _ALL:  # so that many comparisons can share 5 %
        chance = _share(_sums(products, 20 * _ORDERS + 19), real)
    first = (real - float(sums.mean())) / total
    if first <= 0:
        return Memory(chance)
    lags = range(2, min(1 + _LATER, units - 1) + 1)
    later = sum((_sums(products, _ORDERS, lag) for lag in lags), np.zeros(1))
    second = (sum(float(np.trace(products, lag)) for lag in lags) - float(later.mean())) / total
    errors = float(sums.std()) / total, float(later.std()) / total / math.sqrt(len(off))
    return Memory(chance, *_fitted(first - errors[0], second - errors[1], units), _fitted(first, second, units))


def _fitted(first: float, later: float, n: int) -> tuple[float, float]:
    """``rho`` and ``decay`` of which the correlations of n units about their mean exceed those of independent units by
    ``first`` at lag 1 and, in sum, by ``later`` at lags 2 to 4."""
    if first <= 0:
        return 0.0, 0.0
    free, slopes = _expected(n)
    rise = slopes[:, 1] - (first + free[1] / free[0]) * slopes[:, 0]
    with np.errstate(divide="ignore"):
        rho = np.where(rise > 0, first * free[0] / rise, math.inf)
    possible = rho <= _DECAYS
    if not possible.any():
        return float(_DECAYS[-1]), float(_DECAYS[-1])
    rho, decays, slopes = rho[possible], _DECAYS[possible], slopes[possible]
    beyond = (free[2] + rho * slopes[:, 2]) / (free[0] + rho * slopes[:, 0]) - free[2] / free[0]
    nearest = int(np.argmin(np.abs(beyond - later)))
    return float(rho[nearest]), float(decays[nearest])


@lru_cache(maxsize=256)
def _expected(n: int) -> tuple[Floats, Floats]:
    """Expected sums of products of n units about their mean, at lag 0, at lag 1, and at lags 2 to 4: of independent
    units; and, decay by decay, what each unit of rho adds."""

    def about_the_mean(correlation: Floats) -> tuple[float, float, float]:
        mean = correlation.mean(axis=0)
        off = correlation - mean - mean[:, None] + correlation.mean()
        at = [float(np.trace(off, lag)) for lag in range(_LATER + 2)]
        return at[0], at[1], math.fsum(at[2:])

    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    added = [np.where(apart, decay ** np.maximum(apart - 1, 0), 0.0) for decay in _DECAYS]
    return np.array(about_the_mean(np.eye(n))), np.array([about_the_mean(a) for a in added])


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


def _sums(products: Floats, count: int, lag: int = 1) -> Floats:
    """Sum of the products of units ``lag`` apart, in many orders of the units."""
    orders = _orders(len(products), count)
    sums: Floats = products[orders[:, lag:], orders[:, :-lag]].sum(axis=1)
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
