"""Pair observations: the usable blocks of a cell for a lane, the baseline and a metric."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from statistics import geometric_mean, median
from typing import NamedTuple

from fairlane.metrics import METRICS, SYNC, WAYS, own_metric
from fairlane.records import Histogram, Observation
from fairlane.stats.effects import Effect, Estimate
from fairlane.stats.histogram import (
    BIN_ERROR,
    PERCENTILES,
    SYNCS,
    Bins,
    directions,
    fewest,
    latency,
    longest,
    merge,
    percentile,
    quantiles,
)
from fairlane.stats.missing import FEW, reach
from fairlane.stats.samples import Samples

Shelf = Mapping[str, Mapping[int, "Reading"]]
"""The readings of one cell: lane -> block -> reading."""


_NONE = Bins()


class Figure(NamedTuple):
    """One figure of one trial; ``step``: relative error because it is counted in steps. A tuple: a run of ten thousand
    trials has a quarter of a million."""

    value: float
    step: float = 0.0
    reported: bool = False
    """Whether it is a percentile reported by the tool, without bins."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One trial, read: ``figures`` by metric, at least those that were asked for; empty if it failed."""

    position: int
    failed: str
    figures: dict[str, Figure]
    histograms: Mapping[str, Histogram]
    stalled: bool = False
    """Whether the trial shows a stall inside: see ``_stalled``."""
    ios: dict[str, int] = field(default_factory=dict)
    """Number of I/Os with bins, by ``Metric.way``, of the metrics that were asked for."""
    lost: int = 0
    """``Observation.lost``."""

    @property
    def latency(self) -> Bins:
        """All I/Os."""
        return latency(self.histograms)

    def bins(self, way: str) -> Bins:
        """The I/Os of a ``Metric.way``; of one direction only those of a mix have figures."""
        if not way:
            return self.latency
        return Bins.of(self.histograms.get(SYNCS if way == SYNC else f"{way}.lat", _NONE))


class Row(NamedTuple):
    """One block that counts."""

    block: int
    lane: Figure
    baseline: Figure
    lane_first: bool
    log_ratio: float


def by_unit(logs: Mapping[int, float], each: int) -> dict[int, float]:
    """Block -> figure as unit of ``each`` blocks -> figure, in order: the mean of its blocks that count."""
    if each == 1:
        return {block: logs[block] for block in sorted(logs)}
    units: dict[int, list[float]] = {}
    for block, log in sorted(logs.items()):
        units.setdefault(block // each, []).append(log)
    return {unit: math.fsum(own) / len(own) for unit, own in units.items()}


class LaneData(ABC):
    """The figures of a lane and another, in one cell and metric, that count."""

    voided: int
    """Blocks, or trials of lanes apart, without a figure: the trial failed or lacks it."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Blocks that count; of unpaired lanes: trials of the lane with fewer."""

    @property
    @abstractmethod
    def effect(self) -> Estimate:
        """Mean log-ratio of the figures. ValueError: there are none."""

    @abstractmethod
    def filled(self, everywhere: tuple[float, float] = (0.0, 0.0), /) -> tuple[Estimate, ...]:
        """The effect if the trials without a figure had been as bad for the lane as they may have been, and as good
        (``missing``); empty: all have one, or a lane has none. ``everywhere``: shares of both lanes' trials without
        one, in all cells together."""

    @property
    @abstractmethod
    def blocks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Blocks that count, of the lane and of the other."""

    @property
    @abstractmethod
    def reported(self) -> bool:
        """Whether a figure is a percentile reported by a tool."""


@dataclass(frozen=True)
class Pair(LaneData):
    """A lane and the baseline in one cell and metric, block by block."""

    rows: tuple[Row, ...]
    """Rows in block order."""
    voided: int
    """Blocks in which one of the two trials failed or lacks the figure."""
    each: int = 1
    """Blocks per provisioning, where volumes and machines are made anew: then that is the unit, and not the block
    (Kalibera and Jones, ISMM 2013)."""
    gaps: Mapping[int, "Logs"] = field(default_factory=dict, hash=False)
    """The blocks in which a trial has no figure, or only that of a second try: the logarithms of both lanes, without
    it."""

    @property
    def n(self) -> int:
        return len(self.rows)

    def units(self, below: int, first: int = 0) -> int:
        """Units of which a block from ``first`` on and below ``below`` counts."""
        return len({row.block // self.each for row in self.rows if first <= row.block < below})

    @cached_property
    def effect(self) -> Effect:
        """Log-ratios of the units that count: of the blocks, or their means by provisioning. ValueError: none does."""
        if not self.rows:
            raise ValueError("no block counts")
        return Effect(
            tuple(by_unit({row.block: row.log_ratio for row in self.rows}, self.each).values()),
            sum(row.lane.step + row.baseline.step for row in self.rows) / len(self.rows),
        )

    @cached_property
    def logs(self) -> dict[int, "Logs"]:
        """The logarithms of both lanes' figures, by block; None: it has none, or only that of a second try."""
        known = {row.block: (math.log(row.lane.value), math.log(row.baseline.value)) for row in self.rows}
        return {**known, **self.gaps}

    @property
    def missing(self) -> tuple[int, int]:
        """Trials of each lane without a figure."""
        return sum(log is None for log, _ in self.gaps.values()), sum(log is None for _, log in self.gaps.values())

    def filled(self, everywhere: tuple[float, float] = (0.0, 0.0), /) -> tuple[Effect, ...]:
        sides = [[log for both in self.logs.values() if (log := both[side]) is not None] for side in (0, 1)]
        if not self.rows or not all(sides):
            return ()
        own = [gone / len(self.logs) for gone in self.missing]
        shares = [max(here, share if share > FEW else 0.0) for here, share in zip(own, everywhere, strict=True)]
        if not any(shares):
            return ()
        counted = zip(self.missing, own, everywhere, strict=True)
        low, high = reach(sides, [share if gone == 1 and share else max(here, share) for gone, here, share in counted])
        ours, theirs = map(median, sides)
        rest = [share - here for share, here in zip(shares, own, strict=True)]

        def effect(mine: float, other: float) -> Effect:
            shift = rest[0] * mine - rest[1] * other
            ratios = {b: _or(x, ours + mine) - _or(y, theirs + other) + shift for b, (x, y) in self.logs.items()}
            return replace(self.effect, logs=tuple(by_unit(ratios, self.each).values()))

        return effect(low, high), effect(high, low)

    @property
    def blocks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        both = tuple(row.block for row in self.rows)
        return both, both

    @property
    def reported(self) -> bool:
        return any(row.lane.reported or row.baseline.reported for row in self.rows)

    @property
    def lane_first(self) -> tuple[bool, ...]:
        return tuple(row.lane_first for row in self.rows)

    def between(self, first: int, end: int) -> "Pair":
        """The pair in the blocks from ``first`` on, below ``end``."""
        blocks = [*(row.block for row in self.rows), *self.gaps]
        if not self.rows or (min(blocks) >= first and max(blocks) < end):
            return self
        return replace(
            self,
            rows=tuple(row for row in self.rows if first <= row.block < end),
            gaps={block: logs for block, logs in self.gaps.items() if first <= block < end},
        )


Logs = tuple[float | None, float | None]


def _or(log: float | None, instead: float) -> float:
    return instead if log is None else log


@dataclass(frozen=True)
class Apart(LaneData):
    """A lane and another whose trials do not belong together: block -> figure. Block numbers have no meaning."""

    lane: Mapping[int, Figure]
    baseline: Mapping[int, Figure]
    voided: int
    missing: tuple[int, int] = (0, 0)
    """Trials of each lane without a figure, those that were then carried out once more among them."""

    @property
    def n(self) -> int:
        return min(len(self.lane), len(self.baseline))

    @cached_property
    def effect(self) -> Samples:
        if not self.n:
            raise ValueError("a lane has no trial that counts")
        sides = (tuple(self.lane.values()), tuple(self.baseline.values()))
        ours, theirs = (tuple(math.log(figure.value) for figure in side) for side in sides)
        return Samples(ours, theirs, sum(math.fsum(f.step for f in side) / len(side) for side in sides))

    def filled(self, _everywhere: tuple[float, float] = (0.0, 0.0), /) -> tuple[Samples, ...]:
        effect = self.effect
        if not any(self.missing):
            return ()
        sides = effect.lane, effect.baseline
        low, high = reach(sides, [gone / (len(logs) + gone) for logs, gone in zip(sides, self.missing, strict=True)])

        def samples(mine: float, other: float) -> Samples:
            ours, theirs = (
                (*logs, *[median(logs) + off] * gone)
                for logs, off, gone in zip(sides, (mine, other), self.missing, strict=True)
            )
            return Samples(ours, theirs, effect.resolution)

        return samples(low, high), samples(high, low)

    @property
    def blocks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(self.lane), tuple(self.baseline)

    @property
    def reported(self) -> bool:
        return any(f.reported for side in (self.lane, self.baseline) for f in side.values())


_ALL, _NO_METRICS = frozenset(METRICS), frozenset[str]()
_OWN = frozenset(name for name, metric in METRICS.items() if metric.way)
"""Metrics of one direction, or of syncs."""
_RANKED = frozenset(name for name, metric in METRICS.items() if metric.percentile is not None)
_COUNTED = frozenset(own_metric(name, way) for name in ("iops", "bw") for way in ("", *WAYS))
"""Rates that may have one I/O more or less."""


def shelve(
    observations: Iterable[Observation], metrics: Collection[str] = _ALL
) -> dict[str, dict[str, dict[int, Reading]]]:
    """Read every observation once: cell key -> lane -> block -> reading, with the figures of ``metrics`` (and of those
    that others asked for before)."""
    shelves: dict[str, dict[str, dict[int, Reading]]] = {}
    wanted = frozenset(metrics)
    for observation in observations:
        shelves.setdefault(observation.cell, {}).setdefault(observation.lane, {})[observation.block] = reading(
            observation, wanted
        )
    return shelves


def reading(observation: Observation, metrics: frozenset[str] = _ALL) -> Reading:
    """The trial with the figures of ``metrics``. It is read once and cached in the observation, which never changes:
    checks, verdicts and curves use the same percentiles of the same thousands of trials."""
    kept = observation.__dict__.get("_reading")
    if kept is None:
        kept = Reading(
            observation.position, observation.failed, {}, observation.histograms, _stalled(observation),
            lost=observation.lost,
        )  # fmt: skip
        observation.__dict__["_reading"] = kept  # as functools.cached_property does: frozen are only the fields
    before = observation.__dict__.get("_asked", _NO_METRICS)
    if new := metrics - before:
        observation.__dict__["_asked"] = _with(before, metrics)
        if not kept.failed:
            _read(observation, kept, new)
    found: Reading = kept
    return found


@cache
def _with(before: frozenset[str], metrics: frozenset[str]) -> frozenset[str]:
    """Both; one object for all trials, of which a hundred thousand with a set each would take some 200 MB."""
    return before | metrics


def _read(observation: Observation, kept: Reading, wanted: frozenset[str]) -> None:
    """Adds the metrics in ``wanted`` that this trial has a positive figure for.

    Where there are bins of ``lat``, percentiles come from them alone, even if the trial's metrics have others, and even
    with too few I/Os beyond: whether they may be reported depends on all blocks (``too_few_beyond``).
    """
    metrics, steps = observation.metrics, observation.steps
    values = {name: metrics[name] for name in wanted if name in metrics}
    every: dict[str, Bins] = {}
    if not wanted.isdisjoint(_RANKED) or any(name in _COUNTED and name not in steps for name in values):
        every = {"": kept.latency} | (directions(kept.histograms) if not wanted.isdisjoint(_OWN) else {})
    for way, of_way in every.items():
        kept.ios[way] = of_way.total
        ranks = {name: q for name, q in PERCENTILES[way].items() if name in wanted}
        if ranks and of_way.total:
            values |= zip(ranks, quantiles(of_way, ranks.values()), strict=True)
    for name, value in values.items():
        if not 0 < value < math.inf:
            continue
        metric, step = METRICS[name], steps.get(name)
        ios, ranked = kept.ios.get(metric.way, 0), metric.percentile is not None
        if ranked and ios:
            step = max(BIN_ERROR, step or 0.0)  # bins may be wider
        elif step is None:  # where the tool gives none
            step = 1 / ios if ios and name in _COUNTED else 0.0
        kept.figures[name] = Figure(float(value), step, ranked and not ios)


_LONG = 0.1
"""Share of a trial's time that one I/O takes which counts as a stall."""
_LOW = 0.5
"""Share of the median rate of a trial's intervals below which one of them counts as a stall."""


def _stalled(observation: Observation) -> bool:
    """Whether one I/O took a good part of the trial, or the rate broke down in one of its intervals."""
    load = observation.context.get("load")
    if observation.failed or not isinstance(load, Mapping):
        return False
    runtime, lat = load.get("runtime_ms"), latency(observation.histograms)
    if lat.total and isinstance(runtime, int | float) and runtime > 0 and longest(lat) >= _LONG * runtime * 1e6:
        return True
    series = load.get("series")
    rates = series.get("iops") if isinstance(series, Mapping) else None
    if not isinstance(rates, Sequence) or len(rates) < 3 or not all(isinstance(x, int | float) for x in rates):
        return False
    return bool(min(rates) < _LOW * median(rates))


def upto(shelf: Shelf, blocks: float) -> dict[str, dict[int, Reading]]:
    """The shelf after the first ``blocks`` blocks."""
    return {lane: {b: r for b, r in readings.items() if b < blocks} for lane, readings in shelf.items()}


def pair(shelf: Shelf, lane: str, baseline: str, metric: str, each: int = 1) -> Pair:
    """The blocks in which either lane ran, in order; one without a figure voids its block. ``each``: blocks per
    provisioning, if there are several."""
    ours, theirs = shelf.get(lane, {}), shelf.get(baseline, {})
    blocks = sorted({*ours, *theirs})
    rows, gaps = [], {}
    for b in blocks:
        mine, other = ours.get(b), theirs.get(b)
        if not mine or not other:  # an interruption is nobody's failure
            continue
        ahead, behind = mine.figures.get(metric), other.figures.get(metric)
        if ahead and behind:
            ratio = math.log(ahead.value) - math.log(behind.value)
            rows.append(Row(b, ahead, behind, mine.position < other.position, ratio))
        if not ahead or not behind or mine.lost or other.lost:
            gaps[b] = _log(mine, ahead), _log(other, behind)
    return Pair(tuple(rows), len(blocks) - len(rows), each, gaps)


def _log(reading: Reading, figure: Figure | None) -> float | None:
    """None: there is no figure, or it is that of a second try."""
    return None if figure is None or reading.lost else math.log(figure.value)


def apart(shelf: Shelf, lane: str, baseline: str, metric: str) -> Apart:
    """All trials of both lanes that have the figure, whatever their numbers."""
    sides = [shelf.get(name, {}) for name in (lane, baseline)]
    ours, theirs = ({b: r.figures[metric] for b, r in sorted(s.items()) if metric in r.figures} for s in sides)
    voided = len(sides[0]) - len(ours), len(sides[1]) - len(theirs)
    lost = [sum(side[b].lost for b in known) for side, known in zip(sides, (ours, theirs), strict=True)]
    return Apart(ours, theirs, sum(voided), (voided[0] + lost[0], voided[1] + lost[1]))


def too_few_beyond(shelf: Shelf, lanes: Sequence[str], metric: str) -> int | None:
    """First block in which a percentile of one of ``lanes`` has fewer than ten I/Os beyond it; None: reportable, or as
    a tool reported it, which cannot be checked."""
    entry = METRICS[metric]
    q = entry.percentile
    if q is None:
        return None
    readings = (item for lane in lanes for item in shelf.get(lane, {}).items())
    enough = fewest(q)
    short = (b for b, r in readings if r.ios.get(entry.way, 0) < enough and not (r.failed or _reported(r, metric)))
    return min(short, default=None)


def _reported(reading: Reading, metric: str) -> bool:
    figure = reading.figures.get(metric)
    return figure is not None and figure.reported


class Together:
    """The I/Os of a lane's blocks, added: every percentile of a cell asks for the same."""

    def __init__(self) -> None:
        self._shelf: Shelf = {}
        self._bins: dict[tuple[str, str, tuple[int, ...]], Bins] = {}

    def bins(self, shelf: Shelf, lane: str, way: str, blocks: tuple[int, ...]) -> Bins:
        """``way``: of a metric (``Metric.way``)."""
        if shelf is not self._shelf:  # the last cell is over
            self._shelf, self._bins = shelf, {}
        key = lane, way, blocks
        if key not in self._bins:
            readings = [shelf[lane][b] for b in blocks]
            # all I/Os are mostly reads and writes, which are asked for as well: none is added twice
            parts = [] if way else [self.bins(shelf, lane, part, blocks) for part in WAYS]
            if not parts or sum(part.total for part in parts) < sum(r.latency.total for r in readings):
                parts = [r.bins(way) for r in readings]
            self._bins[key] = merge(parts)
        return self._bins[key]


def typical(shelf: Shelf, lane: str, metric: str, blocks: Iterable[int], together: Together | None = None) -> float:
    """The lane's own figure over ``blocks``, in the metric's unit: geometric mean, or the percentile of all I/Os where
    all have bins."""
    blocks = tuple(blocks)
    readings = [shelf[lane][b] for b in blocks]
    entry = METRICS[metric]
    if entry.percentile is not None and not any(_reported(r, metric) for r in readings):
        return float(percentile((together or Together()).bins(shelf, lane, entry.way, blocks), entry.percentile))
    return geometric_mean(r.figures[metric].value for r in readings)
