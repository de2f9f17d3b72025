"""Base of checks that look at one trial at a time: read values from outside, report many trials in one sentence.
Not a check."""

import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from fairlane import registry
from fairlane.checks.base import Check
from fairlane.guard.conditions import Known, conditions
from fairlane.records import Cell, Evidence, Finding, Observation, Severity
from fairlane.study.base import LaneSpec

DIRECTIONS = ("read", "write")
PATTERNS: Mapping[str, tuple[bool, bool]] = {
    "read": (True, False), "randread": (True, False), "write": (False, True), "randwrite": (False, True),
    "rw": (True, True), "readwrite": (True, True), "randrw": (True, True),
}  # fmt: skip
"""Access pattern -> whether it reads, whether it writes (fio's names)."""
_LARGEST = 2**63
"""Upper limit of every count, size and time; a larger value is not a figure."""


def at(tree: Any, *path: str) -> Any:
    """The value at ``path`` in nested mappings; None if missing."""
    for key in path:
        # nearly always a dict; isinstance(Mapping) takes five times as long, and a large run does it a million times
        tree = tree.get(key) if type(tree) is dict or isinstance(tree, Mapping) else None
        if tree is None:
            return None
    return tree


def number(tree: Any, *path: str) -> float | None:
    """The finite, non-negative number at ``path``; None if missing."""
    for key in path:  # as ``at`` does: a run of ten thousand trials asks for a million numbers
        tree = tree.get(key) if type(tree) is dict or isinstance(tree, Mapping) else None
        if tree is None:
            return None
    if type(tree) is float:
        return tree if 0 <= tree < _LARGEST else None
    return float(tree) if _numeric(tree) and 0 <= tree < _LARGEST else None


def _numeric(value: Any) -> bool:
    return type(value) is int or (isinstance(value, int | float) and not isinstance(value, bool))


def text(tree: Any, *path: str) -> str:
    """The text at ``path``, at most 200 characters; empty if missing."""
    value = at(tree, *path)
    return value.strip()[:200] if isinstance(value, str) else ""


def mappings(tree: Any, *path: str) -> list[Mapping[str, Any]]:
    """The mappings in the list at ``path``; other items are left out."""
    value = at(tree, *path)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, Sequence) else []


def indirect(known: Known) -> bool:
    """Whether I/O is known to go through the page cache."""
    return known.get("direct") in (False, 0, "no", "false")


@dataclass(frozen=True)
class Trial:
    """One trial that has figures, with its cell, lane and known parameters. What is worked out of these is kept: a
    dozen checks ask for it, of thousands of trials."""

    cell: Cell
    observation: Observation
    spec: LaneSpec
    """The lane in the study."""
    known: Known
    """Parameters (``guard.parameters``) of its cell and lane."""
    primary: str
    """The workload's primary metric."""

    def metric(self, name: str) -> float | None:
        return number(self.observation.metrics, name)

    def step(self, *metrics: str) -> float:
        """Relative rounding error of the metrics together, as the tool counts in steps."""
        steps = self.observation.steps
        return sum([number(steps, name) or 0.0 for name in metrics])

    def context(self, *path: str) -> float | None:
        return number(self.observation.context, *path)

    def all_jobs(self, count: str, way: str) -> float | None:
        """``ios`` or ``bytes`` of all jobs in a direction: of several, one alone may be judged."""
        every = self.context("load", "all", count, way)
        return self.context("load", count, way) if every is None else every

    def parameter(self, name: str) -> float | None:
        """A numeric parameter; None if it is unknown or differs between trials."""
        return number(self.known, name)

    @cached_property
    def directions(self) -> tuple[bool, bool] | None:
        """(reads, writes), from the pattern or else from the counts of I/Os; None: not known."""
        if (pattern := PATTERNS.get(text(self.known, "rw"))) is not None:
            return pattern
        counts = [self.context("load", "ios", way) for way in DIRECTIONS]
        return (bool(counts[0]), bool(counts[1])) if any(counts) else None

    @cached_property
    def seconds(self) -> float | None:
        """Time measured, without the ramp: as the tool counted it, or else as requested."""
        if ran := self.context("load", "runtime_ms"):
            return ran / 1e3
        requested = self.parameter("runtime")
        return requested / 1e9 if requested else None

    @cached_property
    def fleet(self) -> tuple[float, bool]:
        """(machines under load together, whether known): from the trial, else from the study; (1, False) if unknown."""
        if count := len(mappings(self.observation.context, "vms")):
            return float(count), True
        known = self.parameter("fleet")
        return (known, True) if known else (1.0, False)

    @property
    def several(self) -> bool:
        """Whether its figures are of several named jobs together, none of which is judged alone."""
        return len(self.cell.params.get("jobs") or ()) > 1 and not self.cell.params.get("judged")

    @cached_property
    def in_flight(self) -> float | None:
        """Most I/Os in flight in all machines: iodepth x numjobs x fleet; None: the depth is not known, or that of
        several jobs together."""
        if self.several:
            return None
        depth = 1.0 if text(self.known, "engine") in _SYNCHRONOUS else self.parameter("iodepth")
        return depth * (self.parameter("numjobs") or 1.0) * self.fleet[0] if depth else None


_SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
"""fio's engines that wait for each I/O, at any iodepth (fio's manual, I/O engine)."""


def programs(trial: Trial) -> Mapping[str, float] | None:
    """Program -> CPUs used; of several machines on the one on which it used most. None: not known."""
    tree = at(trial.observation.context, "programs")
    if not isinstance(tree, Mapping):
        return None
    most: dict[str, float] = {}
    for machine in (tree, *tree.values()):
        for name in machine if isinstance(machine, Mapping) else ():
            if (value := number(machine, name)) is not None:
                most[str(name)[:40]] = max(value, most.get(str(name)[:40], 0.0))
    return most


@dataclass(frozen=True)
class Oddity:
    """Something odd about one trial."""

    kind: str
    severity: Severity
    size: float
    """Rank among oddities of one kind: the message names the largest."""
    message: str
    """The observation, with figures; the cell's name is added."""
    why: str
    """The meaning of the observation, without figures."""
    proof: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """The oddities of one kind and severity in a lane and cell."""

    worst: Oddity
    """The largest; of equals the first."""
    count: int = 1


Groups = Mapping[tuple[str, str], Sequence[Trial]]
"""(lane, key of the cell) -> its trials."""
Odd = dict[tuple[str, str], dict[tuple[str, Severity], Tally]]
"""The same -> kind and severity -> the oddities of its trials."""


class _Run:
    """What the checks of trials share while they look at one run."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = weakref.ref(evidence, lambda _: _last.clear())
        self.trials = tuple(_trials(evidence))
        self.groups: dict[tuple[str, str], list[Trial]] = {}
        for trial in self.trials:
            self.groups.setdefault((trial.observation.lane, trial.cell.key), []).append(trial)
        self.odd: dict[TrialCheck, Odd] = {}


_last: list[_Run] = []


def trials(evidence: Evidence) -> tuple[Trial, ...]:
    """The trials that have figures, in the order of the observations. Cached for the last evidence, while that lives:
    every check calls this."""
    return _run(evidence).trials


def grouped(evidence: Evidence) -> Groups:
    """The same by lane and cell, in the order of their first trials."""
    return _run(evidence).groups


def _run(evidence: Evidence) -> _Run:
    if not _last or _last[0].evidence() is not evidence:
        _last[:] = [_Run(evidence)]
    return _last[0]


def _oddities(check: "TrialCheck", evidence: Evidence) -> Odd:
    """What ``check`` finds odd. The first that asks has all of them look, trial by trial: the figures of a large run
    do not fit into memory, and are read once. Each takes its own, so that they do not stay."""
    run = _run(evidence)
    if check not in run.odd:
        every = [plugin for _, plugin in registry.every("checks") if isinstance(plugin, TrialCheck)]
        run.odd |= _looked(every if check in every else [check], run.groups, evidence)
    return run.odd.pop(check)


def _looked(checks: Sequence["TrialCheck"], groups: Groups, evidence: Evidence) -> dict["TrialCheck", Odd]:
    odd: dict[TrialCheck, Odd] = {check: {} for check in checks}
    for place, group in groups.items():
        looking: list[tuple[TrialCheck, list[Oddity]]] = []
        for check in checks:
            if check.concerns(group[0], evidence):
                looking.append((check, []))
        for trial in group:
            context = trial.observation.context
            for check, found in looking:
                if not (check.needs and check.needs.isdisjoint(context)):
                    found.extend(check.odd(trial, evidence))
        for check, found in looking:
            odd[check][place] = _tallied(check.graded(found, len(group)))
    return odd


def _tallied(oddities: Iterable[Oddity]) -> dict[tuple[str, Severity], Tally]:
    """Only the worst and the number: a run of 100,000 trials has as many oddities, or more."""
    tallies: dict[tuple[str, Severity], Tally] = {}
    for oddity in oddities:
        tally = tallies.get((oddity.kind, oddity.severity))
        if tally is None:
            tallies[oddity.kind, oddity.severity] = Tally(oddity)
            continue
        tally.count += 1
        if oddity.size > tally.worst.size:
            tally.worst = oddity
    return tallies


def _trials(evidence: Evidence) -> Iterator[Trial]:
    study, known = evidence.study, conditions(evidence)
    cells = {cell.key: cell for cell in evidence.cells()}
    for observation in evidence.observations:
        cell, lane = cells.get(observation.cell), study.lanes.get(observation.lane)
        if cell and lane and not observation.failed:
            yield Trial(
                cell, observation, lane, known[observation.lane, cell.key], study.workloads[cell.workload].primary
            )


class TrialCheck(Check):
    """A check of single trials. One finding per lane, kind and severity: it names the cells and the oddest trial; the
    evidence has the oddest trial of each cell, and the number of trials with the same oddity."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """Keys of ``Observation.context`` of which a trial has one, or ``odd`` is not called; empty: whatever it has."""

    quorum: ClassVar[float] = 0.0
    """Least share of a cell's trials that must be odd for a finding; 0: one trial is enough."""

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:  # noqa: ARG002
        """Whether a trial of this lane and cell can be odd, by what all of them have in common (``spec``, ``cell``,
        ``known``, the study): asked once, with one of them. Default: it can."""
        return True

    @abstractmethod
    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        """The oddities of the trial, at most one of a kind."""

    def graded(self, oddities: Sequence[Oddity], tried: int) -> Iterable[Oddity]:  # noqa: ARG002
        """The oddities of a lane's ``tried`` trials of a cell, where how many there are decides what they mean."""
        return oddities

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tried = {place: len(group) for place, group in grouped(evidence).items()}
        by_kind: dict[tuple[str, str, Severity], dict[str, Tally]] = {}
        for (lane, cell), tallies in _oddities(self, evidence).items():
            for (kind, severity), tally in tallies.items():
                by_kind.setdefault((lane, kind, severity), {})[cell] = tally
        names = {cell.key: cell.name for cell in evidence.cells()}
        order = list(evidence.study.lanes)
        for (lane, kind, severity), cells in sorted(by_kind.items(), key=lambda item: order.index(item[0][0])):
            worst = {
                key: cells[key].worst
                for key in names
                if key in cells and cells[key].count >= self.quorum * tried[lane, key]
            }
            if not worst:
                continue
            key = max(worst, key=lambda k: worst[k].size)
            count, total = cells[key].count, tried[lane, key]
            some = f" in {count} of {total} trials" if count < total else ""
            yield self.finding(
                kind,
                severity,
                f"{worst[key].message} at {names[key]}{some}: {worst[key].why}",
                cells=list(worst),
                lanes=[lane],
                evidence={k: {**o.proof, "trials": cells[k].count, "of": tried[lane, k]} for k, o in worst.items()},
            )
