"""The point of diminishing returns: the load from which on a lane gains next to nothing from more of it.

For each step between neighbouring rungs, the gain per doubling of the load is the mean over blocks of

    (ln T_next - ln T) / log2(load_next / load)

with the t interval of the blocks. The point is *reached* at a rung where every further step is proven to gain less than
the margin of throughput: the whole interval lies below it. Steps are tested from the last one down, until one is not
proven: that order is fixed before the data, so that all claims together err as rarely as one. *Not reached*: the last
step is proven to gain more. *Not decided*: the interval of the last step contains the margin. A curve always bends
somewhere; a formula that looks for the bend finds one in any ladder, and in noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from fairlane.metrics import METRICS
from fairlane.records import Finding
from fairlane.stats.contests import stains
from fairlane.stats.effects import Effect, Estimate
from fairlane.stats.ladders import Ladder, Point
from fairlane.stats.looks import nominal
from fairlane.stats.samples import Samples

if TYPE_CHECKING:
    from fairlane.study.spec import Study

State = Literal["reached", "not-reached", "not-decided"]

_MOST = math.log(1e12)
"""Gains are cut here: two or three wild blocks can have an interval beyond any float."""


@dataclass(frozen=True)
class Step:
    """From one rung to the next: what the throughput gains per doubling of the load; 0.05 is 5 %."""

    load: float
    next_load: float
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class Knee:
    """The point of diminishing returns of one lane on one ladder."""

    state: State
    load: float | None
    """The lowest rung from which on every step is proven to gain less than ``margin``, where reached."""
    earliest: float | None
    """The lowest rung at which the point may be, where reached: each step from here to ``load`` is undecided."""
    margin: float
    level: float
    """Two-sided error rate of the intervals, over all looks."""
    blocks: int
    steps: tuple[Step, ...]
    """By rising load; empty with fewer than 2 blocks."""
    withheld: bool = False
    """Decided, but a critical finding stands against a rung: the state is ``not-decided``."""


def share(study: "Study", ladders: Sequence[Ladder]) -> float:
    """The error rate of one lane on one ladder: that of the study, divided among all in a closed loop (Bonferroni)."""
    return study.design.alpha / max(1, len(study.lanes) * sum(not ladder.open_loop for ladder in ladders))


def knee(study: "Study", ladder: Ladder, climbs: Sequence[Sequence[Point]], looks: int, rate: float) -> Knee:
    """The point of one lane. ``climbs``: its rungs in each block; ``looks``: as ``capacity.rounds`` counts them;
    ``rate``: error rate over all looks. The unit is the provisioning, where there are several."""
    margin = study.design.margins.get("iops", METRICS["iops"].margin)
    if len(climbs) < 2:
        return Knee("not-decided", None, None, margin, rate, len(climbs), ())
    each = study.design.blocks_per_unit
    level = nominal(study.design, tuple(n // each for n in study.design.looks[:looks]), rate)
    steps = tuple(
        _step(ladder.loads[i : i + 2], climbs, i, level, paired=study.design.paired)
        for i in range(len(ladder.loads) - 1)
    )
    below = [step.high < margin for step in steps]
    if not below[-1]:
        state: State = "not-reached" if steps[-1].low > margin else "not-decided"
        return Knee(state, None, None, margin, rate, len(climbs), steps)
    first = max((i + 1 for i, is_below in enumerate(below) if not is_below), default=0)
    earliest = max((i + 1 for i, step in enumerate(steps) if step.low > margin), default=0)
    return Knee("reached", steps[first].load, steps[earliest].load, margin, rate, len(climbs), steps)


def _step(loads: Sequence[float], climbs: Sequence[Sequence[Point]], rung: int, level: float, *, paired: bool) -> Step:
    """From ``rung`` to the next; in lanes that ran at different times the trials of two rungs are no pairs."""
    doublings = math.log2(loads[1] / loads[0])
    lower, upper = ([math.log(points[i].throughput) / doublings for points in climbs] for i in (rung, rung + 1))
    gain: Estimate = (
        Effect(tuple(b - a for a, b in zip(lower, upper, strict=True)))
        if paired
        else Samples(tuple(upper), tuple(lower))
    )
    low, high = gain.interval(level)
    return Step(loads[0], loads[1], math.expm1(gain.mean), math.expm1(low), math.expm1(min(high, _MOST)))


def guarded(knee: Knee, ladder: Ladder, lane: str, findings: Sequence[Finding]) -> Knee:
    """``knee``, withheld where a critical finding stands against a rung of the lane."""
    if knee.state == "not-decided" or not any(stains(f, cell, lane, lane) for f in findings for cell in ladder.cells):
        return knee
    return replace(knee, state="not-decided", load=None, earliest=None, withheld=True)
