"""Notes on an interval that may depend on normality, on independence or on the lanes' order."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fairlane.records import Note
from fairlane.stats.effects import (
    Effect,
    Estimate,
    PositionEffect,
    position_effect,
)

if TYPE_CHECKING:
    from fairlane.stats.contests import Stage

CARRY_OVER_P = 0.05
"""Chance of reporting an order effect in a study without one; shared among its primaries (Bonferroni)."""
CARRY_OVER_SHIFT = 0.01
"""... and its least size (log scale): under the virtual clock far smaller ones are certain, and harmless."""


PULLED = 0.75
"""Standard errors between mean and Hodges-Lehmann estimate for a note. One stalled block moves the mean by nearly one,
however long it stalled; between normal blocks the distance has a standard deviation of 0.22 (efficiency 3/pi)."""


def robustness(effect: Estimate, level: float) -> Iterator[Note]:
    """Notes where methods that depend less on normality disagree with the t interval at the two-sided ``level``."""
    if effect.resolution >= effect.half_width(level) or not effect.sd:
        what = "between the blocks" if isinstance(effect, Effect) else "between the trials"
        spread = (
            ""
            if effect.sd
            else f"no spread {what}, so the result covers only the orders and addresses that were tried: "
        )
        yield Note(
            "resolution" if effect.sd else "no-spread",
            f"{spread}the interval is as wide as the figures' resolution (+-{math.expm1(effect.resolution):.2%})",
        )
        return
    test = None if isinstance(effect, Effect) and effect.factor > 1 else effect.permutation()  # it knows no widening
    if test is not None:
        threshold = max(level, test.least)  # neither test is judged at a level that the permutation cannot reach
        if (test.p <= threshold) != (effect.p <= threshold):
            yield Note(
                "permutation",
                f"the {test.name} disagrees at the {threshold:.2g} level: p = {test.p:.2g}, "
                f"against {effect.p:.2g} in the t-test",
            )
    if abs(effect.centre - effect.mean) > PULLED * effect.sd / math.sqrt(effect.n):
        yield Note(
            "pulled",
            f"a few {'blocks' if isinstance(effect, Effect) else 'trials'} pull the mean: the Hodges-Lehmann estimate "
            f"of the ratio is {math.exp(effect.centre):.4g}, not {math.exp(effect.mean):.4g}",
        )


def past(stage: "Stage") -> Iterator[Note]:
    """The notes on blocks that are left out, and on those that remember the ones before."""
    move, memory = stage.past.move, stage.past.memory
    if move.first:
        yield Note("left-out", f"the first {move.first} blocks are left out: a lane was still moving in them")
    if memory.rho:
        yield Note(
            "correlated",
            f"blocks resemble the ones before (lag-1 correlation {memory.rho:.2f} at least, p = {memory.chance:.2g} by "
            f"permutation, over all cells of the two lanes): the interval is widened by a factor of "
            f"{memory.widening(stage.effect.n):.1f}",
        )


def order(logs: Sequence[float], lane_first: Sequence[bool], names: tuple[str, str], among: int) -> Iterator[Note]:
    """The note on an effect of the order of lane and baseline, ``names``; ``logs``: log-ratios of blocks; ``among``:
    number of primaries."""
    lane, baseline = names
    carried = carried_over(logs, lane_first, among)
    if carried:
        yield Note(
            "carried-over",
            f"the order of the lanes matters: the ratio is {math.expm1(carried.shift):+.1%} different where "
            f"{lane} ran after {baseline} (p = {carried.p:.2g}); balanced orders cancel it in the mean",
        )


def carried_over(logs: Sequence[float], lane_first: Sequence[bool], among: int) -> PositionEffect | None:
    """The position effect in one of ``among`` primaries, if it is large and certain enough to report."""
    effect = position_effect(logs, lane_first)
    return effect if effect and effect.p <= CARRY_OVER_P / among and abs(effect.shift) >= CARRY_OVER_SHIFT else None
