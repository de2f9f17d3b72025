"""Throughput of a lane at a given latency, latency at a given throughput, and comparisons of lanes there.

Each lane, each block: the rungs of a ladder by rising load, (T_i, L_i). Neither throughput nor latency should fall as
load rises; where noise lets them, both are replaced by their isotonic least squares fits on the log scale (Barlow,
Bartholomew, Bremner and Brunk, *Statistical Inference under Order Restrictions*, 1972; pool adjacent violators).
Between two rungs ln T is linear in ln L. Nothing is extrapolated: a capacity beyond the top rung is "at least that of
the top rung", one below the bottom rung "less than that". A censored figure is kept as bounds, and a claim must
hold for every value within them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import geometric_mean
from typing import TYPE_CHECKING, Literal

import numpy as np

from fairlane.metrics import METRICS
from fairlane.records import Finding, Note, Observation, Word
from fairlane.stats.answers import DECIDED, word
from fairlane.stats.contests import concerns, stains
from fairlane.stats.effects import Effect, Estimate
from fairlane.stats.histogram import BIN_ERROR
from fairlane.stats.ladders import Ladder, Point, climb, ladders
from fairlane.stats.looks import nominal
from fairlane.stats.pairs import Shelf, shelve
from fairlane.stats.samples import Samples

if TYPE_CHECKING:
    from fairlane.study.spec import Study

INF = math.inf

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
    """Geometric mean over blocks; censored if any block is."""
    baseline_value: Bounds
    verdict: Word
    ratio: float | None
    """Lane / baseline, where no block is censored."""
    low: float | None
    """Ends of the interval of the ratio at ``level``; None: not known on that side."""
    high: float | None
    margin: float
    level: float
    blocks: int
    notes: tuple[str, ...] = ()
    withheld: bool = False
    """Decided, but a critical finding stands against a rung."""


def frontier(points: Sequence[Point]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Throughputs (1/s) and latencies (ns) of a lane's rungs, by rising load: isotonic fits of the logarithms."""
    return _frontier(tuple(points))


@lru_cache(maxsize=4096)
def _frontier(points: tuple[Point, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Cached: every question to a ladder, two for each rung of the baseline, uses the same rounds."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - half a second, for ladders alone

    def risen(values: Iterable[float]) -> tuple[float, ...]:
        fit = isotonic_regression(np.log(list(values))).x
        return tuple(float(value) for value in np.exp(fit))

    return risen(p.throughput for p in points), risen(p.latency for p in points)


def throughput_at(points: Sequence[Point], latency: float) -> Bounds:
    """Highest throughput with at most ``latency`` (ns): SLO capacity. ``points`` by rising load, not empty."""
    throughputs, latencies = frontier(points)
    below = sum(value <= latency * (1 + 1e-12) for value in latencies)
    if not below:
        return Bounds(0.0, throughputs[0])
    if below == len(points):
        return Bounds(throughputs[-1], INF)
    value = _between(latencies[below - 1 : below + 1], throughputs[below - 1 : below + 1], latency)
    return Bounds(value, value)


def latency_at(points: Sequence[Point], throughput: float) -> Bounds:
    """Least latency (ns) at which ``throughput`` (1/s) is reached. ``points`` by rising load, not empty."""
    throughputs, latencies = frontier(points)
    short = sum(value < throughput * (1 - 1e-12) for value in throughputs)
    if not short:
        return Bounds(0.0, latencies[0])
    if short == len(points):
        return Bounds(latencies[-1], INF)
    value = _between(throughputs[short - 1 : short + 1], latencies[short - 1 : short + 1], throughput)
    return Bounds(value, value)


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Log-linear between two points with x1 < x2."""
    share = (math.log(x) - math.log(xs[0])) / (math.log(xs[1]) - math.log(xs[0]))
    return math.exp(math.log(ys[0]) + min(1.0, max(0.0, share)) * (math.log(ys[1]) - math.log(ys[0])))


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


class _Climbs:
    """``climbs`` of a run, cached: every question to a ladder uses the same rounds."""

    def __init__(self, study: "Study", shelves: Shelves) -> None:
        self.study, self.shelves = study, shelves
        self._made: dict[tuple[str, str, str, str], dict[int, tuple[Point, ...]]] = {}

    def __call__(self, ladder: Ladder, lane: str, latency: str) -> dict[int, tuple[Point, ...]]:
        key = ladder.workload, ladder.name, lane, latency
        if key not in self._made:
            self._made[key] = climbs(self.study, self.shelves, ladder, lane, latency)
        return self._made[key]


def _compare(climbed: _Climbs, question: Question, lane: str, rate: float) -> Capacity:
    """One lane against the baseline; ``rate``: error rate of the interval over all looks."""
    study, shelves = climbed.study, climbed.shelves
    design, find = study.design, throughput_at if question.kind == "throughput" else latency_at
    ours, theirs = (
        {b: find(points, question.at) for b, points in climbed(question.ladder, name, question.metric).items()}
        for name in (lane, study.baseline)
    )
    if design.paired:
        ours, theirs = {b: ours[b] for b in ours if b in theirs}, {b: theirs[b] for b in theirs if b in ours}
    blocks = min(len(ours), len(theirs))
    measured = METRICS["iops" if question.kind == "throughput" else question.metric]
    margin = design.margins.get(measured.name, measured.margin)
    # a latency from a histogram is known to half a bin, and so is a figure read off at it
    step = 2 * BIN_ERROR if METRICS[question.metric].percentile is not None else 0.0
    judged = _Outcome("no-spread" if blocks else "inconclusive")
    notes = []
    if blocks < 2:
        notes.append(Note("too-few-rounds", "fewer than 2 rounds have every rung: no interval"))
    else:
        reached = design.looks[: rounds(study, shelves, question.ladder)[1]]
        levels = nominal(design, reached, rate), nominal(design, reached, 2 * design.alpha)
        mine, other = list(ours.values()), list(theirs.values())
        least = _estimate([b.low for b in mine], [b.high for b in other], step, paired=design.paired)
        most = _estimate([b.high for b in mine], [b.low for b in other], step, paired=design.paired)
        exact = all(b.exact for b in (*mine, *other))
        better = 1 if question.kind == "throughput" else -1
        judged = _judge(least, most, levels, exact=exact, margin=margin, better=better)
    values = [_mean(list(part.values())) if part else Bounds(0.0, INF) for part in (ours, theirs)]
    for name, value in zip((lane, study.baseline), values, strict=True):
        if blocks and not value.exact:
            notes.append(_censored(name, question.kind, value))
    return Capacity(
        question, lane, study.baseline, values[0], values[1], judged.verdict, judged.ratio, judged.low, judged.high,
        margin, rate, blocks, tuple(notes),
    )  # fmt: skip


def _estimate(ours: Sequence[float], theirs: Sequence[float], step: float, *, paired: bool) -> Estimate | None:
    """The estimate of the log-ratio; None if a censored end is infinite."""
    mine, other = tuple(map(_log, ours)), tuple(map(_log, theirs))
    if not all(map(math.isfinite, (*mine, *other))):
        return None
    if paired:
        return Effect(tuple(a - b for a, b in zip(mine, other, strict=True)), step)
    return Samples(mine, other, step)


@dataclass(frozen=True)
class _Outcome:
    verdict: Word
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def _judge(
    least: Estimate | None,
    most: Estimate | None,
    levels: tuple[float, float],
    *,
    exact: bool,
    margin: float,
    better: int,
) -> _Outcome:
    """``least`` and ``most``: estimates from the low and the high ends of the bounds; equal where all are ``exact``.

    ``levels``: of the interval, and of the tie test's. A claim must hold for every value within the bounds.
    """
    outer, inner = (
        (least.interval(rate)[0] if least else -INF, most.interval(rate)[1] if most else INF) for rate in levels
    )
    centre = least.mean if least and exact else 1.0 if outer[0] > 0 else -1.0
    return _Outcome(
        word(centre, outer, inner, margin, better),
        math.exp(least.mean) if least and exact else None,
        math.exp(outer[0]) if least else None,
        math.exp(outer[1]) if most else None,
    )


def _log(value: float) -> float:
    return -INF if value <= 0 else INF if value == INF else math.log(value)


def _mean(bounds: Sequence[Bounds]) -> Bounds:
    """Geometric mean, end by end."""

    def ends(values: Sequence[float]) -> float:
        return 0.0 if 0.0 in values else INF if INF in values else geometric_mean(values)

    low, high = ends([b.low for b in bounds]), ends([b.high for b in bounds])
    return Bounds(low, high) if not all(b.exact for b in bounds) else Bounds(low, low)


def _censored(name: str, kind: Kind, value: Bounds) -> Note:
    rung = "beyond-top-rung" if value.high == INF else "below-lowest-rung"
    if kind == "throughput":
        reached = "stays within the limit on its top rung: it carries at least that"
        return Note(rung, f"{name} {reached if value.high == INF else 'is above the limit on its lowest rung already'}")
    reached = "does not reach that throughput on any rung"
    return Note(rung, f"{name} {reached if value.high == INF else 'carries more than that on its lowest rung already'}")
