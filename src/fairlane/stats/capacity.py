"""Throughput of a lane at a given latency, latency at a given throughput, and comparisons of lanes there.

Each lane has one curve on a ladder: the means of ln throughput and ln latency over the blocks. How it is read off, and
how sure that is, stands in ``crossing``. Nothing is extrapolated: a capacity beyond the top rung is "at least that of
the top rung", one below the bottom rung "less than that". Where the blocks do not exclude that the capacity lies beyond
an end, the interval is open on that side, and a claim must hold for every value within.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import TYPE_CHECKING, Literal

import numpy as np

from fairlane.metrics import METRICS
from fairlane.records import Finding, Note, Observation, Word
from fairlane.stats.answers import DECIDED, word
from fairlane.stats.contests import concerns, stains
from fairlane.stats.crossing import INF, Crossing, Curve, Ratio
from fairlane.stats.histogram import BIN_ERROR
from fairlane.stats.ladders import Ladder, Point, climb, ladders
from fairlane.stats.looks import nominal
from fairlane.stats.pairs import Shelf, shelve

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_WIDEST = math.log(1e12)
"""An end of the interval beyond it, from two or three wild blocks, says nothing."""

Shelves = Mapping[str, Shelf]
"""Cell key -> lane -> block -> reading, from ``pairs.shelve``."""
Kind = Literal["throughput", "latency"]


@dataclass(frozen=True)
class Bounds:
    """A figure that lies within [low, high]; one number where they are equal. 0 or infinite ends: not known."""

    low: float
    high: float

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True)
class Objective:
    """A latency limit: a metric of the registry and its limit in ns."""

    metric: str
    limit: float


@dataclass(frozen=True)
class Question:
    """A figure of a ladder: throughput at the latency ``at`` (ns), or latency at the throughput ``at`` (1/s)."""

    ladder: Ladder
    kind: Kind
    metric: str
    """The latency's name in the registry."""
    at: float


@dataclass(frozen=True)
class Capacity:
    """A lane against the baseline on one ladder: throughput at equal latency, or latency at equal throughput."""

    question: Question
    lane: str
    baseline: str
    lane_value: Bounds
    """Read off the mean curve; bounds where it lies beyond an end of the ladder."""
    baseline_value: Bounds
    verdict: Word
    ratio: float | None
    """Lane / baseline, where neither lies beyond an end of its ladder."""
    low: float | None
    """Ends of the interval of the ratio at ``level``; None: not known on that side."""
    high: float | None
    margin: float
    level: float
    blocks: int
    notes: tuple[str, ...] = ()
    withheld: bool = False
    """Decided, but a critical finding stands against a rung."""


def objectives(study: "Study", workload: str) -> tuple[Objective, ...]:
    """The objectives of the workload, from its ``slo`` in the study."""
    return tuple(Objective(metric, float(limit)) for metric, limit in study.workloads[workload].slo.items())


def capacities(
    study: "Study", observations: Sequence[Observation], goals: Sequence[Objective] | None = None
) -> tuple[Capacity, ...]:
    """Throughput at every objective (``goals``; default: the study's), on every ladder and lane.

    The error rate is shared among all of them (Bonferroni), at the last look that every rung of a ladder reached.
    """
    climbed = _Climbs(study, shelve(observations))
    jobs = [
        (Question(ladder, "throughput", goal.metric, goal.limit), lane)
        for ladder in ladders(study)
        for goal in (objectives(study, ladder.workload) if goals is None else goals)
        for lane in study.rivals
    ]
    return tuple(_compare(climbed, question, lane, study.design.alpha / len(jobs)) for question, lane in jobs)


def guarded(results: Iterable[Capacity], findings: Sequence[Finding]) -> tuple[Capacity, ...]:
    """``results``, limited by ``findings``: a figure read off a curve is no better than its worst rung.

    One that refuses any rung refuses the comparison, with its message as the reason; a critical one withholds it.
    """
    return tuple(_guarded(capacity, findings) for capacity in results)


def _guarded(c: Capacity, findings: Sequence[Finding]) -> Capacity:
    cells = c.question.ladder.cells
    refusing = [f for f in findings if f.refuses and any(concerns(f, cell, c.lane, c.baseline) for cell in cells)]
    if refusing:
        notes = tuple(dict.fromkeys(f.message for f in refusing))
        return replace(c, verdict="refused", ratio=None, low=None, high=None, notes=notes)
    stained = any(stains(f, cell, c.lane, c.baseline) for f in findings for cell in cells)
    return replace(c, withheld=stained and c.verdict in DECIDED)


def at_equal_terms(
    study: "Study", observations: Sequence[Observation], latency: str = "lat_p99"
) -> tuple[Capacity, ...]:
    """Every lane at the baseline's own rungs: its throughput at that latency, its latency at that throughput.

    Exploratory: intervals at the study's error rate, each by itself. Compare these, not the lanes' peaks, where one
    lane may have twice the latency of the other.
    """
    climbed = _Climbs(study, shelve(observations))
    kinds: tuple[Kind, ...] = ("throughput", "latency")
    results = []
    for ladder in ladders(study):
        base = list(climbed(ladder, study.baseline, latency).values())
        for i in range(len(ladder.cells) if base else 0):
            for kind in kinds:
                here = [p[i].latency if kind == "throughput" else p[i].throughput for p in base]
                question = Question(ladder, kind, latency, geometric_mean(here))
                results += [_compare(climbed, question, lane, study.design.alpha) for lane in study.rivals]
    return tuple(results)


def rounds(study: "Study", shelves: Shelves, ladder: Ladder) -> tuple[range, int]:
    """The rounds that count, up to the last look that all rungs of all lanes reached, and the number of looks.

    Lanes that ran at different times have no rounds in common: all trials count, once.
    """
    ends = [
        1 + max(shelves.get(cell.key, {}).get(lane, {}), default=-1) for cell in ladder.cells for lane in study.lanes
    ]
    if not study.design.paired:
        return range(max(ends)), 1
    looks = sum(n <= min(ends) for n in study.design.looks)
    return range(study.design.looks[looks - 1] if looks else 0), looks


def climbs(study: "Study", shelves: Shelves, ladder: Ladder, lane: str, latency: str) -> dict[int, tuple[Point, ...]]:
    """Round -> points of ``lane``, for each round that counts and in which the lane has every rung."""
    by_round = {b: climb(ladder, shelves, lane, b, latency) for b in rounds(study, shelves, ladder)[0]}
    return {b: points for b, points in by_round.items() if points}


def by_provisioning(climbs: Mapping[int, Sequence[Point]], each: int) -> tuple[tuple[Point, ...], ...]:
    """``climbs`` of one lane, or where there are several provisionings (``each``: blocks of one) their geometric means
    in each: volumes made once are no new evidence in every block."""
    if each == 1:
        return tuple(tuple(points) for _, points in sorted(climbs.items()))
    units: dict[int, list[Sequence[Point]]] = {}
    for b, points in sorted(climbs.items()):
        units.setdefault(b // each, []).append(points)
    return tuple(
        tuple(
            replace(
                rung[0],
                throughput=geometric_mean(p.throughput for p in rung),
                latency=geometric_mean(p.latency for p in rung),
            )
            for rung in zip(*unit, strict=True)
        )
        for unit in units.values()
    )


class _Climbs:
    """``climbs`` of a run, cached: every question to a ladder uses the same rounds."""

    def __init__(self, study: "Study", shelves: Shelves) -> None:
        self.study, self.shelves = study, shelves
        self._made: dict[tuple[str, str, str, str], dict[int, tuple[Point, ...]]] = {}
        self._curves: dict[tuple[str, str, str, str, Kind, tuple[int, ...]], tuple[Curve, dict[float, Crossing]]] = {}

    def __call__(self, ladder: Ladder, lane: str, latency: str) -> dict[int, tuple[Point, ...]]:
        key = ladder.workload, ladder.name, lane, latency
        if key not in self._made:
            self._made[key] = climbs(self.study, self.shelves, ladder, lane, latency)
        return self._made[key]

    def crossing(self, question: Question, lane: str, blocks: tuple[int, ...]) -> Crossing:
        """Where the lane, in ``blocks``, reaches what the question gives."""
        ladder = question.ladder
        key = ladder.workload, ladder.name, lane, question.metric, question.kind, blocks
        if key not in self._curves:
            points = self(ladder, lane, question.metric)
            counted = by_provisioning({b: points[b] for b in blocks}, self.study.design.blocks_per_unit)
            self._curves[key] = _curve(counted, question), {}
        curve, crossings = self._curves[key]
        if question.at not in crossings:
            crossings[question.at] = Crossing(curve, math.log(question.at), last=question.kind == "throughput")
        return crossings[question.at]


def _compare(climbed: _Climbs, question: Question, lane: str, rate: float) -> Capacity:
    """One lane against the baseline; ``rate``: error rate of the interval over all looks."""
    study, design, kind = climbed.study, climbed.study.design, question.kind
    names = lane, study.baseline
    counted = [tuple(climbed(question.ladder, name, question.metric)) for name in names]
    if design.paired:
        counted = [tuple(b for b in counted[0] if b in counted[1])] * 2
    blocks, unit = min(map(len, counted)), "provisioning" if design.blocks_per_unit > 1 else "round"
    measured = METRICS["iops" if kind == "throughput" else question.metric]
    margin = design.margins.get(measured.name, measured.margin)
    ours, theirs = (climbed.crossing(question, name, b) if b else None for name, b in zip(names, counted, strict=True))
    outcome = _Outcome("no-spread" if blocks else "inconclusive")
    notes: list[Note] = []
    levels: tuple[float, float] | None = None
    if blocks < 2 or ours is None or theirs is None or min(ours.curve.n, theirs.curve.n) < 2:
        notes.append(Note("too-few-rounds", f"no interval: fewer than 2 {unit}s include every rung"))
    else:
        looks = design.looks[: rounds(study, climbed.shelves, question.ladder)[1]]
        reached = tuple(n // design.blocks_per_unit for n in looks)
        levels = nominal(design, reached, rate), nominal(design, reached, 2 * design.alpha)
        better = 1 if kind == "throughput" else -1
        outcome = _judge(Ratio(ours, theirs, paired=design.paired), levels, margin=margin, better=better)
    for name, side in zip(names, (ours, theirs), strict=True):
        if blocks and side and not math.isfinite(side.place):
            notes.append(_beyond(name, kind, side.place))
        elif levels and side:
            notes += _open(name, kind, side, levels[0])
    return Capacity(
        question, lane, study.baseline, _bounds(ours), _bounds(theirs), outcome.verdict, outcome.ratio, outcome.low,
        outcome.high, margin, rate, blocks, tuple(notes),
    )  # fmt: skip


def _curve(climbs: Sequence[Sequence[Point]], question: Question) -> Curve:
    """``climbs``: the lane's rungs in each block; what the question gives is x."""
    throughput = np.log([[p.throughput for p in points] for points in climbs])
    latency = np.log([[p.latency for p in points] for points in climbs])
    # a latency from a histogram is known to half a bin
    step = BIN_ERROR if METRICS[question.metric].percentile is not None else 0.0
    by = question.kind == "throughput"
    return Curve(latency, throughput, step, 0.0) if by else Curve(throughput, latency, 0.0, step)


def _bounds(side: Crossing | None) -> Bounds:
    if side is None:
        return Bounds(0.0, INF)
    value = math.exp(side.value)
    return Bounds(0.0 if side.place == -INF else value, INF if side.place == INF else value)


@dataclass(frozen=True)
class _Outcome:
    verdict: Word
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def _judge(ratio: Ratio, levels: tuple[float, float], *, margin: float, better: int) -> _Outcome:
    """``levels``: of the interval, and of the tie test's. A claim must hold for every value within an open interval."""
    outer, inner = (ratio.interval(level) for level in levels)
    exact = math.isfinite(ratio.lane.place) and math.isfinite(ratio.baseline.place)
    return _Outcome(
        word(1.0 if outer[0] > 0 else -1.0, outer, inner, margin, better),
        math.exp(ratio.mean) if exact else None,
        math.exp(outer[0]) if outer[0] > -_WIDEST else None,
        math.exp(outer[1]) if outer[1] < _WIDEST else None,
    )


def _beyond(name: str, kind: Kind, place: float) -> Note:
    """Where a lane's figure lies beyond an end of the ladder."""
    below, above = {
        "throughput": (
            "is above the limit on its lowest rung already",
            "stays within the limit on its top rung, so it carries at least that",
        ),
        "latency": (
            "carries more than that on its lowest rung already",
            "does not reach that throughput on any rung",
        ),
    }[kind]
    return Note("beyond-top-rung", f"{name} {above}") if place > 0 else Note("below-lowest-rung", f"{name} {below}")


def _open(name: str, kind: Kind, side: Crossing, level: float) -> Iterator[Note]:
    """Where the blocks do not exclude that the figure lies beyond an end of the ladder."""
    reach = side.reach(level)
    what = "the limit" if kind == "throughput" else "that throughput"
    for distance, note, rung in ((reach.down, "near-lowest-rung", "lowest"), (reach.up, "near-top-rung", "top")):
        if distance == INF:
            yield Note(note, f"{name} on its {rung} rung is too near {what}: the ladder may end before it is reached")
