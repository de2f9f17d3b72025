"""The state of a running study: a pure function of its plan, journal and observations.

Shown by the viewer's live page and ``fairlane watch``.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fairlane.metrics import METRICS
from fairlane.records import Block, Cell, Finding, Observation, Word
from fairlane.report.concerned import where
from fairlane.report.lanes import labels
from fairlane.report.phrases import count, interval, share
from fairlane.report.text import clean, scrub
from fairlane.runs.journal import Event
from fairlane.runs.plan import Plan
from fairlane.stats.anytime import FAR
from fairlane.stats.contests import concerns, stains
from fairlane.stats.live import Live, Standing
from fairlane.study.forecast import about
from fairlane.trial.progress import Estimate
from fairlane.verdicts.scorecard import SETTLED, Outcome, outcome_of

Phase = Literal["running", "interrupted", "complete"]
_SHOWN = 5
"""Failures listed; more are counted."""


@dataclass(frozen=True)
class Row:
    """A lane against the baseline in one cell, in the primary metric of its workload."""

    key: str
    """``Cell.key``."""
    cell: str
    """``Cell.name``."""
    low: float | None
    """Ends of the interval as ratios lane / baseline; None: no interval yet."""
    high: float | None
    blocks: int
    word: Word
    """The verdict so far, by the interval that holds at any moment; ``no-spread``: none yet."""
    ended: bool
    """Whether a look has ended the cell."""
    withheld: bool = False
    """Whether a critical finding concerns the cell."""

    @property
    def outcome(self) -> Outcome:
        """Outcome of ``word``, whether it is ``withheld`` or not."""
        return outcome_of(self.word)

    @property
    def decided(self) -> bool:
        return self.outcome in SETTLED

    @property
    def settled(self) -> bool:
        """Whether the cell needs no further block."""
        return self.ended or self.decided

    @property
    def middle(self) -> float | None:
        """Middle of the interval, as a ratio."""
        return None if self.low is None or self.high is None else math.sqrt(self.low * self.high)

    @property
    def interval(self) -> str:
        """``+11.2 % to +18.9 %``."""
        return interval(self.low, self.high)

    @property
    def text(self) -> str:
        """The state in words: ``decided: better``, ``open``; of an ended cell: ``better, ended``, ``ended``."""
        held = " (withheld)" if self.withheld and self.decided else ""
        if self.ended and self.word != "refused":
            return f"{self.outcome}, ended{held}" if self.decided else "ended"
        if self.word == "no-spread":
            return "too early to say"
        return f"decided: {self.outcome}{held}" if self.decided else self.outcome


@dataclass(frozen=True)
class Contest:
    """A lane against the baseline in one workload."""

    workload: str
    """Empty if the study has but one."""
    lane: str
    """Label of the lane."""
    baseline: str
    names: tuple[str, str]
    """Names of lane and baseline in the study."""
    metric: str
    """Title of the metric."""
    better: int
    margin: float
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """``IOPS: NVMe/TCP against iSCSI``."""
        where = f", workload {self.workload}" if self.workload else ""
        return f"{self.metric}: {self.lane} against {self.baseline}{where}"


@dataclass(frozen=True)
class NamedFinding:
    """A finding with lane and cell names for readers."""

    severity: str
    check: str
    kind: str
    message: str
    where: str


@dataclass(frozen=True)
class State:
    """The state of a run at one moment. Every string in it is clean."""

    phase: Phase
    study: str
    question: str
    done: int
    """Trials completed, out of ``due``: all up to the next look."""
    due: int
    failed: int
    look: str
    """``look 1 of 4``; ``block 12`` where every block is one; empty: there is but one look."""
    seconds: float
    """Expected seconds until that look, while running."""
    paired: bool
    """False: unpaired trials have no blocks, and so no interval before the end."""
    coverage: float
    """Chance that all intervals hold at every moment: 0.95."""
    contests: tuple[Contest, ...]
    """Empty when the run has ended: its verdicts answer then, by the planned looks."""
    failures: tuple[str, ...]
    """The last ones, newest first."""
    more_failures: int
    last: str
    """When the newest step was done: UTC, to the second."""
    findings: tuple[NamedFinding, ...] = ()
    checked: bool = False
    """Whether the checks have run; ``findings`` may be some trials old."""

    @property
    def cells(self) -> tuple[int, int]:
        """Cells with an interim result for all compared lanes, and all cells."""
        decided: dict[str, bool] = {}
        for row in (row for contest in self.contests for row in contest.rows if row.word != "refused"):
            decided[row.key] = decided.get(row.key, True) and row.decided
        return sum(decided.values()), len({row.key for contest in self.contests for row in contest.rows})

    @property
    def status(self) -> str:
        """``45 of 144 trials, about 1 min to look 1 of 4, 2 failed, interim results in 3 of 8 cells``."""
        parts = [f"{self.done:,} of {count(self.due, 'trial')}"]
        if self.phase == "running" and self.done < self.due:
            parts.append(f"about {about(self.seconds)}{' to ' * bool(self.look)}{self.look}")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        decided, cells = self.cells
        if decided and self.phase != "complete":  # the verdicts decide then
            parts.append(f"interim results in {decided} of {count(cells, 'cell')}")
        return ", ".join(parts)

    @property
    def rule(self) -> str:
        """How to read the intervals; empty when the run has ended."""
        if self.phase == "complete":
            return ""
        if not self.paired:
            return "The lanes of this study ran at different times: its intervals are computed once, after all trials."
        ended = any(row.ended for contest in self.contests for row in contest.rows)
        looks = " A cell that a planned look has ended keeps the verdict of that look." if ended else ""
        return (
            "You may read these intervals at any moment: the chance that any of them ever misses the true value is at "
            f"most {share(1 - self.coverage)}. The intervals of the verdicts, computed at the planned looks, are "
            f"narrower.{looks}"
        )


class Tracker:
    """Tracks a run's state from the events of its journal, in order."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._live = Live(plan.study)
        self._estimate = Estimate(plan.study)
        self._label = labels(plan.study)
        self._blocks = {(block.cell.key, block.index): block for block in plan.blocks}
        self._opened: list[frozenset[str]] = []
        self._due = self._trials()
        self._trials_in: dict[str, str] = {}
        """Trial id -> reason of its failure, or empty."""
        self._standings: dict[tuple[str, str], Standing | None] = {}
        self._stale: set[tuple[str, str]] = set()
        """Cell key and lane of the standings to work out when a state is asked for."""
        self._failures: deque[str] = deque(maxlen=_SHOWN)
        self._failed = 0
        self._workers = 1
        self._last = ""
        self.ended = False
        self._begin()

    @property
    def opened(self) -> tuple[frozenset[str], ...]:
        """For each look taken, the cells that continue."""
        return tuple(self._opened)

    def add(self, event: Event, trial: str = "", observation: Observation | None = None) -> None:
        """Process an event. ``trial``, ``observation``: of an event of a trial; None if its raw file is damaged."""
        self._last = str(event.get("at", ""))
        match event["type"]:
            case "trial":
                self._trial(event, trial, observation)
            case "start" | "resume" | "provision":
                self._workers = event["workers"] if isinstance(event.get("workers"), int) else 1
                self._begin()
            case "look":
                self._opened.append(frozenset(event["open"]))
                self._due = self._trials()
                self._begin()
            case "retry":
                self._retry(self._blocks[event["cell"], event["block"]], event["unjudged"])
            case "block-failed":
                self._fail(f"block {event.get('cell')}.b{event.get('block')} failed: {event.get('reason', '')}")
            case "end":
                self.ended = True

    @property
    def complete(self) -> bool:
        """Whether the end is journaled and every trial before it has been read."""
        return self.ended and self._due <= self._trials_in.keys()

    def state(self, phase: Phase) -> State:
        """The state now; ``phase``: from the run's lock."""
        study = self.plan.study
        failed = sum(bool(reason) for trial, reason in self._trials_in.items() if trial in self._due)
        state = State(
            phase="complete" if self.complete else phase,
            study=study.name,
            question=study.question,
            done=len(self._due & self._trials_in.keys()),
            due=len(self._due),
            failed=failed,
            look=self._look(),
            seconds=self._estimate.seconds,
            paired=study.design.paired,
            coverage=1 - study.design.alpha,
            contests=() if self.complete else tuple(self._contests()),
            failures=tuple(clean(text, 300) for text in reversed(self._failures)),
            more_failures=self._failed - len(self._failures),
            last=self._last[:19].replace("T", " "),
        )
        return scrub(state)

    def _trial(self, event: Event, trial: str, observation: Observation | None) -> None:
        if observation is None:
            self._trials_in.pop(trial, None)
            self._fail(f"{trial}: its raw file is damaged; the trial counts as not done")
            return
        seconds = event.get("seconds")
        self._estimate.trial(trial, float(seconds) if isinstance(seconds, int | float) else 0.0)
        self._trials_in[trial] = observation.failed
        if observation.failed:
            self._fail(f"{trial} failed: {observation.failed}")
        self._stale.update((observation.cell, lane) for lane in self._live.keep(observation))

    def _retry(self, block: Block, unjudged: Sequence[str]) -> None:
        for lane in unjudged:
            self._trials_in.pop(block.trial_id(lane), None)
        self._estimate.retry(block, unjudged)
        self._live.retry(block, unjudged)
        self._stale.update((block.cell.key, lane) for lane in self.plan.study.rivals)

    def _fail(self, text: str) -> None:
        self._failures.append(text)
        self._failed += 1

    def _trials(self) -> frozenset[str]:
        return frozenset(b.trial_id(lane) for b in self.plan.due(self._opened) for lane in b.order)

    def _begin(self) -> None:
        self._estimate.due(self.plan.due(self._opened), frozenset(self._trials_in), self._workers)

    def _look(self) -> str:
        looks, taken = self.plan.looks, len(self._opened)
        if self.plan.study.design.stop:
            return f"block {looks[min(taken, len(looks) - 1)]}"
        return f"look {min(taken + 1, len(looks))} of {len(looks)}" if len(looks) > 1 else ""

    def _contests(self) -> Iterable[Contest]:
        study = self.plan.study
        if not study.design.paired:
            return
        while self._stale:
            key, lane = self._stale.pop()
            self._standings[key, lane] = self._live.standing(key, lane)
        for name, workload in study.workloads.items():
            metric = METRICS[workload.primary]
            margin = study.design.margins.get(metric.name, metric.margin)
            for lane in study.rivals:
                rows = tuple(
                    _row(
                        cell,
                        self._standings.get((cell.key, lane)),
                        any(cell.key not in opened for opened in self._opened),
                    )
                    for cell in workload.cells(name)
                )
                yield Contest(
                    workload=name if len(study.workloads) > 1 else "",
                    lane=self._label[lane],
                    baseline=self._label[study.baseline],
                    names=(lane, study.baseline),
                    metric=metric.title,
                    better=metric.better,
                    margin=margin,
                    rows=rows,
                )


def _row(cell: Cell, standing: Standing | None, ended: bool) -> Row:
    if standing is None or max(abs(standing.low), abs(standing.high)) >= FAR:
        return Row(cell.key, cell.name, None, None, standing.blocks if standing else 0, "no-spread", ended)
    low, high = math.exp(standing.low), math.exp(standing.high)
    return Row(cell.key, cell.name, low, high, standing.blocks, standing.word, ended)


def with_findings(state: State, findings: Sequence[Finding], plan: Plan) -> State:
    """``state`` with the checks' findings, except that the run is unfinished (its phase shows that); intervals that a
    finding refuses are removed, as in verdicts."""
    label = labels(plan.study)
    names = {cell.key: cell.name for cell in plan.study.cells()}
    places_of: dict[tuple[str, str, str, str], list[str]] = {}
    for f in findings:
        if f.check != "unfinished_run":
            places_of.setdefault((f.severity, f.check, f.kind, f.message), []).append(where(f, names, label))
    named = tuple(
        NamedFinding(*key, "; ".join(dict.fromkeys(filter(None, places)))) for key, places in places_of.items()
    )
    cells = {cell.key: cell for cell in plan.study.cells()}
    contests = tuple(_checked(contest, cells, findings) for contest in state.contests)
    return replace(state, contests=contests, findings=scrub(named), checked=True)


def _checked(contest: Contest, cells: Mapping[str, Cell], findings: Sequence[Finding]) -> Contest:
    rows = []
    for row in contest.rows:
        cell = cells[row.key]
        if any(f.refuses and concerns(f, cell, *contest.names) for f in findings):
            rows.append(replace(row, low=None, high=None, word="refused"))
        else:
            rows.append(replace(row, withheld=any(stains(f, cell, *contest.names) for f in findings)))
    return replace(contest, rows=tuple(rows))
