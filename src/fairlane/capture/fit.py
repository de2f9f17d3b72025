"""Locality from counts of blocks: how concentrated the I/Os are, on how many blocks, and which of fio's distributions
draws alike.

The share of I/Os at the hottest blocks is cross-validated: blocks are ranked by one half of the I/Os, and the other
half is counted. Ranking and counting by the same I/Os would show hot spots in any uniform load of few I/Os per block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Repeats = Sequence[Sequence[int]]
"""(I/Os of a block in the first half, in the second, number of such blocks)."""

STEPS = (0.01, 0.05, 0.10, 0.20, 0.50)
"""Shares of the blocks, hottest first, at which the concentration is reported."""
_UNIFORM, _ALIKE = 0.05, 0.05
"""Largest excess at the hottest tenth that is still called uniform; largest error of a fitted curve."""
_FEW = 200
"""I/Os below which nothing is fitted."""
_SIMULATED = 2_000_000


@dataclass(frozen=True)
class Locality:
    """Where the random I/Os of one kind went."""

    blocks: float
    """Distinct places touched."""
    places: float
    """Estimated number of places that the load uses, those not yet touched included."""
    curve: tuple[float, ...]
    """Share of the I/Os at the hottest ``STEPS`` of the places."""
    distribution: str
    """fio's ``random_distribution``; empty: uniform, or too few I/Os to tell."""

    @property
    def hot(self) -> float:
        """Share of the I/Os at the hottest tenth of the places; 0.1 if all are equally hot."""
        return self.curve[STEPS.index(0.10)]


def locality(repeats: Repeats, sampled: float, most: float) -> Locality | None:
    """Fits ``repeats`` of a sample of ``sampled`` of all blocks; ``most``: places that there can be. None: no I/O."""
    table = np.array(repeats, float).reshape(-1, 3)
    total = table[:, 0] + table[:, 1]
    count, blocks = float((total * table[:, 2]).sum()), float(table[:, 2].sum())
    if not count:
        return None
    most = max(most, blocks / sampled)
    places = min(_chao(total, table[:, 2]) / sampled, most)
    curve = _curve(table, places * sampled)
    name = ""
    if count >= _FEW and curve[STEPS.index(0.10)] - 0.10 > _UNIFORM:
        name, places = _skewed(table, sampled, places, most, curve)
        curve = _curve(table, places * sampled)
    return Locality(blocks / sampled, places, tuple(curve), name)


def _chao(total: Floats, number: Floats) -> float:
    """Number of classes from those seen once and twice: Chao (1984), Scand. J. Statist. 11, bias-corrected form."""
    once, twice = float(number[total == 1].sum()), float(number[total == 2].sum())
    return float(number.sum() + once * (once - 1) / (2 * (twice + 1)))


def _curve(table: Floats, places: float) -> list[float]:
    sides = [_one_side(table[:, a], table[:, b], table[:, 2], places) for a, b in ((0, 1), (1, 0))]
    return [float((x + y) / 2) for x, y in zip(*sides, strict=True)]


def _one_side(rank: Floats, count: Floats, number: Floats, places: float) -> list[float]:
    levels, inverse = np.unique(-rank, return_inverse=True)
    blocks = np.bincount(inverse, weights=number)
    ios = np.bincount(inverse, weights=number * count)
    if len(levels) and levels[-1] == 0:  # blocks that this half has not seen are as good as those nobody has seen
        blocks[-1] = max(places - blocks[:-1].sum(), blocks[-1])
    else:
        blocks, ios = np.append(blocks, max(places - blocks.sum(), 0.0)), np.append(ios, 0.0)
    x, y = np.concatenate([[0], blocks.cumsum()]), np.concatenate([[0], ios.cumsum()])
    if y[-1] == 0:
        return list(STEPS)
    return [float(np.interp(step * x[-1], x, y) / y[-1]) for step in STEPS]


def _skewed(table: Floats, sampled: float, places: float, most: float, curve: Sequence[float]) -> tuple[str, float]:
    """fio's distribution for a load with hot spots, and its number of places."""
    zipf = _zipf(table, sampled, most)
    if zipf:
        theta, ranks = zipf
        total = float((table[:, 0] + table[:, 1]) @ table[:, 2])
        again = _simulated(theta, ranks, total / sampled if sampled < 1 else total)
        ours = _curve(table, ranks * sampled)
        if again and max(abs(a - b) for a, b in zip(again, ours, strict=True)) <= _ALIKE:
            return f"zipf:{theta:.2f}", ranks
    return _zoned(curve), places


def _ranks(places: float) -> tuple[Floats, Floats]:
    """Ranks 1 to ``places``: each of the first thousand, then in growing groups: (middle, members)."""
    first = np.arange(1.0, min(places, 1000) + 1)
    if places <= 1000:
        return first, np.ones_like(first)
    edges = np.geomspace(1000.5, places + 0.5, 400)
    return np.concatenate([first, np.sqrt(edges[1:] * edges[:-1])]), np.concatenate(
        [np.ones_like(first), np.diff(edges)]
    )


def _shares(theta: float, places: float) -> tuple[Floats, Floats]:
    middle, members = _ranks(places)
    weight = middle**-theta
    return weight / (weight @ members), members


def _zipf(table: Floats, sampled: float, most: float) -> tuple[float, float] | None:
    """Exponent and number of places of a Zipf law with the sample's repeats and distinct blocks. The chance that two
    I/Os meet, sum c(c-1) / n(n-1), is unbiased however few I/Os there are; it gives the exponent, the distinct blocks
    give the places."""
    total, number = table[:, 0] + table[:, 1], table[:, 2]
    ios = float(total @ number) / sampled
    meet = float((total * (total - 1)) @ number) / sampled / (ios * (ios - 1))
    distinct = float(number.sum()) / sampled
    if not 0 < meet < 1:
        return None

    def theta_of(places: float) -> float:
        low, high = 0.0, 4.0
        for _ in range(40):
            middle = (low + high) / 2
            share, members = _shares(middle, places)
            low, high = (middle, high) if float((share**2) @ members) < meet else (low, middle)
        return (low + high) / 2

    def touched(places: float) -> float:
        share, members = _shares(theta_of(places), places)
        return float(-np.expm1(ios * np.log1p(-np.minimum(share, 1 - 1e-12))) @ members)

    low, high = distinct, max(most, distinct)
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if touched(middle) < distinct else (low, middle)
    theta = theta_of(low)
    if abs(theta - 1) < 0.005:  # fio refuses 1
        theta = 1.01
    return (theta, low) if 0.05 < theta < 3.9 else None


def _simulated(theta: float, places: float, ios: float) -> list[float] | None:
    """The curve that such a law gives by the same method; None: too large to be drawn."""
    if places > _SIMULATED:
        return None
    rng = np.random.default_rng(1)
    share = np.arange(1, int(places) + 1) ** -theta
    share *= ios / 2 / share.sum()
    halves = np.stack([rng.poisson(share), rng.poisson(share)], 1)
    unique, number = np.unique(halves[halves.any(axis=1)], axis=0, return_counts=True)
    return _curve(np.column_stack([unique, number]).astype(float), places)


def _zoned(curve: Sequence[float]) -> str:
    """fio's ``zoned``: access/size in percent, hottest first; zones without access join their neighbour."""
    sizes = np.rint(np.diff([0.0, *STEPS, 1.0]) * 100).astype(int)
    edges = np.rint(np.maximum.accumulate(np.clip([0.0, *curve, 1.0], 0, 1)) * 100).astype(int)
    zones: list[list[int]] = []
    for access, size in zip(np.diff(edges), sizes, strict=True):
        if zones and (access == 0 or zones[-1][0] == 0):
            zones[-1][0] += int(access)
            zones[-1][1] += int(size)
        else:
            zones.append([int(access), int(size)])
    return "zoned:" + ":".join(f"{access}/{size}" for access, size in zones)
