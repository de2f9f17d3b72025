"""A lane's own figure with an interval over blocks, for rules with an absolute limit. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from fairlane.metrics import METRICS
from fairlane.records import Evidence
from fairlane.stats.effects import Effect
from fairlane.stats.looks import nominal
from fairlane.stats.missing import reach
from fairlane.stats.neighbours import alike
from fairlane.stats.pairs import Reading, Shelf, by_unit, too_few_beyond, upto


@dataclass(frozen=True)
class Level:
    """A lane's figure in one cell and metric, in the registry's unit."""

    mean: float
    """Geometric mean over blocks; of a percentile: of the blocks' percentiles."""
    low: float | None
    """Ends of the interval (Student's t on logarithms of blocks, or of provisionings where there are several; widened
    where neighbours are alike; whatever trials without a figure would have shown); None with fewer than 2 of them."""
    high: float | None
    blocks: Mapping[int, float]
    """Block -> its figure, without failed blocks."""
    failed: int
    """Blocks without a figure."""


def level_of(evidence: Evidence, shelf: Shelf, lane: str, metric: str) -> Level | str:
    """The figure of ``lane`` over the blocks up to the last look reached, or the reason why there is none.

    Either end of the interval has an error of the study's alpha over all looks, as a rule is one-sided; a run may have
    stopped at any look.
    """
    design, readings = evidence.study.design, shelf.get(lane, {})
    plan = design.looks if design.paired else (1 + max(readings, default=0),)  # unpaired trials have one look only
    reached = _reached(readings, plan, complete=evidence.complete)
    if not reached:
        return f"the first interim analysis is at {plan[0]} blocks" if readings else "no trial yet"
    counted = upto({lane: readings}, plan[reached - 1])
    blocks = {b: r.figures[metric] for b, r in sorted(counted[lane].items()) if metric in r.figures}
    if not blocks:
        return f"no trial of {lane} has the metric {METRICS[metric].title}"
    short = too_few_beyond(counted, [lane], metric)
    if short is not None:
        return f"fewer than 10 I/Os lie beyond {METRICS[metric].title} in block {short}"
    each = design.blocks_per_unit
    logs = tuple(by_unit({block: math.log(figure.value) for block, figure in blocks.items()}, each).values())
    factor = 1.0 if evidence.modelled else alike(logs).widening(len(logs))
    effect = Effect(logs, math.fsum(figure.step for figure in blocks.values()) / len(blocks), factor)
    failed = len(counted[lane]) - len(blocks)
    values = {b: figure.value for b, figure in blocks.items()}
    usable = [len({b // each for b in blocks if b < n}) for n in plan[:reached]]
    while len(usable) > 1 and usable[-1] == usable[-2]:  # a look without a new usable block does not count
        usable.pop()
    if usable[-1] < 2:
        return Level(math.exp(effect.mean), None, None, values, failed)
    rate = nominal(design, usable, 2 * design.alpha)
    lows, highs = zip(*(e.interval(rate) for e in (effect, *_filled(effect, counted[lane], metric, each))), strict=True)
    return Level(math.exp(effect.mean), math.exp(min(lows)), math.exp(max(highs)), values, failed)


def _filled(effect: Effect, readings: Mapping[int, Reading], metric: str, each: int) -> Sequence[Effect]:
    """The effect if the trials without a figure, or with that of a second try, had been as low or as high as they may
    have been."""
    known = {b: math.log(r.figures[metric].value) for b, r in readings.items() if metric in r.figures and not r.lost}
    if len(known) == len(readings) or not known:
        return ()
    middle, away = median(known.values()), reach([[*known.values()]], [1 - len(known) / len(readings)])
    filled = (dict.fromkeys(sorted(readings), middle + end) | known for end in away)
    return [replace(effect, logs=tuple(by_unit(logs, each).values())) for logs in filled]


def _reached(readings: Mapping[int, Reading], plan: tuple[int, ...], *, complete: bool) -> int:
    """Looks that the lane has completed, counted as in ``stats.judge``."""
    if complete:
        attempted = 1 + max(readings, default=-1)
        return sum(before < attempted for before in (0, *plan[:-1]))
    return sum(set(readings).issuperset(range(n)) for n in plan)
