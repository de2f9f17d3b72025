"""The effect of a lane in one cell: paired log-ratios, one per block, and the interval of their mean.

d_b = ln(y_lane,b) - ln(y_baseline,b), where both trials of block b had the same addresses and ran close together, so
that slow changes cancel. Everything here is on the log scale; ``exp`` turns it into ratios.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from fairlane.stats.power import detectable

ROUNDING = 1e-12
"""Most that the arithmetic of logarithms may add to a difference of 0."""

_EXACT = 40
"""Most blocks for the exact permutation test: 2 x 2**20 half sums."""


@dataclass(frozen=True)
class Permutation:
    """A permutation test of no difference."""

    name: str
    """Name in notes: ``exact sign-flip permutation test``."""
    p: float
    """Two-sided."""
    least: float
    """Least p that is possible with this number of trials."""


class Estimate(ABC):
    """A mean log-ratio of a lane against another, and its interval by Student's t.

    From blocks in which both ran (``Effect``), or from two samples apart (``stats.samples.Samples``).
    """

    resolution: float
    """Error of the mean from figures counted in steps (half a histogram bin, one I/O), on the log scale. More blocks do
    not shrink it, so no interval is narrower."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Blocks, or trials of the lane that has fewer."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Mean log-ratio."""

    @property
    @abstractmethod
    def sd(self) -> float:
        """sqrt(n) times the standard error of the mean; 0 where nothing varies. ValueError: one trial has no spread."""

    @property
    @abstractmethod
    def df(self) -> float:
        """Degrees of freedom of t."""

    @property
    @abstractmethod
    def centre(self) -> float:
        """Hodges-Lehmann estimate: a centre that a few stalled trials cannot pull."""

    @abstractmethod
    def permutation(self) -> Permutation | None:
        """A test that depends less on normality; None: too few trials for it, or too many."""

    @abstractmethod
    def needed(self, half_width: float, level: float) -> int | None:
        """Fewest blocks (of samples apart: trials of each lane) whose interval at two-sided error rate ``level`` is
        within +- ``half_width``, at the observed spread; None: out of reach."""

    def half_width(self, level: float) -> float:
        """Half the interval with two-sided error rate ``level`` (0..1): t s / sqrt(n), at least the resolution.

        With equal figures (as under the virtual clock) the interval is only as wide as the resolution: it holds for the
        addresses and orders tried, and a footnote states that.
        """
        return max(_half_width(self.sd, self.n, level, self.df), self.resolution, ROUNDING)

    def interval(self, level: float) -> tuple[float, float]:
        """Ends of the interval with two-sided error rate ``level``, as log-ratios. ValueError: no spread."""
        half = self.half_width(level)
        return self.mean - half, self.mean + half

    def rejects(self, level: float) -> bool:
        """Whether the interval excludes no difference: exactly when the test at ``level`` rejects."""
        return abs(self.mean) > self.half_width(level)

    @property
    def p(self) -> float:
        """Two-sided p-value of no difference: the smallest level at which the interval excludes it."""
        if abs(self.mean) <= max(self.resolution, ROUNDING):
            return 1.0
        if not self.sd:
            return 0.0
        return float(2 * stdtr(self.df, -abs(self.mean) / (self.sd / math.sqrt(self.n))))

    def detectable(self, level: float, power: float = 0.8) -> float:
        """Smallest true log-ratio that as many trials with this spread detect at ``level`` with chance ``power``."""
        error = self.sd / math.sqrt(self.n)
        beyond_steps = self.resolution + float(ndtri(power)) * error
        return max(detectable(self.df, level, power) * error, beyond_steps, ROUNDING)


@dataclass(frozen=True)
class Effect(Estimate):
    """Log-ratios of one lane against the baseline in one cell and metric, in the order of the blocks.

    The interval is Student's t on paired differences.
    """

    logs: tuple[float, ...]
    resolution: float = 0.0
    factor: float = 1.0
    """Of the spread, because neighbouring blocks are alike: see ``stats.neighbours``."""
    share: float = 1.0
    """Share of the degrees of freedom that is left, for the same reason."""

    @property
    def n(self) -> int:
        return len(self.logs)

    @cached_property
    def mean(self) -> float:
        return math.fsum(self.logs) / self.n

    @cached_property
    def sd(self) -> float:
        """Standard deviation over blocks (n - 1), times ``factor``; 0 where all are equal but for rounding. ValueError
        below 2 blocks."""
        return self.factor * spread(self.logs)

    @property
    def df(self) -> float:
        return max(1.0, self.share * (self.n - 1))

    @property
    def centre(self) -> float:
        return hodges_lehmann(self.logs)

    def permutation(self) -> Permutation | None:
        p = sign_flip_p(self.logs)
        # n blocks cannot give a permutation p below 2**(1 - n)
        return None if p is None else Permutation("exact sign-flip permutation test", p, 2.0 ** (1 - self.n))

    def needed(self, half_width: float, level: float) -> int | None:
        return blocks_needed(self.sd, half_width, level)


def spread(logs: Sequence[float]) -> float:
    """Standard deviation (n - 1); 0 where all are equal but for rounding. ValueError below 2 values."""
    if len(logs) < 2:
        raise ValueError("one block has no spread")
    mean = math.fsum(logs) / len(logs)
    sd = math.sqrt(math.fsum((d - mean) ** 2 for d in logs) / (len(logs) - 1))
    return sd if sd > ROUNDING else 0.0


def _half_width(sd: float, n: int, level: float, df: float) -> float:
    return sd and float(-stdtrit(df, level / 2)) * sd / math.sqrt(n)


def blocks_needed(sd: float, half_width: float, level: float, most: int = 1_000_000, lent: float = 0.0) -> int | None:
    """Fewest blocks (>= 2) whose t interval at two-sided error rate ``level`` is within +- ``half_width``.

    ``sd`` and ``half_width`` on the log scale; ``lent``: degrees of freedom beside those of the blocks. None: more than
    ``most``, or ``half_width`` is not positive.
    """
    return fewest(lambda n: _half_width(sd, n, level, n - 1 + lent), half_width, most)


def fewest(width: Callable[[int], float], half_width: float, most: int = 1_000_000) -> int | None:
    """Fewest trials (>= 2) at which ``width``, which falls with their number, is at most ``half_width``; None: more
    than ``most``, or ``half_width`` is not positive."""
    if half_width <= 0 or width(most) > half_width:
        return None
    low, high = 1, most  # bisect; low is too few, high is enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width(middle) <= half_width else (middle, high)
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
    first, second = _signed_sums(d[: len(d) // 2]), _signed_sums(d[len(d) // 2 :])
    target = abs(float(d.sum())) - 1e-9 * float(np.abs(d).sum())  # equal sums, added in another order, are equal
    ways = len(first) * len(second)
    below = np.searchsorted(second, target + first, side="left")  # to first's mirror image, in order: near each other
    return min(1.0, 2 * float(ways - below.sum()) / ways)  # as many ways lie as far on the other side


def _signed_sums(
    d: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """All sums of ``d`` with any signs, in order; each has its negative among them."""
    sums = np.zeros(1)
    for x in d:
        sums = np.sort(np.concatenate([sums - x, sums + x]), kind="stable")  # which merges two runs in order
    return sums


def hodges_lehmann(logs: Sequence[float]) -> float:
    """Median of all pairwise means, each block with itself included (Hodges and Lehmann, Ann. Math. Stat. 34, 1963):
    a centre that a few stalled blocks cannot pull. ValueError: no blocks."""
    if not logs:
        raise ValueError("no blocks")
    d = np.asarray(logs, dtype=float)
    i, j = np.triu_indices(len(d))
    return float(np.median((d[i] + d[j]) / 2))


@dataclass(frozen=True)
class PositionEffect:
    """The part of a log-ratio that depends on the order of the two lanes within the block (carry-over)."""

    shift: float
    """Mean log-ratio of the blocks in which the lane ran *after* the baseline, less that of the others."""
    p: float
    """Two-sided, pooled two-sample t (the AB/BA cross-over: Hills and Armitage, Br. J. Clin. Pharmacol. 8, 1979)."""


def position_effect(logs: Sequence[float], lane_first: Sequence[bool]) -> PositionEffect | None:
    """The effect of the lanes' order. None where an order has fewer than 2 blocks."""
    first = np.asarray([d for d, is_first in zip(logs, lane_first, strict=True) if is_first])
    after = np.asarray([d for d, is_first in zip(logs, lane_first, strict=True) if not is_first])
    if min(len(first), len(after)) < 2:
        return None
    shift = float(after.mean() - first.mean())
    df = len(first) + len(after) - 2
    pooled = math.sqrt((float(((first - first.mean()) ** 2).sum()) + float(((after - after.mean()) ** 2).sum())) / df)
    error = pooled * math.sqrt(1 / len(first) + 1 / len(after))
    if abs(shift) <= ROUNDING:
        return PositionEffect(shift, 1.0)
    return PositionEffect(shift, float(2 * stdtr(df, -abs(shift) / error)) if error > ROUNDING else 0.0)
