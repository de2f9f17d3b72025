"""A lane that is still moving: a cache that fills, an SLC buffer that empties, a node that balances.

The log-ratio then has a slope over the blocks, and its mean is of no one state. All cells of a pair of lanes share the
cause, so their slope is tested together: t of the slope of the means over the cells, block by block, less each cell's
own mean, weighted by their precision. A shock that all cells share counts once.

The fewest first units are left out after which no slope is left: its p is above ``MOVES``. Where fewer than ``KEEP``
units would stay, the lane is still moving, and nothing is known of its end. A lane that took most of the study to come
to rest may only seem to: of what is left, too little is known to see the rest of a slow move.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

import numpy as np
from scipy.special import fdtrc, stdtr

from fairlane.stats.moderated import LEAST
from fairlane.stats.neighbours import Floats, Rows
from fairlane.study.base import FEW_BLOCKS, OWN_BLOCKS

KEEP, ALONE = OWN_BLOCKS, FEW_BLOCKS
"""Units that must stay: where cells lend each other their spread, and where they do not."""
MOVES = 0.2
"""p of the slope above which the blocks count as settled. Well above 5 %: overlooking a slope makes false words, seeing
one by mistake costs a block (docs/statistics.md)."""
PROVEN = 0.05
"""Chance of a slope over all units below which it takes the word."""
POOLED = 0.25
"""p of the F test above which the cells' own residuals are pooled with those of the means."""
AHEAD = 2
"""Units ahead, as a multiple of those that stay, in which a slope must not undo a word."""
MOST = 0.5
"""Share of the units that may be left out."""


@dataclass(frozen=True)
class Move:
    """What a pair of lanes does over its units."""

    units: int = 0
    """Units in which a cell has a figure."""
    first: int = 0
    """Number of first units that are left out."""
    standing: bool = False
    """Whether the lanes are still moving against each other at the end."""
    slope: float = 0.0
    """Of what is left, log-ratio per unit."""
    chance: float = 1.0
    """Chance of a slope over all units as steep as theirs where there is none."""
    course: tuple[float, ...] = ()
    """Mean of the cells, unit by unit, less its own mean (log-ratio)."""

    @property
    def unsettled(self) -> bool:
        """Whether more units would tell where it ends."""
        return self.standing or self.first > MOST * self.units

    @property
    def ahead(self) -> float:
        """How far the slope, of which little is known yet, would take the log-ratio in ``AHEAD`` times as many units as
        stay."""
        return AHEAD * (self.units - self.first) * self.slope

    def since(self, first: int, end: int) -> float:
        """How far the units that stay lie from those from ``first`` on, below ``end`` (log-ratio)."""
        return fmean(self.course[self.first :]) - fmean(self.course[first:end])


@lru_cache(maxsize=65536)
def move(rows: Rows, *, certain: bool = False) -> Move:
    """The move of the cells of a pair of lanes together. ``certain``: units are left out only where it is certain that
    they moved (``PROVEN`` in place of ``MOVES``)."""
    values = np.array(rows, dtype=float)
    units = values.shape[1] if values.size else 0
    keep = KEEP if len(rows) >= LEAST else ALONE
    if units < keep:
        return Move(units)
    course, _, chance = trend(values)
    for first in range(units - keep + 1):
        _, slope, p = trend(values[:, first:])
        if p > (PROVEN if certain else MOVES):
            return Move(units, first, slope=slope, chance=chance, course=course)
    return Move(units, units - keep, standing=True, slope=slope, chance=chance, course=course)


def trend(values: Floats) -> tuple[tuple[float, ...], float, float]:
    """The cells' common course (0 in a unit that no cell has), its slope per unit, and the slope's two-sided p;
    ``values``: cells x units, nan where there is no figure."""
    still = (0.0,) * values.shape[1]
    some = values[(~np.isnan(values)).sum(axis=1) >= 2]
    if not some.size:
        return still, 0.0, 1.0
    variances = np.nanvar(some, axis=1, ddof=1)
    weights = (1 / (variances + variances.mean() + 1e-24))[:, None]  # a calm cell counts more, but none alone
    off = some - np.nanmean(some, axis=1, keepdims=True)
    there = ~np.isnan(off)
    total = (there * weights).sum(axis=0)
    off, there, total = (np.where(there, off, 0.0) * weights)[:, total > 0], there[:, total > 0], total[total > 0]
    x = np.flatnonzero((~np.isnan(some)).any(axis=0)).astype(float)
    y = off.sum(axis=0) / total
    n = len(x)
    if n < 3:
        return still, 0.0, 1.0
    y = y - y.mean()
    course = np.zeros(values.shape[1])
    course[x.astype(int)] = y
    x = x - x.mean()
    sxx = float(x @ x)
    slope = float(x @ y) / sxx
    if abs(slope) < 1e-12:
        return still, 0.0, 1.0
    rest = y - slope * x
    variance, df = _spread(float(rest @ rest) / (n - 2), n - 2, (off - there * weights * y) / total.mean())
    p = 2 * float(stdtr(df, -abs(slope) / math.sqrt(variance / sxx))) if variance > 1e-30 else 0.0
    return tuple(course.tolist()), slope, p


def _spread(variance: float, df: int, rest: Floats) -> tuple[float, float]:
    """Variance of the means of units, and its degrees of freedom. ``variance``: of themselves, with ``df``; ``rest``:
    what each cell adds to a mean beyond the others, cells x units.

    Cells that err independently know it better than the few means, and are used where the means show no more spread
    than theirs (sometimes pooled, at 25 %: Bozivich, Bancroft and Hartley, Ann. Math. Stat. 27, 1956): more is a shock
    that all cells share.
    """
    cells, units = rest.shape
    if cells < 2:
        return variance, df
    each = (rest**2).sum(axis=1) / (units - 1) * cells / (cells - 1)
    own = float(each.sum())
    if own <= 0:
        return variance, df
    many = (units - 1) * (cells - 1) / cells * own**2 / float(each @ each)
    if float(fdtrc(df, many, variance / own)) < POOLED:
        return variance, df
    return (df * variance + many * own) / (df + many), df + many
