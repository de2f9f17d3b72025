"""The effect of a lane in one cell: paired log-ratios, one per block, and the interval of their mean.

d_b = ln(y_lane,b) - ln(y_baseline,b), where both trials of block b had the same addresses and ran close together, so
that what changes slowly cancels. Everything here is on the log scale; ``exp`` turns it into ratios.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import stdtr, stdtrit

_ROUNDING = 1e-12
"""What the arithmetic of logarithms may add to a difference that is none."""

_EXACT = 40
"""Most blocks for the exact permutation test: 2 x 2**20 half sums."""


@dataclass(frozen=True)
class Effect:
    """Log-ratios of one lane against the baseline in one cell and metric, in the order of the blocks."""

    logs: tuple[float, ...]
    resolution: float = 0.0
    """How far the mean may lie from the truth only because the figures are counted in steps (half a histogram bin, one
    I/O): more blocks do not shrink it, so no interval is narrower. On the log scale."""

    @property
    def n(self) -> int:
        return len(self.logs)

    @cached_property
    def mean(self) -> float:
        return math.fsum(self.logs) / self.n

    @cached_property
    def sd(self) -> float:
        """Standard deviation over blocks (n - 1); 0 where all are equal but for rounding. ValueError below 2 blocks."""
        if self.n < 2:
            raise ValueError("one block has no spread")
        sd = math.sqrt(math.fsum((d - self.mean) ** 2 for d in self.logs) / (self.n - 1))
        return sd if sd > _ROUNDING else 0.0

    def half_width(self, level: float) -> float:
        """Half the interval with two-sided error rate ``level`` (0..1): t_(n-1) s / sqrt(n), at least the resolution.

        Student's t on paired differences. With equal differences (the virtual clock does that) the interval is only as
        wide as the resolution: true of the addresses and orders tried, and a footnote says so.
        """
        return max(_half_width(self.sd, self.n, level), self.resolution, _ROUNDING)

    def interval(self, level: float) -> tuple[float, float]:
        """Ends of the interval with two-sided error rate ``level``, as log-ratios. ValueError below 2 blocks."""
        half = self.half_width(level)
        return self.mean - half, self.mean + half

    def rejects(self, level: float) -> bool:
        """No difference lies outside the interval: exactly when the test at ``level`` rejects."""
        return abs(self.mean) > self.half_width(level)

    @property
    def p(self) -> float:
        """Two-sided p-value of no difference: the smallest level at which the interval excludes it."""
        if abs(self.mean) <= max(self.resolution, _ROUNDING):
            return 1.0
        if not self.sd:
            return 0.0
        return float(2 * stdtr(self.n - 1, -abs(self.mean) / (self.sd / math.sqrt(self.n))))


def _half_width(sd: float, n: int, level: float) -> float:
    return sd and float(-stdtrit(n - 1, level / 2)) * sd / math.sqrt(n)


def blocks_needed(sd: float, half_width: float, level: float, most: int = 1_000_000) -> int | None:
    """Fewest blocks (>= 2) whose t interval at two-sided error rate ``level`` is within +- ``half_width``.

    ``sd`` and ``half_width`` on the log scale. None: more than ``most``, or the half width asked for is not positive.
    """
    if half_width <= 0 or _half_width(sd, most, level) > half_width:
        return None
    low, high = 1, most  # the width falls with n: bisect; low is too few, high is enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _half_width(sd, middle, level) <= half_width else (middle, high)
    return high


def sign_flip_p(logs: Sequence[float]) -> float | None:
    """Exact two-sided p-value of the sign-flip (Fisher-Pitman) permutation test of a mean of zero.

    Share of the 2**n ways to swap the two lanes' names block by block that give a mean at least as far from zero. It
    needs symmetry but no normality. None below 6 blocks (the least p is 2**(1 - n)) and above 40 (too many ways).
    The ways are not listed but counted from two sorted halves (Horowitz and Sahni, JACM 21, 1974).
    """
    if not 6 <= len(logs) <= _EXACT:
        return None
    d = np.asarray(logs, dtype=float)
    first, second = _signed_sums(d[: len(d) // 2]), np.sort(_signed_sums(d[len(d) // 2 :]))
    target = abs(float(d.sum())) - 1e-9 * float(np.abs(d).sum())  # equal sums, added in another order, are equal
    above = len(second) - np.searchsorted(second, target - first, side="left")
    below = np.searchsorted(second, -target - first, side="right")
    ways = len(first) * len(second)
    return min(1.0, float((above + below).sum()) / ways)


def _signed_sums(
    d: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    sums = np.zeros(1)
    for x in d:
        sums = np.concatenate([sums - x, sums + x])
    return sums


def hodges_lehmann(logs: Sequence[float]) -> float:
    """Median of all pairwise means, each block with itself included (Hodges and Lehmann, Ann. Math. Stat. 34, 1963):
    the centre that a few stalled blocks cannot pull away. ValueError: no blocks."""
    if not logs:
        raise ValueError("no blocks")
    d = np.asarray(logs, dtype=float)
    i, j = np.triu_indices(len(d))
    return float(np.median((d[i] + d[j]) / 2))


def autocorrelation(logs: Sequence[float]) -> float | None:
    """Lag-1 autocorrelation of the log-ratios in block order; None below 4 blocks or without spread."""
    if len(logs) < 4:
        return None
    d = np.asarray(logs, dtype=float) - np.mean(logs)
    total = float(d @ d)
    return float(d[1:] @ d[:-1]) / total if total > _ROUNDING**2 * len(d) else None


def autocorrelated(logs: Sequence[float]) -> float | None:
    """The lag-1 autocorrelation where it is beyond +- 2/sqrt(n) (one in twenty by chance alone); else None."""
    r = autocorrelation(logs)
    return r if r is not None and abs(r) > 2 / math.sqrt(len(logs)) else None


@dataclass(frozen=True)
class PositionEffect:
    """How much of a log-ratio goes to the order of the two lanes within the block (carry-over)."""

    shift: float
    """Mean log-ratio of the blocks in which the lane ran *after* the baseline, less that of the others."""
    p: float
    """Two-sided, pooled two-sample t (the AB/BA cross-over: Hills and Armitage, Br. J. Clin. Pharmacol. 8, 1979)."""


def position_effect(logs: Sequence[float], lane_first: Sequence[bool]) -> PositionEffect | None:
    """Compare the blocks by order. None where an order has fewer than 2 blocks."""
    first = np.asarray([d for d, is_first in zip(logs, lane_first, strict=True) if is_first])
    after = np.asarray([d for d, is_first in zip(logs, lane_first, strict=True) if not is_first])
    if min(len(first), len(after)) < 2:
        return None
    shift = float(after.mean() - first.mean())
    df = len(first) + len(after) - 2
    pooled = math.sqrt((float(((first - first.mean()) ** 2).sum()) + float(((after - after.mean()) ** 2).sum())) / df)
    error = pooled * math.sqrt(1 / len(first) + 1 / len(after))
    if abs(shift) <= _ROUNDING:
        return PositionEffect(shift, 1.0)
    return PositionEffect(shift, float(2 * stdtr(df, -abs(shift) / error)) if error > _ROUNDING else 0.0)
