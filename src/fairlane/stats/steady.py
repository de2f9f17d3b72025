"""Steady state as SNIA's Solid State Storage Performance Test Specification defines it: over five rounds the range is
at most 20 % of their mean, and the line fitted through them moves by at most 10 %."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

ROUNDS = 5
RANGE, SLOPE = 0.20, 0.10


@dataclass(frozen=True)
class Steadiness:
    """The last five rounds. ``range``: largest minus smallest, ``slope``: excursion of the least squares line over the
    window with its sign; both as shares of the mean."""

    range: float
    slope: float
    steady: bool


def steadiness(rates: Sequence[float]) -> Steadiness | None:
    """Steadiness of the last five of ``rates``; None: fewer than five, or a mean of 0."""
    last = rates[-ROUNDS:]
    mean = fmean(last) if len(last) == ROUNDS else 0.0
    if not mean:
        return None
    spread = (max(last) - min(last)) / mean
    # x = -2 .. 2, whose squares add up to 10; over the window the line moves by four steps
    slope = sum(x * r for x, r in zip(range(-2, 3), last, strict=True)) / 10 * 4 / mean
    return Steadiness(spread, slope, spread <= RANGE and abs(slope) <= SLOPE)
