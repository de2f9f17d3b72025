"""Contests: a lane against another in one cell and metric, with the usable data and the error rate of the interval.

At which look a cell is judged:

* A cell has *reached* look k if all blocks below the planned number of that look are there. The runner stops a cell
  only at a look: in a complete run a cell that went beyond look k-1 has reached look k, even if a block has no trace.
* A cell is judged at the last look it reached, from the blocks *below that look's number* only. Later blocks wait for
  the next look: the verdicts of a running study do not change between two looks.
* Failed trials take blocks away, not looks: the boundary of the look is solved for the blocks that count.
* Comparisons lend each other their spread (``moderated``): at each look from what was there at that look, so that later
  looks of other cells change nothing.
* Where a study stops on width, every number of blocks from its least on is a look. None spends anything, but a cell
  tends to end when its spread happens to look small: its intervals are drawn at ``CALM`` times their error rate.
* Lanes that ran at different times have one look, when all their trials are there.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fairlane.metrics import METRICS
from fairlane.records import Cell, Finding, Note, Observation
from fairlane.stats.effects import Effect, Estimate
from fairlane.stats.holm import benjamini_hochberg, holm
from fairlane.stats.looks import CALM, level
from fairlane.stats.lopsided import in_a_row, stalls
from fairlane.stats.moderated import Common, Moderated, common
from fairlane.stats.moving import PROVEN, Move, move, trend
from fairlane.stats.neighbours import Memory, Rows, memory
from fairlane.stats.pairs import LaneData, Pair, Reading, Shelf, apart, by_unit, pair, shelve, too_few_beyond, upto
from fairlane.study.base import FEW_BLOCKS, MANY_CELLS, OWN_BLOCKS

if TYPE_CHECKING:
    from fairlane.study.base import Design
    from fairlane.study.spec import Study


ALIKE = 0.05
"""Chance, of one pair of lanes, below which its blocks are not taken as independent."""
LENT, OWN = 0.4, 0.3
"""Nominal level of a printed interval as a share of alpha, after one of several looks: with a spread that other cells
lend, and with its own. Simulated: bench/calibration.py, rows of coverage."""


@dataclass(frozen=True)
class Past:
    """What all cells of two lanes show together in their blocks up to a look."""

    units: tuple[int, ...] = ()
    """Numbers of the units in which a cell has a figure."""
    first: int = 0
    """The first block that counts: in those before it a lane was still moving."""
    move: Move = field(default_factory=Move)
    mover: int = 0
    """Which lane moves more: 0, or 1 for the other; where it is certain that they do."""
    memory: Memory = field(default_factory=Memory)
    missing: tuple[float, float] = (0.0, 0.0)
    """Share of each lane's trials without a figure."""

    @property
    def unsettled(self) -> bool:
        """Whether a word would be too early: a lane still moves, or its blocks remember the ones before."""
        return self.move.unsettled or self.memory.chance <= ALIKE


NOTHING = Past()


@dataclass(frozen=True)
class Stage:
    """A contest at one look, as Holm and Benjamini-Hochberg test it. At least 2 blocks count."""

    effect: Estimate
    plan: tuple[int, ...]
    """Looks in units: blocks, or provisionings where there are several."""
    usable: tuple[int, ...]
    """Units that count at each look so far, this one last."""
    share: float = 1.0
    """Share of the error rate that is spent."""
    blocks: int = 0
    """Blocks that count; of lanes apart: trials."""
    past: Past = field(default_factory=Past)
    """What all cells of the two lanes showed together up to this look."""
    filled: tuple[Estimate, ...] = ()
    """The effect if the trials without a figure had been as bad or as good as they may have been."""

    def with_effects(self, change: Callable[[Estimate], Estimate]) -> "Stage":
        """The stage with other estimates."""
        return replace(self, effect=change(self.effect), filled=tuple(map(change, self.filled)))

    def level(self, alpha: float) -> float:
        """Nominal level at this look for the overall error rate ``alpha``."""
        return level(self.plan, self.usable, self.share * alpha)

    def ends(self, level: float) -> tuple[float, float]:
        """Ends of the interval at a nominal level, whatever the trials without a figure would have shown."""
        lows, highs = zip(*(effect.interval(level) for effect in (self.effect, *self.filled)), strict=True)
        return min(lows), max(highs)

    def interval(self, alpha: float) -> tuple[float, float]:
        return self.ends(self.level(alpha))

    def rejects(self, alpha: float) -> bool:
        low, high = self.interval(alpha)
        return not low <= 0 <= high

    def printed_level(self, alpha: float) -> float:
        """Nominal level of the interval that is printed: it covers with a chance of 1 - ``alpha`` at least over all
        studies, those that ended early included. With several looks a t interval at 1 - alpha would not: a cell tends
        to end when its effect happens to look large or its spread small."""
        if len(self.plan) == 1:
            return self.share * alpha
        return (LENT if lent(self) else OWN) * alpha

    def printed(self, alpha: float, rate: float) -> tuple[float, float]:
        """Ends of the printed interval, within the one at overall error rate ``rate`` that decides the word: the two
        never contradict each other."""
        (low, high), (least, most) = self.ends(self.printed_level(alpha)), self.interval(rate)
        return max(low, least), min(high, most)


def remembering(effect: Estimate, memory: Memory) -> Effect:
    """The effect of a pair with its spread and degrees of freedom corrected for blocks that remember the ones
    before."""
    assert isinstance(effect, Effect)  # noqa: S101 - of lanes apart, no block is known
    return replace(effect, factor=memory.widening(effect.n), share=memory.share)


def lent(stage: Stage) -> bool:
    """Whether other cells lend the stage their spread."""
    return isinstance(stage.effect, Moderated)


@dataclass(frozen=True)
class Contest:
    """A lane against another, in one cell and metric, with the data that count."""

    cell: Cell
    lane: str
    baseline: str
    metric: str
    plan: tuple[int, ...]
    """Looks; empty where the lanes ran at different times."""
    reached: int
    """Number of looks reached; of lanes that ran at different times: 1 when all trials are there."""
    data: LaneData
    """The blocks below the last look reached; if none is reached, all blocks."""
    spends: bool = True
    """Whether every look costs a part of the error rate."""
    waiting: int = 0
    """Blocks beyond the last look reached."""
    primary: bool = False
    control: bool = False
    """Whether the lane is a copy of the other."""
    refusal: str = ""
    """Reason why the figures allow no comparison."""
    barred: tuple[str, ...] = ()
    """Reasons why the guard allows none."""

    @property
    def refused(self) -> bool:
        return bool(self.refusal or self.barred)

    @cached_property
    def _usable(self) -> tuple[int, ...]:
        if not isinstance(self.data, Pair):
            return ()
        return tuple(self.data.units(n) for n in self.plan[: self.reached])

    def at(self, look: int) -> int:
        """The look at which it stands at look number ``look``: its last one if it stopped earlier. A look at which
        failed trials left no new block does not count."""
        here = min(look, max(self.reached, 1) - 1)
        if isinstance(self.data, Pair) and self.spends and self.reached:
            while here and self._usable[here] == self._usable[here - 1]:
                here -= 1
        return here

    def stage(self, look: int, past: Past = NOTHING) -> Stage | None:
        """The stage at look number ``look`` with its own spread; None: nothing to test."""
        if self.refused or not self.reached:
            return None
        if not isinstance(self.data, Pair):
            return _once(self.data)
        here = self.at(look)
        data = self.data.between(past.first, self.plan[here])
        if not self.spends:
            return _once(data, CALM, past)
        usable = tuple(data.units(n, past.first) for n in self.plan[: here + 1]) if past.first else self._usable
        if usable[here] < 2:
            return None
        plan = tuple(n // data.each for n in self.plan)
        return Stage(data.effect, plan, usable[: here + 1], blocks=data.n, past=past, filled=data.filled(past.missing))

    @property
    def last(self) -> int:
        """Number of the last look reached; 0 if none is."""
        return max(1, self.reached) - 1

    @cached_property
    def final(self) -> Stage | None:
        """The stage at the last look reached, with its own spread."""
        return self.stage(self.last)


def _once(data: LaneData, share: float = 1.0, past: Past = NOTHING) -> Stage | None:
    """The stage with a single look, after a fixed number of blocks."""
    if data.n < 2:
        return None
    return Stage(data.effect, (data.n,), (data.n,), share, data.n, past, data.filled(past.missing))


def past(pairs: Sequence[Pair], *, final: bool = True) -> Past:
    """What the cells of two lanes show together; ``pairs``: one per cell. ``final``: see ``shared_past``."""
    each = max((own.each for own in pairs), default=1)
    found = shared_past([{row.block: row.log_ratio for row in own.rows} for own in pairs], each, final=final)
    trials = max(1, sum(len(own.logs) for own in pairs))
    ours_gone, theirs_gone = (sum(own.missing[side] for own in pairs) / trials for side in (0, 1))
    found = replace(found, missing=(ours_gone, theirs_gone))
    if found.move.chance > PROVEN:
        return found
    sides = (
        [{row.block: math.log(getattr(row, side).value) for row in own.rows} for own in pairs]
        for side in ("lane", "baseline")
    )
    ours, theirs = (trend(np.array(_table(side, each, found.units)))[2] for side in sides)
    return replace(found, mover=int(theirs < ours))


def shared_past(cells: Sequence[Mapping[int, float]], each: int, *, final: bool = True) -> Past:
    """What cells show together: block -> logarithm, by cell; ``each``: blocks per provisioning. ``final``: no more
    blocks will come, so that blocks that were left out by mistake cannot be made up for.

    Provisionings are few for the same reason, and what is made anew remembers nothing.
    """
    units = tuple(sorted({block // each for logs in cells for block in logs}))
    rows = _table(cells, each, units)
    moved = move(rows, certain=final or each > 1)
    first = units[moved.first] * each if moved.first else 0
    remembered = Memory() if each > 1 else memory(tuple(row[moved.first :] for row in rows))
    return Past(units, first, moved, memory=remembered)


def _table(cells: Sequence[Mapping[int, float]], each: int, units: Sequence[int]) -> Rows:
    """Cells x ``units``: the mean of a unit's blocks that count; nan: it has none."""
    every = (by_unit(logs, each) for logs in cells)
    return tuple(tuple(means.get(unit, math.nan) for unit in units) for means in every)


class _Meeting:
    """Two lanes in one cell: the parts that all metrics share."""

    def __init__(self, design: "Design", cell: Cell, lanes: tuple[str, str], shelf: Shelf, *, complete: bool) -> None:
        self.cell, self.lanes, self.paired = cell, lanes, design.paired
        self.spends = design.stop is None
        self.each = design.blocks_per_unit
        ours = {name: shelf.get(name, {}) for name in lanes}
        self.plan = tuple(design.looks) if design.paired else ()
        self.reached = _looks_reached(ours, self.plan, complete=complete) if design.paired else int(complete)
        self.shelf = upto(ours, self.plan[self.reached - 1]) if self.plan and self.reached else ours
        self.waiting = len({b for s in ours.values() for b in s}) - len({b for s in self.shelf.values() for b in s})
        self.refuses = complete or all(ours.values())  # a lane without a trial may have one yet

    @property
    def metrics(self) -> Sequence[str]:
        """Metrics that a trial has a figure of, in the order of the registry."""
        known = {name for readings in self.shelf.values() for reading in readings.values() for name in reading.figures}
        return [name for name in METRICS if name in known]

    def contest(self, metric: str) -> Contest:
        data = (
            pair(self.shelf, *self.lanes, metric, self.each) if self.paired else apart(self.shelf, *self.lanes, metric)
        )
        return Contest(
            self.cell,
            *self.lanes,
            metric,
            self.plan,
            self.reached,
            data,
            self.spends,
            self.waiting,
            refusal=_refusal(self.shelf, data, self.lanes, metric) if self.refuses else "",
        )


def _looks_reached(shelf: Shelf, plan: tuple[int, ...], *, complete: bool) -> int:
    """Number of looks that the two lanes reached; the module's docstring has the rule."""
    attempted = 1 + max((b for readings in shelf.values() for b in readings), default=-1)
    if complete:
        return sum(before < attempted for before in (0, *plan[:-1]))
    both = set.intersection(*(set(readings) for readings in shelf.values()))
    there = next(n for n in range(len(both) + 1) if n not in both)
    return sum(n <= there for n in plan)


def _refusal(shelf: Shelf, data: LaneData, lanes: tuple[str, str], metric: str) -> str:
    title = METRICS[metric].title
    if not data.n and not data.voided:
        return Note("no-trial", "no trial yet")
    good = {lane: sum(not r.failed for r in shelf[lane].values()) for lane in lanes}
    for lane in lanes:
        if not good[lane]:
            if shelf[lane]:
                return Note("all-failed", f"every trial of {lane} failed")
            return Note("no-trial", f"there is no trial of {lane}")
        if not any(metric in r.figures for r in shelf[lane].values()):
            return Note("no-metric", f"no trial of {lane} has the metric {title}")
    if not data.n:
        return Note("no-block", "no block has successful trials of both lanes")
    short = too_few_beyond(shelf, lanes, metric)
    return "" if short is None else Note("too-few-beyond", f"fewer than 10 I/Os lie beyond {title} in block {short}")


_Family = tuple[str, str, str, bool]


@dataclass
class Claims:
    """All contests of a study, by cell and lane in its order, and the error rate of each one's interval.

    A copy of a lane is compared with that lane only, in the primary metric. It claims nothing, so it takes no part in
    the adjustments of the others; the copies share alpha among themselves (Bonferroni). All contests of a reference are
    exploratory, adjusted among themselves: differences that are known beforehand would loosen the others' adjustment.
    Refused contests count among the primaries: the study has them.
    """

    study: "Study"
    observations: Sequence[Observation]
    findings: Sequence[Finding] = ()
    complete: bool = True
    primary_only: bool = False
    """Leave the exploratory metrics out, for readers of primaries and controls."""
    modelled: bool = False
    """Whether the figures are the virtual clock's, whose few blocks have no states and no stalls."""
    ended: bool = False
    """Whether no more blocks will come, so that a contest stands at its last look, however few they are."""
    contests: list[Contest] = field(init=False)
    shelves: dict[str, dict[str, dict[int, Reading]]] = field(init=False)

    def __post_init__(self) -> None:
        lanes, workloads = self.study.lanes, self.study.workloads
        metrics = {w.primary for w in workloads.values()} if self.primary_only else tuple(METRICS)
        self.shelves = shelve(self.observations, metrics)
        left_out = {self.study.baseline, *(self.study.references if self.primary_only else ())}
        pairs = [(n, lanes[n].copy_of or self.study.baseline) for n in lanes if n not in left_out]
        self.contests = [
            contest
            for cell in self.study.judged
            for pair_ in pairs
            if pair_[0] in self.study.lanes_of(cell)
            for contest in self._contests(cell, pair_)
        ]
        self.primaries = [c for c in self.contests if c.primary]
        alpha, looks = self.alpha, range(len(self.study.design.looks))
        controls = [c for c in self.contests if c.control]
        self._common: dict[tuple[str, int], Common | None] = {}
        self._pasts: dict[tuple[_Family, int], Past] = {}
        self._together: dict[_Family, list[Contest]] = {}
        self._in_a_row: dict[float, float] = {}
        for c in self.contests:
            self._together.setdefault(self._family(c), []).append(c)
        # where looks cost nothing there is only the last: Holm at every one of them would spend alpha each time
        spends = all(c.spends for c in self.primaries)
        stages = [[self._stage(c, k) for c in self.primaries] for k in looks] if spends else []
        rates = holm(stages or [[self._stage(c, c.last) for c in self.primaries]], alpha)
        self._rates = {id(c): rate for c, rate in zip(self.primaries, rates, strict=True)}
        self._rates |= {id(c): alpha / len(controls) for c in controls}
        self._stages = {id(c): self._stage(c, c.last) for c in self.contests}
        references = [c for c in self.contests if c.lane in self.study.references]
        shown = benjamini_hochberg([stage for c in references if (stage := self.stage(c))], alpha)
        self._rates |= {id(c): shown for c in references}
        others = [stage for c in self.contests if id(c) not in self._rates and (stage := self.stage(c))]
        self._exploratory = benjamini_hochberg(others, alpha)

    @property
    def unit(self) -> str:
        """What a comparison counts: blocks, or provisionings where there are several."""
        return "block" if self.study.design.blocks_per_unit == 1 else "provisioning"

    @property
    def alpha(self) -> float:
        rate: float = self.study.design.alpha
        return rate

    def stage(self, contest: Contest) -> Stage | None:
        """The contest at the last look it reached, with the spread that the cells of the study lend each other."""
        return self._stages[id(contest)]

    def _stage(self, contest: Contest, look: int) -> Stage | None:
        past = self._past(contest, look)
        stage = contest.stage(look, past)
        if stage and self.modelled:  # the virtual clock has no failures by chance
            stage = replace(stage, filled=())
        if stage is None or not isinstance(stage.effect, Effect):
            return stage
        effect = stage.effect
        lent = self._lent(contest.metric, contest.at(look)) if contest.spends else None
        few = effect.n < FEW_BLOCKS <= stage.plan[-1] and not self.modelled
        settled = self.ended and contest.at(look) == contest.at(contest.last)
        if few and not settled and (not lent or lent.cells < MANY_CELLS):
            return None
        lowers = self.modelled or effect.n >= OWN_BLOCKS

        def corrected(own: Estimate) -> Estimate:
            widened = remembering(own, past.memory)
            return Moderated.of(widened, lent, lowers=lowers and own is effect) if lent else widened

        return stage.with_effects(corrected)

    def _lent(self, metric: str, look: int) -> Common | None:
        """What the spreads of this metric have in common at a look; cells that stopped earlier lend what they had."""
        key = metric, look
        if key not in self._common:
            others = (c for c in self.contests if c.metric == metric and not c.control)
            stages = [
                (c.cell.key, c.stage(look, self._past(c, look))) for c in others if c.lane not in self.study.references
            ]
            self._common[key] = common([(cell, s.effect.sd, s.effect.df) for cell, s in stages if s])
        return self._common[key]

    def _past(self, contest: Contest, look: int) -> Past:
        """What all cells of the two lanes show in this metric up to the look at which the contest stands: of those that
        reached it."""
        if self.modelled or not contest.plan or not contest.reached:
            return Past()
        family, here = self._family(contest), contest.at(look)
        if (key := (family, here)) not in self._pasts:
            some = [c for c in self._together[family] if c.reached and c.at(look) == here and not c.refused]
            pairs = [c.data.between(0, c.plan[here]) for c in some if isinstance(c.data, Pair)]
            self._pasts[key] = past(pairs, final=here + 1 == len(contest.plan))
        return self._pasts[key]

    def _family(self, contest: Contest) -> "_Family":
        """The two lanes and the metric whose cells are looked at together: primaries, or others."""
        primary = contest.metric == self.study.workloads[contest.cell.workload].primary
        return contest.lane, contest.baseline, contest.metric, primary

    def later(self, contest: Contest) -> tuple[Past, float]:
        """What the two lanes showed up to their last look, and by how much their log-ratio moved on from where it was
        while this cell was judged; 0 where that is not certain."""
        stage = self.stage(contest)
        reached = [c for c in self._together[self._family(contest)] if c.reached]
        last = max(reached, key=lambda c: c.at(c.last), default=contest)
        later = self._past(last, last.last)
        if not stage or not isinstance(contest.data, Pair) or later.move.chance > PROVEN:
            return later, 0.0
        each = contest.data.each
        first, end = (bisect_left(later.units, b // each) for b in (stage.past.first, contest.plan[contest.last]))
        return later, later.move.since(first, end) if end < len(later.units) else 0.0

    def counted(self, contest: Contest) -> LaneData:
        """The blocks that the verdict rests on, as far as any are judged."""
        stage = self.stage(contest)
        if stage is None or not isinstance(contest.data, Pair):
            return contest.data
        return contest.data.between(stage.past.first, contest.plan[contest.last])

    def rate(self, contest: Contest) -> float:
        """Error rate over all looks of this contest's interval."""
        return self._rates.get(id(contest), self._exploratory)

    def shelf(self, contest: Contest) -> Shelf:
        """The readings of the contest's cell."""
        return self.shelves.get(contest.cell.key, {})

    def judged(self, contest: Contest) -> Shelf:
        """The readings that the verdict rests on: those below the last look reached."""
        shelf = self.shelf(contest)
        return upto(shelf, contest.plan[contest.last]) if contest.plan else shelf

    def stalls_in_a_row(self, contest: Contest) -> float:
        """How many stalled trials of a lane follow each other: the mean of those that any lane had in any cell up to
        the look at which the contest stands; at least 1."""
        end = contest.plan[contest.last] if contest.plan else math.inf
        if end not in self._in_a_row:
            sides = [
                (sorted(side), stalls(side, self.study.workloads[cell.workload].primary))
                for cell in self.study.judged
                for side in upto(self.shelves.get(cell.key, {}), end).values()
            ]
            self._in_a_row[end] = in_a_row(sides)
        return self._in_a_row[end]

    def _contests(self, cell: Cell, lanes: tuple[str, str]) -> list[Contest]:
        primary = self.study.workloads[cell.workload].primary
        meeting = _Meeting(self.study.design, cell, lanes, self.shelves.get(cell.key, {}), complete=self.complete)
        barred = tuple(dict.fromkeys(f.message for f in self.findings if f.refuses and concerns(f, cell, *lanes)))
        first = meeting.contest(primary)
        if self.study.lanes[lanes[0]].copy_of:
            return [replace(first, control=True)]  # built alike: there is nothing to guard
        rest = () if self.primary_only else (metric for metric in meeting.metrics if metric != primary)
        leading, others = [replace(first, primary=True, barred=barred)], [meeting.contest(metric) for metric in rest]
        if lanes[0] in self.study.references:
            leading, others = [], [first, *others]
        return [*leading, *(replace(c, barred=barred) if barred else c for c in others if not c.refusal)]


def concerns(finding: Finding, cell: Cell, lane: str, baseline: str) -> bool:
    """Whether a refusing finding applies to this contest. One that names the baseline and others applies to
    the others."""
    named = [name for name in finding.lanes if name != baseline]
    return (not finding.cells or cell.key in finding.cells) and (not named or lane in named)


def stains(finding: Finding, cell: Cell, lane: str, baseline: str) -> bool:
    """Whether a finding is critical and applies to this contest, which then is no headline."""
    return (
        finding.severity == "critical"
        and (not finding.cells or cell.key in finding.cells)
        and (not finding.lanes or lane in finding.lanes or baseline in finding.lanes)
    )
