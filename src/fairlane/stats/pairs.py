"""From observations to pairs: which blocks of a cell count for a lane, the baseline and a metric."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fairlane.metrics import METRICS
from fairlane.records import Histogram, Observation
from fairlane.stats.effects import Effect
from fairlane.stats.histogram import BIN_ERROR, count, latency, merge, percentile, reportable

Shelf = Mapping[str, Mapping[int, "Reading"]]
"""The readings of one cell: lane -> block -> reading."""


@dataclass(frozen=True)
class Figure:
    """One figure of one trial; ``step``: how far it may lie from the truth because it is counted in steps, relative."""

    value: float
    step: float = 0.0


@dataclass(frozen=True)
class Reading:
    """One trial, read: ``figures`` by metric, empty if it failed."""

    position: int
    failed: str
    figures: Mapping[str, Figure]
    latency: Histogram


@dataclass(frozen=True)
class Row:
    """One block that counts."""

    block: int
    lane: Figure
    baseline: Figure
    lane_first: bool

    @property
    def log_ratio(self) -> float:
        return math.log(self.lane.value) - math.log(self.baseline.value)


@dataclass(frozen=True)
class Pair:
    """A lane and the baseline in one cell and metric."""

    rows: tuple[Row, ...]
    """In block order."""
    voided: int
    """Blocks in which one of the two trials failed or lacks the figure."""

    @cached_property
    def effect(self) -> Effect:
        """Log-ratios of the blocks that count. ValueError: none does."""
        if not self.rows:
            raise ValueError("no block counts")
        return Effect(
            tuple(row.log_ratio for row in self.rows),
            sum(row.lane.step + row.baseline.step for row in self.rows) / len(self.rows),
        )

    @property
    def lane_first(self) -> tuple[bool, ...]:
        return tuple(row.lane_first for row in self.rows)


def shelve(
    observations: Iterable[Observation], metrics: Collection[str] = tuple(METRICS)
) -> dict[str, dict[str, dict[int, Reading]]]:
    """Read every observation once: cell key -> lane -> block -> reading, with the figures of ``metrics`` only."""
    shelves: dict[str, dict[str, dict[int, Reading]]] = {}
    for seen in observations:
        shelves.setdefault(seen.cell, {}).setdefault(seen.lane, {})[seen.block] = _read(seen, metrics)
    return shelves


def _read(seen: Observation, metrics: Collection[str]) -> Reading:
    """Those of ``metrics`` that this trial has a positive figure for.

    Percentiles come from the histograms alone, whatever ``metrics`` says, and are there even with too few I/Os beyond:
    whether they may be reported is a question to all blocks (``too_few_beyond``).
    """
    if seen.failed:
        return Reading(seen.position, seen.failed, {}, {})
    lat = latency(seen.histograms)
    ios = count(lat)
    figures = {}
    for name in metrics:
        metric = METRICS[name]
        if metric.percentile is not None:
            value = float(percentile(lat, metric.percentile)) if ios else 0.0
            step = BIN_ERROR
        else:
            value = seen.metrics.get(name, 0.0)
            # where the tool does not tell: a rate may have one I/O more or less
            step = seen.steps.get(name, 1 / ios if ios and name in ("iops", "bw") else 0.0)
        if value > 0 and math.isfinite(value):
            figures[name] = Figure(value, step)
    return Reading(seen.position, "", figures, lat)


def upto(shelf: Shelf, blocks: int) -> dict[str, dict[int, Reading]]:
    """The shelf as it was after the first ``blocks`` blocks."""
    return {lane: {b: r for b, r in readings.items() if b < blocks} for lane, readings in shelf.items()}


def pair(shelf: Shelf, lane: str, baseline: str, metric: str) -> Pair:
    """The blocks in which either lane ran, in order; one without a figure voids its block, nothing is imputed."""
    ours, theirs = shelf.get(lane, {}), shelf.get(baseline, {})
    blocks = sorted({*ours, *theirs})
    rows = []
    for b in blocks:
        mine, other = ours.get(b), theirs.get(b)
        if mine and other and metric in mine.figures and metric in other.figures:
            rows.append(Row(b, mine.figures[metric], other.figures[metric], mine.position < other.position))
    return Pair(tuple(rows), len(blocks) - len(rows))


def too_few_beyond(shelf: Shelf, lanes: Sequence[str], metric: str) -> int | None:
    """First block in which a percentile of one of ``lanes`` has fewer than ten I/Os beyond it; None: reportable."""
    q = METRICS[metric].percentile
    if q is None:
        return None
    short = (
        b for lane in lanes for b, r in shelf.get(lane, {}).items() if not r.failed and not reportable(r.latency, q)
    )
    return min(short, default=None)


def typical(shelf: Shelf, lane: str, metric: str, blocks: Iterable[int]) -> float:
    """The lane's own figure over ``blocks``, in the metric's unit: geometric mean, or the percentile of all I/Os."""
    readings = [shelf[lane][b] for b in blocks]
    q = METRICS[metric].percentile
    if q is not None:
        return float(percentile(merge(r.latency for r in readings), q))
    return math.exp(math.fsum(math.log(r.figures[metric].value) for r in readings) / len(readings))
