"""The verdicts: words from intervals, for every lane against the baseline, per cell and metric. See docs/verdict.md.

At which look a cell is judged:

* A cell has *reached* look k if all blocks below the planned number of that look are there. The runner stops a cell
  only at a look: in a complete run a cell that went beyond look k-1 has reached look k, even if a block has no trace.
* Judged is the last look that a cell reached, from the blocks *below that look's number* only. What came after waits
  for the next look: whoever prints the verdicts of a running study between two looks sees the same each time.
* Failed trials take blocks away, not looks: the boundary of the look is solved for the blocks that count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Finding, Observation, Verdict, Word
from fairlane.stats import footnotes
from fairlane.stats.effects import Effect, blocks_needed
from fairlane.stats.holm import benjamini_hochberg, holm
from fairlane.stats.looks import level
from fairlane.stats.pairs import Pair, Reading, pair, shelve, too_few_beyond, typical, upto

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_WIDEST = math.log(1e12)

DECIDED: frozenset[Word] = frozenset({"faster", "slower", "different-but-small", "tie"})


def judge(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Verdict, ...]:
    """All verdicts of a run: by cell and lane in the order of the study, the primary metric first.

    Pure. A critical finding takes the headline from the cells and lanes it names; naming none it means all.
    """
    trial = _Trial(evidence.study, evidence.observations, complete=evidence.complete)
    return tuple(_verdict(trial, contest, findings) for contest in trial.contests)


def open_cells(study: "Study", observations: Sequence[Observation], look: int) -> frozenset[str]:
    """Keys of the cells that go on after look number ``look`` (index into ``study.design.looks``).

    A cell goes on while the primary metric of any of its lanes is ``inconclusive``. Cells that stopped at an earlier
    look, and lanes in which more blocks cannot help (nothing but failed trials, no such metric), do not. Blocks beyond
    the look are ignored, so that a resumed run decides as an undisturbed one. Empty at the last look. IndexError: no
    such look.
    """
    plan = study.design.looks
    here = plan[look]
    if look + 1 == len(plan):
        return frozenset()
    trial = _Trial(study, [seen for seen in observations if seen.block < here], complete=True)
    return frozenset(
        contest.cell.key
        for contest in trial.contests
        if contest.primary and contest.reached == look + 1 and _verdict(trial, contest, ()).verdict == "inconclusive"
    )


def word(mean: float, outer: tuple[float, float], inner: tuple[float, float], margin: float, better: int) -> Word:
    """The verdict, from intervals of the log-ratio alone: ``outer`` is [L, U], ``inner`` the tie test's [l, u].

    ``margin`` is a relative difference (0.05), ``better`` +1 or -1. A tie is shown by two one-sided tests (Schuirmann,
    J. Pharmacokinet. Biopharm. 15, 1987): the inner interval lies within +- ln(1 + margin).
    """
    edge = math.log1p(margin)
    within = -edge < inner[0] and inner[1] < edge
    if outer[0] <= 0 <= outer[1]:
        return "tie" if within else "inconclusive"
    if within:
        return "different-but-small"
    return "faster" if mean * better > 0 else "slower"


@dataclass(frozen=True)
class Stage:
    """A pair as it stands at one look: what Holm and Benjamini-Hochberg ask. At least 2 blocks count."""

    effect: Effect
    plan: tuple[int, ...]
    usable: tuple[int, ...]
    """Blocks that count at each look so far, this one last."""

    def level(self, alpha: float) -> float:
        """Nominal level at this look for the overall error rate ``alpha``."""
        return level(self.plan, self.usable, alpha)

    def interval(self, alpha: float) -> tuple[float, float]:
        return self.effect.interval(self.level(alpha))

    def rejects(self, alpha: float) -> bool:
        return self.effect.rejects(self.level(alpha))


@dataclass(frozen=True)
class Contest:
    """A lane against the baseline, in one cell and metric, with everything that was seen of it."""

    cell: Cell
    lane: str
    baseline: str
    metric: str
    primary: bool
    plan: tuple[int, ...]
    reached: int
    """Number of looks reached."""
    pair: Pair
    """The blocks below the last look reached; if none is reached, all there are."""
    waiting: int
    """Blocks seen beyond it."""
    refusal: str = ""

    @cached_property
    def _usable(self) -> tuple[int, ...]:
        return tuple(sum(row.block < n for row in self.pair.rows) for n in self.plan[: self.reached])

    def stage(self, look: int) -> Stage | None:
        """At look number ``look`` or, if it stopped earlier, as it stopped; None: nothing that can be tested.

        A look at which failed trials left no new block is none.
        """
        looks = min(look + 1, self.reached)
        while looks > 1 and self._usable[looks - 1] == self._usable[looks - 2]:
            looks -= 1
        if self.refusal or not looks or self._usable[looks - 1] < 2:
            return None
        usable = self._usable[:looks]
        effect = self.pair.effect
        return Stage(Effect(effect.logs[: usable[-1]], effect.resolution), self.plan, usable)

    @property
    def final(self) -> Stage | None:
        return self.stage(len(self.plan) - 1)


class _Trial:
    """All contests of a study, and the error rate of each one's interval."""

    def __init__(self, study: "Study", observations: Sequence[Observation], *, complete: bool) -> None:
        self.study = study
        self.alpha: float = study.design.alpha
        self._plan: tuple[int, ...] = tuple(study.design.looks)
        self._complete = complete
        self._shelves = shelve(observations)
        self.contests = [
            contest
            for cell in study.cells()
            for lane in study.lanes
            if lane != study.baseline
            for contest in self._contests(cell, lane)
        ]
        primaries = [c for c in self.contests if c.primary]
        rates = holm([[c.stage(k) for c in primaries] for k in range(len(self._plan))], self.alpha)
        self.primaries = len(primaries)
        self._rates = {id(c): rate for c, rate in zip(primaries, rates, strict=True)}
        others = [stage for c in self.contests if not c.primary and (stage := c.final)]
        self._exploratory = benjamini_hochberg(others, self.alpha)

    def rate(self, contest: Contest) -> float:
        """Error rate over all looks of this contest's interval."""
        return self._rates.get(id(contest), self._exploratory)

    def shelf(self, contest: Contest) -> dict[str, dict[int, Reading]]:
        """What was seen of the contest's cell."""
        return self._shelves.get(contest.cell.key, {})

    def _contests(self, cell: Cell, lane: str) -> list[Contest]:
        baseline, primary = self.study.baseline, self.study.workloads[cell.workload].primary
        everything = self._shelves.get(cell.key, {})
        ours = {name: everything.get(name, {}) for name in (lane, baseline)}
        reached = _looks_reached(ours, self._plan, complete=self._complete)
        shelf = upto(ours, self._plan[reached - 1]) if reached else ours
        waiting = len({b for seen in ours.values() for b in seen}) - len({b for seen in shelf.values() for b in seen})
        contests = []
        for metric in sorted(METRICS, key=lambda name: name != primary):
            seen = pair(shelf, lane, baseline, metric)
            refusal = _refusal(shelf, seen, (lane, baseline), metric)
            if not refusal or metric == primary:
                contests.append(
                    Contest(
                        cell, lane, baseline, metric, metric == primary, self._plan, reached, seen, waiting, refusal
                    )
                )
        return contests


def _looks_reached(shelf: dict[str, dict[int, Reading]], plan: tuple[int, ...], *, complete: bool) -> int:
    """How many looks a lane and the baseline have behind them; the module's docstring has the rule."""
    attempted = 1 + max((b for seen in shelf.values() for b in seen), default=-1)
    if complete:
        return sum(before < attempted for before in (0, *plan[:-1]))
    both = set.intersection(*(set(seen) for seen in shelf.values()))
    return sum(both.issuperset(range(n)) for n in plan)


def _refusal(shelf: dict[str, dict[int, Reading]], seen: Pair, lanes: tuple[str, str], metric: str) -> str:
    title = METRICS[metric].title
    if not seen.rows and not seen.voided:
        return "no trial yet"
    good = {lane: sum(not r.failed for r in shelf[lane].values()) for lane in lanes}
    for lane in lanes:
        if not good[lane]:
            return f"every trial of {lane} failed"
        if not any(metric in r.figures for r in shelf[lane].values()):
            return f"no trial of {lane} has the metric {title}"
    if not seen.rows:
        return "in no block did both trials succeed"
    short = too_few_beyond(shelf, lanes, metric)
    return "" if short is None else f"fewer than 10 I/Os lie beyond {title} in block {short}"


def _verdict(trial: _Trial, contest: Contest, findings: Sequence[Finding]) -> Verdict:
    metric = METRICS[contest.metric]
    margin = trial.study.design.margins.get(metric.name, metric.margin)
    stage, rate = contest.final, trial.rate(contest)
    rows = [] if contest.refusal else contest.pair.rows[: stage.effect.n if stage else None]
    blocks = [row.block for row in rows]
    ratio = contest.pair.effect.mean if rows else None
    outer = inner = None
    answer: Word = "refused" if contest.refusal else "inconclusive"
    if stage:
        ratio = stage.effect.mean
        outer, inner = stage.interval(rate), stage.interval(2 * trial.alpha)
        answer = word(ratio, outer, inner, margin, metric.better)
    shelf = trial.shelf(contest)
    return Verdict(
        workload=contest.cell.workload,
        cell=contest.cell.name,
        key=contest.cell.key,
        lane=contest.lane,
        baseline=contest.baseline,
        metric=metric.name,
        primary=contest.primary,
        verdict=answer,
        ratio=None if ratio is None else _factor(ratio),
        low=_factor(outer[0]) if outer else None,
        high=_factor(outer[1]) if outer else None,
        tie_low=_factor(inner[0]) if inner else None,
        tie_high=_factor(inner[1]) if inner else None,
        margin=margin,
        level=stage.level(rate) if stage else rate,
        blocks=len(blocks),
        voided=contest.pair.voided,
        lane_value=typical(shelf, contest.lane, metric.name, blocks) if blocks else None,
        baseline_value=typical(shelf, contest.baseline, metric.name, blocks) if blocks else None,
        headline=contest.primary and answer in DECIDED and not any(_stains(f, contest) for f in findings),
        more_blocks=more_blocks(stage, rate, trial.alpha, margin) if stage and answer == "inconclusive" else None,
        notes=tuple(_notes(contest, stage, rate, trial.primaries)),
    )


def _factor(log_ratio: float) -> float:
    """As a factor. The first look of two or three blocks can have an interval beyond any float: it is cut at 10**12."""
    return math.exp(max(-_WIDEST, min(_WIDEST, log_ratio)))


def _stains(finding: Finding, contest: Contest) -> bool:
    return (
        finding.severity == "critical"
        and (not finding.cells or contest.cell.key in finding.cells)
        and (not finding.lanes or contest.lane in finding.lanes or contest.baseline in finding.lanes)
    )


def more_blocks(stage: Stage, rate: float, alpha: float, margin: float) -> int | None:
    """Further blocks after which the interval would be within +- ``margin`` of the ratio, at the spread seen.

    Where it is that narrow already (the ratio lies near the margin): blocks until the word would be decided if ratio
    and spread stayed the same. At the level of the last planned look. None: no number of blocks would do.
    """
    edge, mean = math.log1p(margin), abs(stage.effect.mean)
    last = level(stage.plan, stage.plan, rate)
    tie = level(stage.plan, stage.plan, 2 * alpha)
    needed = blocks_needed(stage.effect.sd, edge, last) if stage.effect.resolution < edge else None
    if needed is not None and needed <= stage.effect.n:
        ways = (blocks_needed(stage.effect.sd, mean, last), blocks_needed(stage.effect.sd, edge - mean, tie))
        needed = min((n for n in ways if n is not None), default=None)
    return None if needed is None else max(1, needed - stage.effect.n)


def _notes(contest: Contest, stage: Stage | None, rate: float, primaries: int) -> list[str]:
    if contest.refusal:
        return [contest.refusal]
    notes = []
    plan, reached = contest.plan, contest.reached
    if contest.waiting and reached < len(plan):
        notes.append(f"{contest.waiting} further blocks wait for the look at {plan[reached]}")
    elif contest.waiting:
        notes.append(f"{contest.waiting} blocks beyond the last planned look are left out")
    if not stage:
        first = f"the first look is at {plan[0]} blocks" if not reached else "fewer than 2 blocks count"
        return [*notes, f"{first}: no interval"]
    notes += footnotes.robustness(stage.effect, stage.level(rate))
    if contest.primary:  # the other metrics of a trial share its blocks, and would repeat this five times
        lane_first = contest.pair.lane_first[: stage.effect.n]
        notes += footnotes.dependence(stage.effect, contest.lane, contest.baseline, lane_first, primaries)
    return notes
