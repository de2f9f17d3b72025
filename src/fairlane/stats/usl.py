"""The universal scalability law fitted to a ladder: it describes the measurement and is no forecast."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 6
"""Fewest levels, one of them 1, for a fit of three parameters."""


@dataclass(frozen=True)
class Usl:
    """X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)), N operations in flight (Gunther, *Guerrilla Capacity
    Planning*, 2007, eq. 4.31 and appendix)."""

    scale: float
    """lambda: throughput of one operation in flight, 1/s."""
    contention: float
    """sigma, 0 to 1: the share that waits in line."""
    coherency: float
    """kappa, >= 0: the cost of agreeing with every other; above 0 throughput falls beyond a peak."""
    error: float
    """Largest relative distance between fit and measurement."""

    def at(self, load: float) -> float:
        """Throughput at ``load``."""
        return float(_usl(np.asarray([load]), self.scale, self.contention, self.coherency)[0])


def fit(loads: Sequence[float], throughputs: Sequence[float]) -> Usl | None:
    """Bounded least squares on the log scale, so that all rungs have equal weight. None: fewer than 6 levels, none of
    them is 1, or no fit."""
    if len(set(loads)) < FEWEST or min(loads) != 1 or min(throughputs) <= 0:
        return None
    from scipy.optimize import curve_fit  # noqa: PLC0415 - half a second, for ladders alone

    n, x = np.asarray(loads, dtype=float), np.asarray(throughputs, dtype=float)

    def model(n: Floats, scale: float, sigma: float, kappa: float) -> Floats:
        return np.log(_usl(n, scale, sigma, kappa))

    first = float(x[n == 1].mean())
    try:
        (scale, sigma, kappa), _ = curve_fit(
            model,
            n,
            np.log(x),
            p0=(first, 0.1, 1e-4),
            bounds=((first / 10, 0, 0), (first * 10, 1, 1)),
            x_scale=(first, 0.1, 1e-3),
        )
    except RuntimeError:
        return None
    error = float(np.max(np.abs(_usl(n, scale, sigma, kappa) / x - 1)))
    return Usl(float(scale), float(sigma), float(kappa), error)


def _usl(n: Floats, scale: float, sigma: float, kappa: float) -> Floats:
    return np.asarray(scale * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)))
