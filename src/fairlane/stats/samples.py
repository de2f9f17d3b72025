"""Compare lanes without common blocks: the difference of two independent samples of logarithms.

Results measured at different times have no blocks, so nothing cancels: a slow change between the two lanes counts as a
difference, and no formula can separate the two. With means a and b of n and m logarithms whose
variances are s_a^2 and s_b^2, and e_a = s_a^2 / n, e_b = s_b^2 / m:

    interval   a - b +- t(df) sqrt(e_a + e_b)                           (Welch, Biometrika 34, 1947, 28-35)
    df = (e_a + e_b)^2 / (e_a^2 / (n - 1) + e_b^2 / (m - 1))            (Satterthwaite, Biometrics 2, 1946, 110-114)

The variances need not be equal. Where one lane has fewer than 6 trials and the other has more of them, the interval
would miss too often (2 against 10: in 11 % of all studies instead of 5), and df is min(n, m) - 1, with which it never
does (Mickey and Brown, Ann. Math. Stat. 37, 1966, 639-642).

``Samples`` is an ``Estimate``, as ``Effect`` is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from fairlane.stats.effects import Estimate, Permutation, fewest, spread

_WAYS = 20_000
"""Most ways to split the trials that are listed; of more ways ``_DRAWN`` are drawn."""
_DRAWN = 4_999
_MOST = 100
"""Trials of both lanes beyond which t needs no support by a permutation test."""
_UNEVEN = 6
"""Trials of a lane below which Satterthwaite's df are too many, if the other lane has more."""
_FEWEST = 4
"""Trials of each lane: with three, no split is rarer than one in ten."""


@dataclass(frozen=True)
class Samples(Estimate):
    """Logarithms of the figures of a lane and of the lane it is compared with, trial by trial."""

    lane: tuple[float, ...]
    baseline: tuple[float, ...]
    resolution: float = 0.0

    @property
    def n(self) -> int:
        """Trials of the lane that has fewer."""
        return min(len(self.lane), len(self.baseline))

    @cached_property
    def mean(self) -> float:
        return math.fsum(self.lane) / len(self.lane) - math.fsum(self.baseline) / len(self.baseline)

    @cached_property
    def _errors(self) -> tuple[float, float]:
        """Squared standard errors of the two means. ValueError: a lane has one trial."""
        return spread(self.lane) ** 2 / len(self.lane), spread(self.baseline) ** 2 / len(self.baseline)

    @cached_property
    def sd(self) -> float:
        return math.sqrt(sum(self._errors) * self.n)

    @cached_property
    def df(self) -> float:
        n, m = len(self.lane), len(self.baseline)
        if n != m and self.n < _UNEVEN:
            return self.n - 1
        return _satterthwaite(*self._errors, n, m)

    @cached_property
    def centre(self) -> float:
        """Median of all pairwise differences (Hodges and Lehmann, Ann. Math. Stat. 34, 1963)."""
        return float(np.median(np.subtract.outer(self.lane, self.baseline)))

    def permutation(self) -> Permutation | None:
        n, total = len(self.lane), len(self.lane) + len(self.baseline)
        p = permutation_p(self.lane, self.baseline)
        if p is None:
            return None
        ways = math.comb(total, n)
        if ways > _WAYS:
            # a p from fewer than ten draws is no figure
            return Permutation(f"two-sample permutation test ({_DRAWN:,} drawn)", p, 10 / (_DRAWN + 1))
        return Permutation("exact two-sample permutation test", p, (1 + (2 * n == total)) / ways)

    def needed(self, half_width: float, level: float) -> int | None:
        """Trials in each lane, equally many, each lane at its observed spread."""
        ours, theirs = spread(self.lane) ** 2, spread(self.baseline) ** 2
        if not ours + theirs:
            return fewest(lambda _: 0.0, half_width)

        def width(n: int) -> float:
            if n < 2:
                return math.inf
            df = _satterthwaite(ours / n, theirs / n, n, n)
            return float(-stdtrit(df, level / 2)) * math.sqrt((ours + theirs) / n)

        return fewest(width, half_width)


def _satterthwaite(ours: float, theirs: float, n: int, m: int) -> float:
    """Degrees of freedom, between min(n, m) - 1 and n + m - 2; ``ours``, ``theirs``: squared standard errors."""
    whole = ours + theirs
    if not whole:
        return n + m - 2
    ours, theirs = ours / whole, theirs / whole
    return 1 / (ours**2 / (n - 1) + theirs**2 / (m - 1))


def permutation_p(lane: Sequence[float], baseline: Sequence[float]) -> float | None:
    """Two-sided p-value of the permutation test of no difference, with Welch's t as the statistic.

    Share of the ways to deal the trials out to two lanes of these sizes that give a |t| at least as large. Studentized,
    it is exact for lanes that are alike and stays valid for many trials where only their variances differ (Janssen,
    Stat. Probab. Lett. 36, 1997, 9-21). More than 20 000 ways: 4 999 of them, drawn with a fixed seed, the trials as
    they are counted among them (Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 9, 2010). None with fewer than 4
    trials of a lane, and with more than 100 of both.
    """
    n, total = len(lane), len(lane) + len(baseline)
    if min(n, total - n) < _FEWEST or total > _MOST:
        return None
    logs = np.asarray([*lane, *baseline], dtype=float)
    logs -= logs.mean()
    observed = _statistics(np.arange(total)[None] < n, logs, n)
    others = _statistics(_splits(n, total), logs, n)
    as_large = int((others >= observed * (1 - 1e-9)).sum())  # equal sums, added in another order, are equal
    exact = math.comb(total, n) <= _WAYS
    return as_large / len(others) if exact else (1 + as_large) / (1 + len(others))


def _statistics(splits: NDArray[Any], logs: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Welch's t squared for every split; infinite where nothing varies within the lanes and they differ."""
    m = len(logs) - n
    sums, squares = (splits @ np.column_stack([logs, logs**2])).T
    rest, rest_squares = logs.sum() - sums, (logs**2).sum() - squares
    difference = (sums / n - rest / m) ** 2
    within = np.maximum(squares - sums**2 / n, 0) / (n - 1) / n
    within += np.maximum(rest_squares - rest**2 / m, 0) / (m - 1) / m
    scale = 1e-15 * float((logs**2).sum())  # rounding of the differences above
    with np.errstate(divide="ignore", invalid="ignore"):
        squared: NDArray[np.float64] = np.where(
            difference > scale, difference / np.where(within > scale, within, 0.0), 0.0
        )
    return squared


@lru_cache(maxsize=16)
def _splits(n: int, total: int) -> NDArray[np.float64]:
    """Ways to choose ``n`` of ``total`` trials, one a row: 1 where chosen. All, or a fixed random selection."""
    ways = math.comb(total, n)
    if ways <= _WAYS:
        chosen = np.asarray(list(combinations(range(total), n)))
    else:
        rng = np.random.default_rng(total * 1000 + n)
        chosen = rng.permuted(np.tile(np.arange(total), (_DRAWN, 1)), axis=1)[:, :n]
    rows = np.zeros((len(chosen), total))
    np.put_along_axis(rows, chosen, 1.0, axis=1)
    return rows
