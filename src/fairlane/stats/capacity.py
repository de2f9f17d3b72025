"""Throughput of a lane at a given latency, latency at a given throughput, and comparisons of lanes there.

Each lane has one curve on a ladder: the means of ln throughput and ln latency over the blocks. How it is read off, and
how sure that is, stands in ``crossing``. Nothing is extrapolated: a capacity beyond the top rung is "at least that of
the top rung", one below the bottom rung "less than that". Where the blocks do not exclude that the capacity lies beyond
an end, the interval is open on that side, and a claim must hold for every value within.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Literal

import numpy as np

from fairlane.metrics import METRICS
from fairlane.records import Finding, Note, Observation, Word
from fairlane.stats.answers import DECIDED, Answer, Ends, remembered, still_moving, word
from fairlane.stats.contests import Past, concerns, past, stains
from fairlane.stats.crossing import INF, Crossing, Curve, Ratio
from fairlane.stats.histogram import BIN_ERROR
from fairlane.stats.ladders import Ladder, Point, climb, ladders, point
from fairlane.stats.looks import nominal
from fairlane.stats.missing import reach
from fairlane.stats.neighbours import Memory
from fairlane.stats.pairs import Shelf, pair, shelve

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
    withheld: str = ""
    """Why a decided word may be wrong: a critical finding stands against a rung, or the rounds are not independent."""


def objectives(study: "Study", workload: str) -> tuple[Objective, ...]:
    """The objectives of the workload, from its ``slo`` in the study."""
    return tuple(Objective(metric, float(limit)) for metric, limit in study.workloads[workload].slo.items())


def capacities(
    study: "Study",
    observations: Sequence[Observation],
    goals: Sequence[Objective] | None = None,
    *,
    modelled: bool = False,
) -> tuple[Capacity, ...]:
    """Throughput at every objective (``goals``; default: the study's), on every ladder and lane.

    The error rate is shared among all of them (Bonferroni), at the last look that every rung of a ladder reached.
    ``modelled``: by the virtual clock, whose rounds are independent.
    """
    climbed = _Climbs(study, observations, modelled=modelled)
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
    if stained and c.verdict in DECIDED:
        return replace(c, withheld="a critical finding concerns one of its loads")
    return c


def at_equal_terms(
    study: "Study", observations: Sequence[Observation], latency: str = "lat_p99", *, modelled: bool = False
) -> tuple[Capacity, ...]:
    """Every lane at the baseline's own rungs: its throughput at that latency, its latency at that throughput.

    Exploratory: intervals at the study's error rate, each by itself. Compare these, not the lanes' peaks, where one
    lane may have twice the latency of the other.
    """
    climbed = _Climbs(study, observations, modelled=modelled)
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

    def __init__(self, study: "Study", observations: Iterable[Observation], *, modelled: bool) -> None:
        self.study, self.shelves, self.modelled = study, shelve(observations), modelled
        self._made: dict[tuple[str, str, str, str], dict[int, tuple[Point, ...]]] = {}
        self._curves: dict[tuple[str, str, str, str, Kind, tuple[int, ...], Memory], _Crossings] = {}
        self._pasts: dict[tuple[str, str, str, str], Past] = {}

    def __call__(self, ladder: Ladder, lane: str, latency: str) -> dict[int, tuple[Point, ...]]:
        key = ladder.workload, ladder.name, lane, latency
        if key not in self._made:
            self._made[key] = climbs(self.study, self.shelves, ladder, lane, latency)
        return self._made[key]

    def crossing(self, question: Question, lane: str, blocks: tuple[int, ...], memory: Memory) -> Crossing:
        """Where the lane, in ``blocks``, reaches what the question gives."""
        ladder = question.ladder
        key = ladder.workload, ladder.name, lane, question.metric, question.kind, blocks, memory
        if key not in self._curves:
            points = self(ladder, lane, question.metric)
            self._curves[key] = self._crossings(question, {b: points[b] for b in blocks}, memory)
        return self._curves[key](question.at)

    def filled(
        self, question: Question, lanes: tuple[str, str], first: int, memory: Memory
    ) -> Iterator[tuple[Crossing, Crossing]]:
        """Where both lanes reach it if the trials without a figure had been as bad for the one as they may have been
        and as good for the other, and the other way round; none: all have one, or a lane has none of a rung."""
        ladder, counted = question.ladder, rounds(self.study, self.shelves, question.ladder)[0]
        tried = [
            {b: rungs for b in counted if b >= first and (rungs := self._rungs(ladder, lane, b, question.metric))}
            for lane in lanes
        ]
        if self.study.design.paired:
            tried = [{b: rungs for b, rungs in own.items() if all(b in other for other in tried)} for own in tried]
        if not any(None in rungs for own in tried for rungs in own.values()):
            return
        columns = [list(zip(*own.values(), strict=True)) for own in tried]
        if not all(any(rung) for own in columns for rung in own):
            return
        ends = [_ends(rung) for rung in zip(*columns, strict=True)]
        for way in (0, 1):
            ours, theirs = (
                {
                    b: tuple(point or ends[i][lane][way ^ lane] for i, point in enumerate(rungs))
                    for b, rungs in own.items()
                }
                for lane, own in enumerate(tried)
            )
            yield (
                self._crossings(question, ours, memory)(question.at),
                self._crossings(question, theirs, memory)(question.at),
            )

    def past(self, question: Question, lane: str, baseline: str) -> Past:
        """What the rungs of two lanes show together in their latency."""
        ladder, metric = question.ladder, question.metric
        key = ladder.workload, ladder.name, lane, metric
        if key not in self._pasts:
            counted, looks = rounds(self.study, self.shelves, ladder)
            each, plan = self.study.design.blocks_per_unit, self.study.design.looks
            known = not self.modelled and self.study.design.paired and looks
            cells = [self.shelves.get(cell.key, {}) for cell in ladder.cells if known]
            pairs = [pair(shelf, lane, baseline, metric, each).between(0, counted.stop) for shelf in cells]
            pairs = [own for own in pairs if own.rows]
            self._pasts[key] = past(pairs, final=looks == len(plan)) if pairs else Past()
        return self._pasts[key]

    def _rungs(self, ladder: Ladder, lane: str, block: int, latency: str) -> tuple[Point | None, ...]:
        """The rungs, None where the trial has no figure or that of a second try; empty: not all were tried."""
        readings = [self.shelves.get(cell.key, {}).get(lane, {}).get(block) for cell in ladder.cells]
        if not all(readings):
            return ()
        return tuple(
            None if reading is None or reading.lost else point(reading, load, latency)
            for reading, load in zip(readings, ladder.loads, strict=True)
        )

    def _crossings(self, question: Question, points: Mapping[int, Sequence[Point]], memory: Memory) -> "_Crossings":
        counted = by_provisioning(points, self.study.design.blocks_per_unit)
        return _Crossings(replace(_curve(counted, question), memory=memory), last=question.kind == "throughput")


class _Crossings:
    """Where a curve reaches any of several limits."""

    def __init__(self, curve: Curve, *, last: bool) -> None:
        self.curve, self.last = curve, last
        self._made: dict[float, Crossing] = {}

    def __call__(self, at: float) -> Crossing:
        if at not in self._made:
            self._made[at] = Crossing(self.curve, math.log(at), last=self.last)
        return self._made[at]


def _ends(rung: Sequence[Sequence[Point | None]]) -> list[tuple[Point, Point]]:
    """The worst and the best, of each lane, that a trial without a figure may have been; ``rung``: lanes x rounds."""
    known = [[point for point in own if point] for own in rung]
    missing = [1 - len(some) / len(own) for own, some in zip(rung, known, strict=True)]
    rates, waits = ([[math.log(getattr(p, of)) for p in own] for own in known] for of in ("throughput", "latency"))
    (slowest, fastest), (shortest, longest) = reach(rates, missing), reach(waits, missing)
    return [
        (
            Point(own[0].load, math.exp(median(rate) + slowest), math.exp(median(wait) + longest)),
            Point(own[0].load, math.exp(median(rate) + fastest), math.exp(median(wait) + shortest)),
        )
        for own, rate, wait in zip(known, rates, waits, strict=True)
    ]


def _compare(climbed: _Climbs, question: Question, lane: str, rate: float) -> Capacity:
    """One lane against the baseline; ``rate``: error rate of the interval over all looks."""
    study, design, kind = climbed.study, climbed.study.design, question.kind
    names, before = (lane, study.baseline), climbed.past(question, lane, study.baseline)
    counted = [tuple(b for b in climbed(question.ladder, n, question.metric) if b >= before.first) for n in names]
    if design.paired:
        counted = [tuple(b for b in counted[0] if b in counted[1])] * 2
    blocks, unit = min(map(len, counted)), "provisioning" if design.blocks_per_unit > 1 else "round"
    measured = METRICS["iops" if kind == "throughput" else question.metric]
    margin = design.margins.get(measured.name, measured.margin)

    def sides(memory: Memory) -> list[Crossing | None]:
        both = zip(names, counted, strict=True)
        return [climbed.crossing(question, name, b, memory) if b else None for name, b in both]

    ours, theirs = sides(before.memory)
    made, ratio, withheld = Answer("no-spread" if blocks else "inconclusive"), None, ""
    notes: list[Note] = []
    levels: tuple[float, float] | None = None
    if blocks < 2 or ours is None or theirs is None or min(ours.curve.n, theirs.curve.n) < 2:
        notes.append(Note("too-few-rounds", f"no interval: fewer than 2 {unit}s include every rung"))
    else:
        looks = design.looks[: rounds(study, climbed.shelves, question.ladder)[1]]
        reached = tuple(n // design.blocks_per_unit for n in looks)
        levels = nominal(design, reached, rate), nominal(design, reached, 2 * design.alpha)

        def judged(memory: Memory) -> Answer:
            both = sides(memory), *climbed.filled(question, names, before.first, memory)
            ratios = [Ratio(a, b, paired=design.paired) for a, b in both if a and b]
            return _judge(ratios, levels, margin, kind)

        made = judged(before.memory)
        if made.withheld:
            notes.append(made.withheld)
        if made.word in DECIDED and made.joint and made.tie:
            way = before.move.slope * (-1 if kind == "throughput" else 1)  # more latency, less throughput

            def again(memory: Memory) -> tuple[Ends, Ends]:
                anew = judged(memory)
                assert anew.joint is not None  # noqa: S101 - of two rounds or more
                assert anew.tie is not None  # noqa: S101
                return anew.joint, anew.tie

            turned = replace(before, move=replace(before.move, slope=way))
            doubts = (
                *still_moving(turned, made.joint, made.tie, names, unit),
                *remembered(before.memory, ours.curve.n, unit, again),
            )
            withheld = next((d.because for d in doubts if _word(d.joint, d.tie, margin, kind) != made.word), "")
        if math.isfinite(ours.place) and math.isfinite(theirs.place):
            ratio = math.exp(ours.value - theirs.value)
    for name, side in zip(names, (ours, theirs), strict=True):
        if side and not math.isfinite(side.place):
            notes.append(_beyond(name, kind, side.place))
        elif levels and side:
            notes += _open(name, kind, side, levels[0])
    low, high = made.joint or (-INF, INF)
    return Capacity(
        question, lane, study.baseline, _bounds(ours), _bounds(theirs), made.word, ratio,
        math.exp(low) if low > -_WIDEST else None, math.exp(high) if high < _WIDEST else None, margin, rate, blocks,
        tuple(notes), withheld,
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


def _judge(ratios: Sequence[Ratio], levels: tuple[float, float], margin: float, kind: Kind) -> Answer:
    """``ratios``: as measured, and as they may have been with the trials without a figure; ``levels``: of the interval,
    and of the tie test's. A claim must hold for every value within an open interval, and whatever is missing."""

    def answered(some: Sequence[Ratio]) -> Answer:
        lows, highs = zip(*(ratio.interval(levels[0]) for ratio in some), strict=True)
        tie_lows, tie_highs = zip(*(ratio.interval(levels[1]) for ratio in some), strict=True)
        joint, tie = (min(lows), max(highs)), (min(tie_lows), max(tie_highs))
        return Answer(_word(joint, tie, margin, kind), joint, tie)

    made = answered(ratios)
    if made.word == "inconclusive" and answered(ratios[:1]).word in DECIDED:
        return replace(
            made,
            withheld=Note("missing", "withheld: the figures that failed trials may have had could change the word"),
        )
    return made


def _word(joint: Ends, tie: Ends, margin: float, kind: Kind) -> Word:
    return word(1.0 if joint[0] > 0 else -1.0, joint, tie, margin, 1 if kind == "throughput" else -1)


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
