"""Planned looks: exact boundaries for repeated t tests, for any plan and error rate.

After n blocks u_n = sum d / sqrt(sum d^2) of the log-ratios d decides the t test: t = u sqrt((n - 1) / (n - u^2)).
Under no effect u is a Markov chain whose law knows no spread, because sum d^2 is independent of all u so far (Basu):

    u_(n+1) = (u_n + w) / sqrt(1 + w^2)          w = t_n / sqrt(n), Student's t with n degrees of freedom

(Jennison and Turnbull, Biometrika 78, 1991, 133-141). With phi = arcsin(u / sqrt(n)) every n has the same range, and
the chain is carried from block to block over even bins of |phi|, the paths that have crossed a boundary left out.
Boundaries computed for a normal of known spread, and used as p-values of t, spend 3 to 20 % more than their error rate.

The error is spent by Hwang, Shih and DeCani (Stat. Med. 9, 1990, 1439-1445) with gamma = -2: less at early looks than
in proportion, more than O'Brien and Fleming, who leave so little that an early interval says nothing of an effect's
size. Failed trials leave fewer blocks at a look than planned: the look then spends what the plan does, and its boundary
is that of the blocks there really are.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

if TYPE_CHECKING:
    from fairlane.study.base import Design

Floats = NDArray[np.float64]

GAMMA = -2.0
"""Shape of the spending: 7.7 % of the error after 4 of 20 blocks, 27 % after half of them."""
CALM = 0.75
"""Share of the error rate at which intervals are drawn, and stopped on, where a study stops on width. A cell tends to
end when its spread happens to look small (Anscombe, Proc. Camb. Phil. Soc. 48, 1952, on this rule): with the whole rate
the lowest coverage of a 95 % interval over spreads from 1 to 8 % was 93.5 %, with this share it is 94.8, for some 8 %
more blocks (seeded simulation, tests/stats/test_width.py)."""
_BINS = 200
_ANGLES = np.linspace(0, math.pi / 2, _BINS + 1)
"""Edges of the bins of |phi|."""
_MIDDLES = (_ANGLES[1:] + _ANGLES[:-1]) / 2
_EXACT = 48
"""Blocks up to which the chain is carried block by block; beyond, p-values follow those of a Brownian motion."""


def nominal_levels(plan: Sequence[int], alpha: float) -> tuple[float, ...]:
    """Two-sided nominal level at each look of ``plan`` (rising numbers of blocks); ``alpha`` (0..1) over all."""
    return _levels(_checked(plan, alpha), tuple(spent(n, plan[-1]) * alpha for n in plan))


def level(plan: Sequence[int], usable: Sequence[int], alpha: float) -> float:
    """Two-sided nominal level at look number ``len(usable)``, where ``usable`` blocks counted at each look up to it.

    ``usable`` never falls; where it does not rise, or is below 2, there is no look: its share of the error is spent at
    the next. ValueError if the last one is not a look.
    """
    plan, usable = _checked(plan, alpha), tuple(usable)
    if not usable or len(usable) > len(plan) or any(b < a for a, b in pairwise(usable)):
        raise ValueError(f"usable blocks {usable} do not fit the looks {plan}")
    if usable[-1] < 2 or usable[-1] in usable[:-1]:
        raise ValueError(f"no look: usable blocks {usable}")
    looks = {n: spent(planned, plan[-1]) * alpha for planned, n in reversed(list(zip(plan, usable, strict=False)))}
    real = sorted(n for n in looks if n >= 2)
    return _levels(tuple(real), tuple(looks[n] for n in real))[-1]


def nominal(design: "Design", usable: Sequence[int], alpha: float) -> float:
    """Two-sided nominal level of an interval under a study's stopping rule; ``usable`` as for ``level``, in
    the design's units: blocks, or provisionings where there are several.

    Stopping on width depends on the width of the interval and never on its place: no look costs anything, but all
    together cost ``CALM``. Lanes that ran at different times have one look.
    """
    if not design.paired:
        return alpha
    if design.stop:
        return CALM * alpha
    return level(tuple(n // design.blocks_per_unit for n in design.looks), usable, alpha)


def spent(blocks: int, last: int) -> float:
    """Share of the error rate that is spent up to a look after ``blocks`` of ``last`` planned blocks."""
    return math.expm1(-GAMMA * blocks / last) / math.expm1(-GAMMA)


def _checked(plan: Sequence[int], alpha: float) -> tuple[int, ...]:
    if not plan or plan[0] < 1 or any(b <= a for a, b in pairwise(plan)):
        raise ValueError(f"looks are rising numbers of blocks, not {tuple(plan)}")
    if not 0 < alpha < 1:
        raise ValueError(f"an error rate lies between 0 and 1, not {alpha}")
    return tuple(plan)


@lru_cache(maxsize=4096)
def _levels(looks: tuple[int, ...], gone: tuple[float, ...]) -> tuple[float, ...]:
    """Nominal levels at ``looks`` (2 blocks at least), so that the error up to and including each is ``gone``."""
    if len(looks) == 1:
        return gone
    levels: list[float] = []
    mass = np.diff(_inside(_ANGLES, looks[0] - 1))
    for i, (n, upto) in enumerate(zip(looks, gone, strict=True)):
        if i:
            mass = _carried(mass, looks[i - 1], n)
        share = upto - (gone[i - 1] if i else 0.0)
        beyond = np.cumsum(mass[::-1])[::-1]  # at the lower edge of each bin
        # Towards the end of the range all paths are still there: the ratio to a single test's p-value hardly changes.
        single = 2 * _halves(_ANGLES[:-1], n)
        steady = beyond > 1e-280
        ratio = np.interp(-math.log(share), -np.log(beyond[steady]), single[steady] / beyond[steady])
        levels.append(share * float(ratio) if i else share)
        angle = math.atan(-stdtrit(n - 1, levels[-1] / 2) / math.sqrt(n - 1))
        cut = min(int(np.searchsorted(_ANGLES, angle)) - 1, _BINS - 1)
        mass[cut + 1 :] = 0
        mass[cut] = max(0.0, beyond[cut] - share)
    return tuple(levels)


def _carried(mass: Floats, n: int, later: int) -> Floats:
    """The paths after ``later`` blocks, from those after ``n``."""
    while n < min(later, _EXACT):
        mass, n = _one_block(n) @ mass, n + 1
    return mass if n == later else _leap(n, later) @ mass


@lru_cache(maxsize=_EXACT)
def _one_block(n: int) -> Floats:
    """[to, from]: chance of each bin of |phi| after n + 1 blocks, from the middle of each after n."""
    u = math.sqrt(n) * np.sin(_MIDDLES)
    turn = np.arctan(u)  # u' = sqrt(1 + u^2) sin(psi + turn), where w = tan(psi)
    reach = np.arcsin(np.minimum(math.sqrt(n + 1) * np.sin(_ANGLES)[:, None] / np.sqrt(1 + u * u), 1.0))

    def below(edge: Floats) -> Floats:
        return _t(edge - turn, n) + 1 - _t(math.pi - edge - turn, n)

    within = below(reach) - below(-reach)
    within[-1] = 1.0
    steps: Floats = np.diff(within, axis=0)
    return steps


@lru_cache(maxsize=256)
def _leap(n: int, later: int) -> Floats:
    """As ``_one_block``, over many blocks: with more than _EXACT of them the p-values behave as a normal's."""
    z = -ndtri(_halves(_MIDDLES, n))
    edges = -ndtri(_halves(_ANGLES, later))[:, None]
    shared = math.sqrt(n / later)
    rest = math.sqrt(1 - n / later)
    within = ndtr((edges - shared * z) / rest) - ndtr((-edges - shared * z) / rest)
    steps: Floats = np.diff(within, axis=0)
    return steps


def _halves(angles: Floats, n: int) -> Floats:
    """One-sided p-values of the t test at ``angles`` after n blocks."""
    with np.errstate(over="ignore"):
        tails: Floats = stdtr(n - 1, -math.sqrt(n - 1) * np.tan(np.minimum(angles, math.pi / 2 - 1e-12)))
    return np.maximum(tails, 1e-300)


def _inside(angles: Floats, df: int) -> Floats:
    """P(|t| < sqrt(df) tan(angle))."""
    return 2 * _t(angles, df) - 1


def _t(angles: Floats, df: int) -> Floats:
    """Distribution of Student's t at sqrt(df) tan(angle), angles cut to +-pi/2: the finite sums of Abramowitz and
    Stegun 26.7.3 and 26.7.4, ten times as fast as a general one."""
    psi = np.clip(angles, -math.pi / 2, math.pi / 2)
    sine, squared = np.sin(psi), np.cos(psi) ** 2
    odd = df % 2
    power = np.cos(psi) if odd else np.ones_like(psi)
    total = np.zeros_like(psi) if odd else np.ones_like(psi)
    factor = 1.0
    for j in range(1, df - 1 if odd else df - 2, 2):
        if odd:
            total += factor * power
            factor *= (j + 1) / (j + 2)
            power = power * squared
        else:
            factor *= j / (j + 1)
            power = power * squared
            total += factor * power
    result: Floats = 0.5 + ((psi + sine * total) / math.pi if odd else sine * total / 2)
    return result
