"""Differences between sessions of a lane: a login decides queues, ports and cores until the next one."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, variance

from fairlane.checks._trials import at, number, trials
from fairlane.checks.base import Check
from fairlane.metrics import METRICS
from fairlane.records import Evidence, Finding

_LEAST = 4
"""Fewest sessions for a spread."""


class SessionSpread(Check):
    """Of studies whose initiators log in anew for every block: the standard deviation of IOPS over a lane's sessions
    beyond that of trials, which the tool's own samples within each trial give (their variance over their number: too
    little where samples hang together). A warning from the margin on: a single session is not representative."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if at(evidence.description, "platform", "sessions") is None:
            return
        rates: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for trial in trials(evidence):
            rate, noise = trial.metric("iops"), _noise(trial.observation.context)
            if rate:
                rates.setdefault((trial.observation.lane, trial.cell.key), []).append((rate, noise))
        for lane in evidence.study.lanes:
            spreads = {cell: _spread(values) for (name, cell), values in rates.items()
                       if name == lane and len(values) >= _LEAST}  # fmt: skip
            if not spreads:
                continue
            worst = max(spreads, key=lambda cell: spreads[cell])
            names = {cell.key: cell.name for cell in evidence.cells()}
            count = len(rates[lane, worst])
            large = spreads[worst] >= METRICS["iops"].margin
            yield self.finding(
                "sessions", "warning" if large else "info",
                f"sessions differ by {spreads[worst]:.1%} in IOPS (standard deviation over {count} logins at "
                f"{names[worst]})" + (": a single login would not be representative" if large else ""),
                cells=[cell for cell in spreads if spreads[cell] >= METRICS["iops"].margin] if large else [],
                lanes=[lane], evidence={cell: round(value, 5) for cell, value in spreads.items()},
            )  # fmt: skip


def _noise(context: object) -> float:
    """Relative variance of a trial's mean, from the tool's samples; 0: not known."""
    total = 0.0
    for way in ("read", "write"):
        count, mean = number(context, "load", "samples", way, "count"), number(context, "load", "samples", way, "mean")
        deviation = number(context, "load", "samples", way, "stddev")
        if count and mean and deviation:
            total += (deviation / mean) ** 2 / count
    return total


def _spread(values: Sequence[tuple[float, float]]) -> float:
    """Standard deviation of the logarithms of rates, without the trials' own noise."""
    between = variance([math.log(rate) for rate, _ in values])
    return math.sqrt(max(0.0, between - fmean(noise for _, noise in values)))


PLUGIN = SessionSpread()
