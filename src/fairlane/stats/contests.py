"""Contests: a lane against another in one cell and metric, with the usable data and the error rate of the interval.

At which look a cell is judged:

* A cell has *reached* look k if all blocks below the planned number of that look are there. The runner stops a cell
  only at a look: in a complete run a cell that went beyond look k-1 has reached look k, even if a block has no trace.
* A cell is judged at the last look it reached, from the blocks *below that look's number* only. Later blocks wait for
  the next look: the verdicts of a running study do not change between two looks.
* Failed trials take blocks away, not looks: the boundary of the look is solved for the blocks that count.
* Where a study stops on width, every number of blocks from its least on is a look. None spends anything, but a cell
  tends to end when its spread happens to look small: its intervals are drawn at ``CALM`` times their error rate.
* Lanes that ran at different times have one look, when all their trials are there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fairlane.metrics import METRICS
from fairlane.records import Cell, Finding, Note, Observation
from fairlane.stats.effects import Estimate
from fairlane.stats.holm import benjamini_hochberg, holm
from fairlane.stats.looks import CALM, level
from fairlane.stats.pairs import LaneData, Pair, Reading, Shelf, apart, pair, shelve, too_few_beyond, upto

if TYPE_CHECKING:
    from fairlane.study.base import Design
    from fairlane.study.spec import Study


@dataclass(frozen=True)
class Stage:
    """A contest at one look, as Holm and Benjamini-Hochberg test it. At least 2 blocks count."""

    effect: Estimate
    plan: tuple[int, ...]
    usable: tuple[int, ...]
    """Blocks that count at each look so far, this one last."""
    share: float = 1.0
    """Share of the error rate that is spent."""

    def level(self, alpha: float) -> float:
        """Nominal level at this look for the overall error rate ``alpha``."""
        return level(self.plan, self.usable, self.share * alpha)

    def interval(self, alpha: float) -> tuple[float, float]:
        return self.effect.interval(self.level(alpha))

    def rejects(self, alpha: float) -> bool:
        return self.effect.rejects(self.level(alpha))


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
        rows = self.data.rows if isinstance(self.data, Pair) else ()
        return tuple(sum(row.block < n for row in rows) for n in self.plan[: self.reached])

    def stage(self, look: int) -> Stage | None:
        """The stage at look number ``look``, or at its last look if it stopped earlier; None: nothing to test.

        A look at which failed trials left no new block does not count.
        """
        looks = min(look + 1, self.reached)
        if self.refused or not looks:
            return None
        if not isinstance(self.data, Pair):
            return _once(self.data)
        if not self.spends:
            return _once(self.data.below(self.plan[looks - 1]), CALM)
        while looks > 1 and self._usable[looks - 1] == self._usable[looks - 2]:
            looks -= 1
        if self._usable[looks - 1] < 2:
            return None
        usable = self._usable[:looks]
        return Stage(self.data.below(self.plan[looks - 1]).effect, self.plan, usable)

    @cached_property
    def final(self) -> Stage | None:
        """The stage at the last look reached."""
        return self.stage(max(1, self.reached) - 1)


def _once(data: LaneData, share: float = 1.0) -> Stage | None:
    """The stage with a single look, after a fixed number of blocks."""
    return Stage(data.effect, (data.n,), (data.n,), share) if data.n >= 2 else None


def contest(
    design: "Design", cell: Cell, lanes: tuple[str, str], metric: str, shelf: Shelf, *, complete: bool
) -> Contest:
    """The first of ``lanes`` against the second; ``shelf``: readings of ``cell``; ``complete``: no more will come."""
    return _Meeting(design, cell, lanes, shelf, complete=complete).contest(metric)


class _Meeting:
    """Two lanes in one cell: the parts that all metrics share."""

    def __init__(self, design: "Design", cell: Cell, lanes: tuple[str, str], shelf: Shelf, *, complete: bool) -> None:
        self.cell, self.lanes, self.paired = cell, lanes, design.paired
        self.spends = design.stop is None
        ours = {name: shelf.get(name, {}) for name in lanes}
        self.plan = tuple(design.looks) if design.paired else ()
        self.reached = _looks_reached(ours, self.plan, complete=complete) if design.paired else int(complete)
        self.shelf = upto(ours, self.plan[self.reached - 1]) if self.plan and self.reached else ours
        self.waiting = len({b for s in ours.values() for b in s}) - len({b for s in self.shelf.values() for b in s})

    @property
    def metrics(self) -> Sequence[str]:
        """Metrics that a trial has a figure of, in the order of the registry."""
        known = {name for readings in self.shelf.values() for reading in readings.values() for name in reading.figures}
        return [name for name in METRICS if name in known]

    def contest(self, metric: str) -> Contest:
        data = (pair if self.paired else apart)(self.shelf, *self.lanes, metric)
        return Contest(
            self.cell,
            *self.lanes,
            metric,
            self.plan,
            self.reached,
            data,
            self.spends,
            self.waiting,
            refusal=_refusal(self.shelf, data, self.lanes, metric),
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
        return Note("no-block", "in no block did both trials succeed")
    short = too_few_beyond(shelf, lanes, metric)
    return "" if short is None else Note("too-few-beyond", f"fewer than 10 I/Os lie beyond {title} in block {short}")


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
    contests: list[Contest] = field(init=False)
    shelves: dict[str, dict[str, dict[int, Reading]]] = field(init=False)

    def __post_init__(self) -> None:
        lanes, workloads = self.study.lanes, self.study.workloads
        metrics = {w.primary for w in workloads.values()} if self.primary_only else tuple(METRICS)
        self.shelves = shelve(self.observations, metrics)
        left_out = {self.study.baseline, *(self.study.references if self.primary_only else ())}
        pairs = [(n, lanes[n].copy_of or self.study.baseline) for n in lanes if n not in left_out]
        self.contests = [c for cell in self.study.cells() for pair_ in pairs for c in self._contests(cell, pair_)]
        self.primaries = [c for c in self.contests if c.primary]
        alpha, looks = self.alpha, len(self.study.design.looks)
        # where looks cost nothing there is only the last: Holm at every one of them would spend alpha each time
        spends = all(c.spends for c in self.primaries)
        stages = [[c.stage(k) for c in self.primaries] for k in range(looks)] if spends else []
        rates = holm(stages or [[c.final for c in self.primaries]], alpha)
        controls = [c for c in self.contests if c.control]
        self._rates = {id(c): rate for c, rate in zip(self.primaries, rates, strict=True)}
        self._rates |= {id(c): alpha / len(controls) for c in controls}
        references = [c for c in self.contests if c.lane in self.study.references]
        shown = benjamini_hochberg([stage for c in references if (stage := c.final)], alpha)
        self._rates |= {id(c): shown for c in references}
        others = [stage for c in self.contests if id(c) not in self._rates and (stage := c.final)]
        self._exploratory = benjamini_hochberg(others, alpha)

    @property
    def alpha(self) -> float:
        rate: float = self.study.design.alpha
        return rate

    def rate(self, contest: Contest) -> float:
        """Error rate over all looks of this contest's interval."""
        return self._rates.get(id(contest), self._exploratory)

    def shelf(self, contest: Contest) -> Shelf:
        """The readings of the contest's cell."""
        return self.shelves.get(contest.cell.key, {})

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
