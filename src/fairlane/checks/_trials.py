"""Base of checks that look at one trial at a time: read values from outside, report many trials in one sentence.
Not a check."""

import weakref
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

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
    value = at(tree, *path)
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _LARGEST else None


def text(tree: Any, *path: str) -> str:
    """The text at ``path``, at most 200 characters; empty if missing."""
    value = at(tree, *path)
    return value.strip()[:200] if isinstance(value, str) else ""


def mappings(tree: Any, *path: str) -> list[Mapping[str, Any]]:
    """The mappings in the list at ``path``; other items are left out."""
    value = at(tree, *path)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, Sequence) else []


@dataclass(frozen=True)
class Trial:
    """One trial that has figures, with its cell, lane and known parameters."""

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
        return sum(number(self.observation.steps, name) or 0.0 for name in metrics)

    def context(self, *path: str) -> float | None:
        return number(self.observation.context, *path)

    def parameter(self, name: str) -> float | None:
        """A numeric parameter; None if it is unknown or differs between trials."""
        return number(self.known, name)

    @property
    def directions(self) -> tuple[bool, bool] | None:
        """(reads, writes), from the pattern or else from the counts of I/Os; None: not known."""
        if (pattern := PATTERNS.get(text(self.known, "rw"))) is not None:
            return pattern
        counts = [self.context("load", "ios", way) for way in DIRECTIONS]
        return (bool(counts[0]), bool(counts[1])) if any(counts) else None

    @property
    def seconds(self) -> float | None:
        """Time measured, without the ramp: as the tool counted it, or else as requested."""
        if ran := self.context("load", "runtime_ms"):
            return ran / 1e3
        requested = self.parameter("runtime")
        return requested / 1e9 if requested else None

    @property
    def fleet(self) -> tuple[float, bool]:
        """(machines under load together, whether known): from the trial, else from the study; (1, False) if unknown."""
        if count := len(mappings(self.observation.context, "vms")):
            return float(count), True
        known = self.parameter("fleet")
        return (known, True) if known else (1.0, False)

    @property
    def in_flight(self) -> float | None:
        """Most I/Os in flight in all machines: iodepth x numjobs x fleet; None: the depth is not known."""
        depth = 1.0 if text(self.known, "engine") in _SYNCHRONOUS else self.parameter("iodepth")
        return depth * (self.parameter("numjobs") or 1.0) * self.fleet[0] if depth else None


_SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
"""fio's engines that wait for each I/O, at any iodepth (fio's manual, I/O engine)."""


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


_last: list[tuple["weakref.ref[Evidence]", tuple[Trial, ...]]] = []


def trials(evidence: Evidence) -> tuple[Trial, ...]:
    """The trials that have figures, in the order of the observations. Cached for the last evidence, while that lives:
    every check calls this."""
    if not _last or _last[0][0]() is not evidence:
        _last[:] = [(weakref.ref(evidence, lambda _: _last.clear()), tuple(_trials(evidence)))]
    return _last[0][1]


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

    quorum: ClassVar[float] = 0.0
    """Least share of a cell's trials that must be odd for a finding; 0: one trial is enough."""

    @abstractmethod
    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        """The oddities of the trial, at most one of a kind."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tried: Counter[tuple[str, str]] = Counter()
        by_kind: dict[tuple[str, str, Severity], dict[str, list[Oddity]]] = {}
        for trial in trials(evidence):
            lane, cell = trial.observation.lane, trial.cell.key
            tried[lane, cell] += 1
            for oddity in self.odd(trial, evidence):
                by_kind.setdefault((lane, oddity.kind, oddity.severity), {}).setdefault(cell, []).append(oddity)
        names = {cell.key: cell.name for cell in evidence.cells()}
        order = list(evidence.study.lanes)
        for (lane, kind, severity), cells in sorted(by_kind.items(), key=lambda item: order.index(item[0][0])):
            worst = {
                key: max(oddities, key=lambda o: o.size)
                for key in names
                if (oddities := cells.get(key)) and len(oddities) >= self.quorum * tried[lane, key]
            }
            if not worst:
                continue
            key = max(worst, key=lambda k: worst[k].size)
            count, total = len(cells[key]), tried[lane, key]
            some = f" in {count} of {total} trials" if count < total else ""
            yield self.finding(
                kind,
                severity,
                f"{worst[key].message} at {names[key]}{some}: {worst[key].why}",
                cells=list(worst),
                lanes=[lane],
                evidence={k: {**o.proof, "trials": len(cells[k]), "of": tried[lane, k]} for k, o in worst.items()},
            )
