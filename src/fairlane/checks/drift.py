"""A lane that becomes faster or slower from block to block."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from fairlane.checks._trials import trials
from fairlane.checks.base import Check
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding, Severity

_LEVEL = 0.01
"""Two-sided error rate, shared among all lanes and cells (Bonferroni)."""
_FEWEST = 6
"""Fewest blocks, as for the permutation test."""
_UNSTEADY = 0.20
"""SNIA's range of a steady device."""


@dataclass(frozen=True)
class Trend:
    """A straight line through the logarithms of a lane's figures over the blocks."""

    change: float
    """Change from the first to the last block, as a share: -0.2 is 20 % less."""
    p: float


class Drift(Check):
    """The primary metric of each lane over the blocks: a significant slope above the margin over the run. Pairing
    cancels a common drift: for information, or a warning beyond SNIA's range of a steady device. Without pairing, lanes
    were measured in different states: critical."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        values: dict[tuple[str, str], dict[int, float]] = {}
        metrics: dict[str, str] = {}
        for trial in trials(evidence):
            value = trial.metric(trial.primary)
            metrics[trial.cell.key] = trial.primary
            if value:
                values.setdefault((trial.observation.lane, trial.cell.key), {})[trial.observation.block] = value
        tested = {place: fit for place, by_block in values.items() if (fit := trend(by_block))}
        design = evidence.study.design
        names = {cell.key: cell.name for cell in evidence.cells()}
        for lane in evidence.study.lanes:
            drifting = {
                cell: fit
                for (name, cell), fit in tested.items()
                if name == lane
                and fit.p * len(tested) < _LEVEL
                and abs(fit.change) > design.margins.get(metrics[cell], METRICS[metrics[cell]].margin)
            }
            if not drifting:
                continue
            worst = max(drifting, key=lambda cell: abs(math.log1p(drifting[cell].change)))
            change = drifting[worst].change
            severity: Severity = "info" if abs(change) <= _UNSTEADY else "warning"
            why = (
                "comparing within blocks cancels the drift that all lanes share. Look for what warms up, fills or wears"
            )
            if not design.paired:
                severity = "critical"
                why = "the lanes were not measured side by side, so the drift is part of their difference"
            yield self.finding(
                "moved",
                severity,
                f"{METRICS[metrics[worst]].title} drifted by {change:+.1%} from the first to the last block at "
                f"{names[worst]}: {why}",
                cells=list(drifting),
                lanes=[lane],
                evidence={cell: {"change": t.change, "p": t.p} for cell, t in drifting.items()},
            )


def trend(by_block: dict[int, float]) -> Trend | None:
    """Least squares of ln(figure) over the block's index; ``by_block``: block -> figure > 0. None below 6 blocks.

    p is that of the t test of the slope, n - 2 degrees of freedom.
    """
    n = len(by_block)
    if n < _FEWEST:
        return None
    x = np.asarray(sorted(by_block), dtype=float)
    y = np.log([by_block[int(block)] for block in x])
    x = x - x.mean()
    sxx = float(x @ x)
    slope = float(x @ y) / sxx
    rest = y - y.mean() - slope * x
    error = math.sqrt(max(0.0, float(rest @ rest)) / (n - 2) / sxx)
    change = math.expm1(slope * float(x[-1] - x[0]))
    if abs(slope) < 1e-12:
        return Trend(0.0, 1.0)
    return Trend(change, 2 * float(stdtr(n - 2, -abs(slope) / error)) if error > 1e-15 else 0.0)


PLUGIN = Drift()
