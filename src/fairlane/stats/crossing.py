"""Where the mean curve of a lane reaches a limit, with an interval; and the ratio of two lanes there.

A curve is two figures over the rungs of a ladder, x and y, such as latency and throughput, as logarithms, by block. One
curve per lane: the means over its blocks, made to rise by isotonic least squares (Barlow, Bartholomew, Bremner and
Brunk, *Statistical Inference under Order Restrictions*, 1972), linear between two rungs. It *crosses* where x reaches
the limit; y there is the figure.

The interval is not a spread of crossings: a crossing bends where the curve does, and jumps where the curve is flat. In
its place the test of x is inverted (Fieller, J. R. Stat. Soc. B 16, 1954): at every place between the rungs, t of the
blocks' x against the limit, and the places that are not rejected hold the crossing. This is exact for normal
logarithms, however the curve runs. From it come the distances down and up along the curve, and from the blocks' y at
the crossing another one; they are joined with their correlation. A place beyond the end of the ladder that is not
rejected makes the interval open on that side.

The difference of two lanes joins their distances l and u, with the correlation r of the blocks (Zou and Donner, Stat.
Med. 27, 2008, 1693-1702). For r > 0, what both lanes share moves both curves down or both up, and their difference by
m = l_1 - l_2 or by m' = u_1 - u_2; where these differ, as beside a bend, it moves to the same side whichever way:

    down = sqrt((1 - r) (l_1^2 + u_2^2) + r ((m + m') / 2)^2) + r max(0, m - m') / 2

Where the curves are straight this is the paired t interval of the blocks' log-ratios, with n - 1 degrees of freedom.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from fairlane.stats.effects import ROUNDING
from fairlane.stats.neighbours import Memory

Floats = NDArray[np.float64]
INF = math.inf


def risen(logs: Sequence[float] | Floats) -> Floats:
    """The isotonic least squares fit: ``logs``, with the means of what falls in its place.

    By the max-min formula (Barlow et al., 1.4): at i the highest, over j <= i, of the lowest mean of j..k, k >= i. A
    ladder has few rungs; scipy.optimize, which has it too, takes half a second to import.
    """
    values = np.asarray(logs, dtype=float)
    sums = np.concatenate(([0.0], values.cumsum()))
    fit = np.empty_like(values)
    for i in range(len(values)):
        lengths = np.arange(i + 1, len(values) + 1)[None, :] - np.arange(i + 1)[:, None]
        fit[i] = ((sums[None, i + 1 :] - sums[: i + 1, None]) / lengths).min(axis=1).max()
    return fit


def position(xs: Floats, at: float, *, last: bool) -> float:
    """Where ``xs``, which never fall, reach ``at``, counted in rungs: 1.5 is midway between the second and the third.

    -inf: before the first rung, inf: beyond the last. Where several places are ``at``: the ``last`` or the first one,
    and an end of the ladder that is ``at`` counts as beyond it.
    """
    under = int((xs <= at + ROUNDING).sum() if last else (xs < at - ROUNDING).sum())
    if under in (0, len(xs)):
        return INF if under else -INF
    x0, x1 = float(xs[under - 1]), float(xs[under])
    return under - 1 + min(1.0, max(0.0, (at - x0) / (x1 - x0)))


def along(ys: Sequence[float], place: float) -> float:
    """``ys`` at a place between the rungs; beyond the ends the outermost."""
    if place >= len(ys) - 1:
        return ys[-1]
    k = int(max(place, 0.0))
    return ys[k] + (max(place, 0.0) - k) * (ys[k + 1] - ys[k])


@dataclass(frozen=True)
class Moments:
    """A figure over the rungs: means over the blocks, and their variances and covariances with the next rung."""

    means: Sequence[float]
    variances: Sequence[float]
    covariances: Sequence[float]

    @classmethod
    def of(cls, means: Floats, off: Floats) -> "Moments":
        """``off``: blocks x rungs, less their ``means``; at least 2 blocks."""
        scale = 1 / (len(off) * (len(off) - 1))
        variances, covariances = (off**2).sum(axis=0) * scale, (off[:, 1:] * off[:, :-1]).sum(axis=0) * scale
        return cls(means.tolist(), variances.tolist(), covariances.tolist())

    @cached_property
    def errors(self) -> Sequence[float]:
        """Standard errors."""
        return [math.sqrt(v) for v in self.variances]

    @cached_property
    def turned(self) -> "Moments":
        """The same read from the top rung down, with the sign changed: it rises too."""
        return Moments([-m for m in self.means[::-1]], self.variances[::-1], self.covariances[::-1])

    def first(self, at: float, q: float, step: float = 0.0) -> float:
        """First place at which the upper end, mean + q standard errors + ``step``, reaches ``at``.

        -inf: at the first rung already; inf: nowhere.
        """
        at -= step
        ends = (m + q * error for m, error in zip(self.means, self.errors, strict=True))
        # between two rungs the upper end is convex: it arrives there only if it has arrived at the next rung
        rung = next((k for k, end in enumerate(ends) if end >= at), None)
        if not rung:
            return INF if rung is None else -INF
        k = rung - 1
        gap, rise = at - self.means[k], self.means[rung] - self.means[k]
        v0, v1, c = self.variances[k], self.variances[rung], self.covariances[k]
        # (gap - rise w)^2 = q^2 Var((1 - w) x_k + w x_{k+1})
        a = rise**2 - q**2 * (v0 + v1 - 2 * c)
        b = -2 * gap * rise - 2 * q**2 * (c - v0)
        roots = [w for w in _roots(a, b, gap**2 - q**2 * v0) if -1e-9 <= w <= 1 and gap - rise * w >= 0]
        return k + max(0.0, min(roots, default=1.0))


def _roots(a: float, b: float, c: float) -> tuple[float, ...]:
    """Real roots of a w^2 + b w + c."""
    under = b * b - 4 * a * c
    if under < 0:
        return ()
    half = -(b + math.copysign(math.sqrt(under), b)) / 2
    return tuple(top / bottom for top, bottom in ((half, a), (c, half)) if bottom)


@dataclass(frozen=True)
class Curve:
    """One lane on one ladder: ``x`` and ``y`` are logarithms, blocks x rungs. The steps are the relative errors of
    figures that are counted in steps; more blocks do not shrink them."""

    x: Floats
    y: Floats
    x_step: float = 0.0
    y_step: float = 0.0
    memory: Memory = field(default_factory=Memory)
    """How far the blocks remember the ones before."""

    @property
    def n(self) -> int:
        """Blocks."""
        return len(self.x)

    def quantile(self, level: float) -> float:
        """Standard errors to either end of an interval with two-sided error rate ``level``."""
        df = max(1.0, self.memory.share * (self.n - 1))
        return float(-stdtrit(df, level / 2)) * self.memory.widening(self.n)

    @cached_property
    def xs(self) -> Floats:
        return risen(self._means[0])

    @cached_property
    def ys(self) -> Sequence[float]:
        fitted: list[float] = risen(self._means[1]).tolist()
        return fitted

    @cached_property
    def _means(self) -> tuple[Floats, Floats]:
        return self.x.mean(axis=0), self.y.mean(axis=0)

    @cached_property
    def off(self) -> tuple[Floats, Floats]:
        """x and y of the blocks, less their means."""
        return self.x - self._means[0], self.y - self._means[1]

    @cached_property
    def moments(self) -> Moments:
        """Of x."""
        return Moments.of(self._means[0], self.off[0])


@dataclass(frozen=True)
class Reach:
    """How far a figure may lie below and above its estimate; infinite: not known on that side."""

    down: float
    up: float
    moves: Floats
    """How each block moves the estimate: on any scale, their mean is 0."""


@dataclass(frozen=True)
class Crossing:
    """Where a curve reaches ``at`` (a logarithm) in x, read off in y."""

    curve: Curve
    at: float
    last: bool
    """Whether the last place counts where the curve is flat: the highest throughput, but the least latency."""

    @cached_property
    def place(self) -> float:
        """In rungs; infinite: beyond an end of the ladder."""
        return position(self.curve.xs, self.at, last=self.last)

    @cached_property
    def value(self) -> float:
        """y there; beyond an end of the ladder that of its outermost rung."""
        return along(self.curve.ys, self.place)

    def _span(self, q: float, step: float) -> tuple[float, float]:
        """The first and the last place that may hold the crossing; infinite: beyond an end of the ladder."""
        moments, top = self.curve.moments, len(self.curve.xs) - 1
        first, last = moments.first(self.at, q, step), top - moments.turned.first(-self.at, q, step)
        # the fit may lie beside the means, where these fall: its own place always counts
        return min(first, self.place), max(last, self.place)

    def _distances(self, span: tuple[float, float]) -> tuple[float, float]:
        """Along the curve, down and up, to the ends of the span."""
        down, up = (abs(self.value - along(self.curve.ys, place)) for place in span)
        return INF if span[0] == -INF else down, INF if span[1] == INF else up

    @cached_property
    def steps(self) -> tuple[float, float]:
        """Distances, down and up, that come from figures counted in steps alone."""
        down, up = self._distances(self._span(0.0, self.curve.x_step))
        return down + self.curve.y_step, up + self.curve.y_step

    @cached_property
    def _reaches(self) -> dict[float, Reach]:
        return {}

    def reach(self, level: float) -> Reach:
        """The interval with two-sided error rate ``level``, as distances. At least 2 blocks."""
        if level not in self._reaches:
            self._reaches[level] = self._reach(level)
        return self._reaches[level]

    def _reach(self, level: float) -> Reach:
        q = self.curve.quantile(level)
        span = self._span(q, 0.0)
        distances = self._distances(span)
        # y is as unsure as it is at the end in question: that is where the crossing would be
        down, up = (
            INF if distance == INF else self._joined(distance, place, q)
            for distance, place in zip(distances, span, strict=True)
        )
        x, y = self._off(self.place)
        known = [distance for distance in distances if distance < INF]
        along_x = (sum(known) / len(known) if known else 0.0) / (_length(x) or INF)
        return Reach(down, up, _unit(-along_x * x + q * self._scale * y))

    def _joined(self, distance: float, place: float, q: float) -> float:
        """A distance along the curve and q standard errors of y at ``place``, with their correlation."""
        x, y = self._off(place)
        # where a block's x is larger, it reaches the limit sooner
        own, r = q * self._scale * _length(y), -float(x @ y) / (_length(x) * _length(y) or INF)
        return math.sqrt(max(0.0, distance**2 + own**2 + 2 * r * distance * own))

    @property
    def _scale(self) -> float:
        """Standard error of a mean, by the length of what its blocks are off."""
        return 1 / math.sqrt(self.curve.n * (self.curve.n - 1))

    def _off(self, place: float) -> tuple[Floats, Floats]:
        """The blocks' x and y at ``place``, less their means."""
        rungs = self.curve.x.shape[1]
        place = min(max(place, 0.0), rungs - 1.0)
        k = min(int(place), rungs - 2)
        x, y = self.curve.off
        return (
            (k + 1 - place) * x[:, k] + (place - k) * x[:, k + 1],
            (k + 1 - place) * y[:, k] + (place - k) * y[:, k + 1],
        )


@dataclass(frozen=True)
class Ratio:
    """The log-ratio of a lane's figure and the baseline's; ``paired``: row b of both curves is the same block."""

    lane: Crossing
    baseline: Crossing
    paired: bool = True

    @property
    def n(self) -> int:
        """Blocks, or trials of the lane that has fewer."""
        return min(self.lane.curve.n, self.baseline.curve.n)

    @property
    def mean(self) -> float:
        """The log-ratio; a bound where a place lies beyond an end of the ladder."""
        return self.lane.value - self.baseline.value

    def interval(self, level: float) -> tuple[float, float]:
        """Ends of the interval with two-sided error rate ``level``, as log-ratios; infinite: not known on that side."""
        ours, theirs = self.lane.reach(level), self.baseline.reach(level)
        r = min(1.0, max(-1.0, float(ours.moves @ theirs.moves))) if self.paired else 0.0
        steps, other = self.lane.steps, self.baseline.steps
        down = max(_apart((ours.down, ours.up), (theirs.down, theirs.up), r), steps[0] + other[1], ROUNDING)
        up = max(_apart((ours.up, ours.down), (theirs.up, theirs.down), r), steps[1] + other[0], ROUNDING)
        return self.mean - down, self.mean + up

    def rejects(self, level: float) -> bool:
        """Whether the interval excludes no difference."""
        low, high = self.interval(level)
        return not low <= 0 <= high


def _apart(ours: tuple[float, float], theirs: tuple[float, float], r: float) -> float:
    """How far the difference may lie in the direction in which the lane moves by ours[0] and the other back by
    theirs[1]; the second and the first are their distances in the opposite directions."""
    own = ours[0] ** 2 + theirs[1] ** 2
    if own == INF:
        return INF
    if r < 0:
        return math.sqrt((1 + r) * own - r * (ours[0] + theirs[1]) ** 2)
    # what both share moves the difference by these where they move on, and where they move back
    moves = [a - b for a, b in zip(ours, theirs, strict=True) if INF not in (a, b)]
    if not moves:
        return math.sqrt(own)
    even = max(0.0, moves[0] - moves[-1]) / 2
    return math.sqrt((1 - r) * own + r * (sum(moves) / len(moves)) ** 2) + r * even


def _length(values: Floats) -> float:
    """0 where nothing varies but for rounding."""
    length = math.sqrt(float(values @ values))
    return length if length > ROUNDING else 0.0


def _unit(values: Floats) -> Floats:
    """``values`` divided by their length."""
    return values / (_length(values) or INF)
