"""A lane's own figure with an interval over blocks, for rules with an absolute limit. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence
from fairlane.stats.answers import Ends, moved
from fairlane.stats.contests import ALIKE, Past, remembering, shared_past
from fairlane.stats.effects import Effect
from fairlane.stats.looks import nominal
from fairlane.stats.missing import reach
from fairlane.stats.moving import PROVEN
from fairlane.stats.neighbours import Memory
from fairlane.stats.pairs import Reading, Shelf, by_unit, too_few_beyond, upto
from fairlane.study.base import FEW_BLOCKS


@dataclass(frozen=True)
class Level:
    """A lane's figure in one cell and metric, in the registry's unit."""

    mean: float
    """Geometric mean over blocks; of a percentile: of the blocks' percentiles."""
    ends: Ends | None
    """The interval: Student's t on logarithms of blocks, or of provisionings where there are several, without first
    blocks in which the lane was moving; widened where neighbours are alike, and by what trials without a figure may
    have shown. None with fewer than 2 of them."""
    blocks: Mapping[int, float]
    """Block -> its figure, without failed blocks."""
    failed: int
    """Blocks without a figure."""
    doubts: tuple[tuple[str, Ends], ...] = ()
    """Why the interval may be wrong, and what it would be."""


def level_of(evidence: Evidence, shelves: Mapping[str, Shelf], cell: Cell, lane: str, metric: str) -> Level | str:
    """The figure of ``lane`` over the blocks up to the last look reached, or the reason why there is none. What makes
    its blocks alike is looked for in all cells. ``shelves``: of the cells, by key.

    Either end of the interval has an error of the study's alpha over all looks, as a rule is one-sided; a run may have
    stopped at any look.
    """
    design, readings = evidence.study.design, shelves.get(cell.key, {}).get(lane, {})
    plan = _plan(evidence, readings)
    reached = _reached(readings, plan, complete=evidence.complete)
    if not reached:
        return f"the first interim analysis is at {plan[0]} blocks" if readings else "no trial yet"
    counted = upto({lane: readings}, plan[reached - 1])
    blocks = _logs(counted[lane], metric)
    if not blocks:
        return f"no trial of {lane} has the metric {METRICS[metric].title}"
    short = too_few_beyond(counted, [lane], metric)
    if short is not None:
        return f"fewer than 10 I/Os lie beyond {METRICS[metric].title} in block {short}"
    each, before = design.blocks_per_unit, _past(evidence, shelves, lane, metric, plan[:reached])
    judged = {b: r for b, r in counted[lane].items() if b >= before.first}
    known = {b: log for b, log in blocks.items() if b >= before.first}
    step = math.fsum(judged[b].figures[metric].step for b in known) / max(1, len(known))
    effect = Effect(tuple(by_unit(known or blocks, each).values()), step)
    values, failed = {b: math.exp(log) for b, log in blocks.items()}, len(counted[lane]) - len(blocks)
    usable = [len({b // each for b in known if b < n}) for n in plan[:reached]]
    while len(usable) > 1 and usable[-1] == usable[-2]:  # a look without a new usable block does not count
        usable.pop()
    if usable[-1] < 2:
        return Level(math.exp(effect.mean), None, values, failed)
    rate, filled = nominal(design, usable, 2 * design.alpha), _filled(effect, judged, metric, each)

    def ends(memory: Memory) -> Ends:
        lows, highs = zip(*(remembering(e, memory).interval(rate) for e in (effect, *filled)), strict=True)
        return min(lows), max(highs)

    def shown(logs: Ends) -> Ends:
        return math.exp(logs[0]), math.exp(logs[1])

    def doubts() -> Iterator[tuple[str, Ends]]:
        unit = "block" if each == 1 else "provisioning"
        if effect.n < FEW_BLOCKS:
            yield f"{effect.n} {unit}s, {FEW_BLOCKS} are needed", (0.0, math.inf)
        if before.move.chance <= PROVEN:
            because = f"{lane} is still moving, {before.move.slope:+.2%} a {unit}"
            yield because, shown(moved(ends(before.memory), before.move.ahead))
        if before.memory.chance <= ALIKE:
            whole = before.memory.whole
            yield f"{unit}s remember: {effect.n} {unit}s are worth {whole.worth(effect.n):.0f}", shown(ends(whole))

    return Level(math.exp(effect.mean), shown(ends(before.memory)), values, failed, tuple(doubts()))


def _plan(evidence: Evidence, readings: Mapping[int, Reading]) -> tuple[int, ...]:
    """The looks; lanes that are not interleaved have one."""
    design = evidence.study.design
    return tuple(design.looks) if design.paired else (1 + max(readings, default=0),)


def _logs(readings: Mapping[int, Reading], metric: str) -> dict[int, float]:
    """Block -> logarithm of the figure, in order."""
    return {b: math.log(r.figures[metric].value) for b, r in sorted(readings.items()) if metric in r.figures}


def _past(evidence: Evidence, shelves: Mapping[str, Shelf], lane: str, metric: str, looks: tuple[int, ...]) -> Past:
    """What the lane shows in all cells that stand at the last of ``looks``."""
    together = []
    for cell in evidence.study.judged:
        readings = shelves.get(cell.key, {}).get(lane, {})
        plan = _plan(evidence, readings)
        reached = _reached(readings, plan, complete=evidence.complete)
        if reached and plan[reached - 1] == looks[-1]:
            together.append(_logs(upto({lane: readings}, looks[-1])[lane], metric))
    return shared_past([logs for logs in together if logs], evidence.study.design.blocks_per_unit)


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
