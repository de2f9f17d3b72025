"""The shortest slot (ramp and trial) whose result agrees with that of long trials, from the series within those.

A decision costs load in proportion to the slot, and hardly less spread comes with longer ones: seconds of a trial
resemble each other. What may forbid a short slot is bias: caches that are still warm, a tier's burst, a queue that
fills. So for each candidate, block by block, the log-ratio lane / baseline within the window [ramp, ramp + length) is
held against that of the second half of the same trials. The mean of the differences is the bias of the slot; the slot
*agrees* where the bias's two-sided 90 % t interval lies within a quarter (``SHARE``) of the metric's margin: two
one-sided tests at 5 % (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987). All cells and lanes must agree, each at 5 %,
because one that does not would be misjudged (an intersection-union test needs no adjustment). Candidates are gone
through from the longest down, and the first one that does not agree ends that: a bias that passes through zero while it
fades makes no slot a good one.

Figures are IOPS: latencies of intervals have neither weights nor percentiles. In a closed loop mean latency follows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Observation
from fairlane.stats.effects import Effect, blocks_needed
from fairlane.stats.pilot import level
from fairlane.study.base import LOOKS

if TYPE_CHECKING:
    from fairlane.study.spec import Study

SHARE = 0.25
"""Largest bias of a slot, as a share of the margin."""
BEYOND = 10
"""I/Os that must lie beyond a percentile."""
_LEVEL = 0.10
"""Two one-sided tests at 5 % each."""
_MOST = 100_000

Word = Literal["agrees", "differs", "open", "few-ios"]
"""``differs``: the bias is larger than allowed. ``open``: the blocks do not tell. ``few-ios``: too few I/Os in the slot
for the workload's percentile."""


@dataclass(frozen=True, order=True)
class Slot:
    """Seconds of load before a trial's figures count, and seconds of the trial."""

    ramp: int
    length: int

    @property
    def seconds(self) -> int:
        return self.ramp + self.length


SLOTS = tuple(Slot(*pair) for pair in ((1, 1), (1, 2), (2, 3), (5, 5), (5, 10), (10, 20), (20, 40), (60, 60)))
"""Candidates, shortest first. One is tried where trials are at least twice as long."""


@dataclass(frozen=True)
class Agreement:
    """A slot against the second half of the same trials: one lane against the baseline in one cell. Log scale."""

    cell: Cell
    lane: str
    word: Word
    limit: float
    """Largest bias allowed."""
    blocks: int
    """Blocks with a series of both lanes and I/O in every window."""
    bias: float | None = None
    """Mean over blocks; None below 2 blocks."""
    low: float | None = None
    """Ends of its 90 % interval."""
    high: float | None = None
    more: int | None = None
    """For ``open``: further blocks that would show it, if bias and spread stay as they are."""
    sd: float | None = None
    """Spread between blocks of the log-ratio in this slot."""
    needed: int | None = None
    """Blocks after which an interval of such slots is within the margin."""


@dataclass(frozen=True)
class Tried:
    """A candidate in all cells."""

    slot: Slot
    agreements: tuple[Agreement, ...]
    load: float | None
    """Seconds of load of a decision in all cells with such slots; None: some cell is out of reach."""

    @property
    def agrees(self) -> bool:
        return bool(self.agreements) and all(a.word == "agrees" for a in self.agreements)

    @property
    def worst(self) -> Agreement:
        """The lane and cell that is farthest from agreeing."""
        order = ("agrees", "few-ios", "open", "differs")
        return max(self.agreements, key=lambda a: (order.index(a.word), abs(a.bias or 0.0) - a.limit))


@dataclass(frozen=True)
class Slots:
    """The answer of a run whose trials have series."""

    tried: tuple[Tried, ...]
    """Shortest first."""
    seconds: float
    """Ramp and trial of the run itself, the longest."""
    load: float | None
    """Seconds of load of a decision with the run's own trials."""
    autocorrelation: float | None
    """Of the log-ratio from one interval of the series to the next, mean over cells and blocks."""
    left_out: tuple[Cell, ...]
    """Cells without a series, or with a rate that was asked for, in which IOPS tell nothing."""

    @property
    def answer(self) -> Tried | None:
        """The shortest candidate that agrees, as all longer ones do."""
        best = None
        for tried in reversed(self.tried):
            if not tried.agrees:
                break
            best = tried
        return best


@dataclass(frozen=True)
class _Pair:
    """Series of lane and baseline, by block, in intervals of the same length."""

    cell: Cell
    lane: str
    begins: float
    """Seconds of load before the series."""
    interval: float
    """Seconds."""
    series: tuple[tuple[Sequence[float], Sequence[float]], ...]

    @property
    def points(self) -> int:
        return min(len(rates) for both in self.series for rates in both)

    def logs(self, begin: float, end: float) -> list[float | None]:
        """Log-ratio of the mean rates between two moments of the load, by block; None where there was no I/O."""
        first, last = (round((t - self.begins) / self.interval) for t in (begin, end))
        sums = [(math.fsum(a[first:last]), math.fsum(b[first:last])) for a, b in self.series]
        return [math.log(a / b) if a > 0 and b > 0 else None for a, b in sums]


def slots(evidence: Evidence) -> Slots | None:
    """Which slots agree with the run's own trials; None where no trial has a series."""
    study = evidence.study
    pairs = _pairs(evidence)
    if not pairs:
        return None
    length = min(p.begins + p.points * p.interval for p in pairs)
    ramp = max(p.begins for p in pairs)
    candidates = [slot for slot in SLOTS if slot.ramp >= ramp and 2 * slot.seconds <= length]
    tried = []
    for slot in candidates:
        agreements = tuple(_agreement(study, p, slot, length) for p in pairs)
        tried.append(Tried(slot, agreements, _load(study, agreements, {a.cell.key: slot.seconds for a in agreements})))
    whole = tuple(_agreement(study, p, None, length) for p in pairs)
    trials = {p.cell.key: study.workloads[p.cell.workload].trial_seconds(p.cell) for p in pairs}
    paired = {p.cell.key for p in pairs}
    return Slots(
        tuple(tried),
        max(trials.values()),
        _load(study, whole, trials),
        _autocorrelation(pairs, length),
        tuple(cell for cell in study.judged if cell.key not in paired),
    )


def _pairs(evidence: Evidence) -> list[_Pair]:
    study = evidence.study
    series: dict[tuple[str, str], dict[int, tuple[float, Sequence[float]]]] = {}
    for observation in evidence.observations:
        if rates := _series(observation):
            series.setdefault((observation.cell, observation.lane), {})[observation.block] = rates
    pairs = []
    for cell in study.judged:
        if cell.params.get("rate_iops"):
            continue
        theirs = series.get((cell.key, study.baseline), {})
        for lane in study.rivals:
            ours = series.get((cell.key, lane), {})
            both = tuple((ours[b][1], theirs[b][1]) for b in sorted(ours.keys() & theirs.keys()))
            if both:
                begins = cell.params.get("ramp", 0) / 1e9
                pairs.append(_Pair(cell, lane, begins, next(iter(ours.values()))[0], both))
    return pairs


def _series(observation: Observation) -> tuple[float, Sequence[float]] | None:
    """Interval in seconds, and IOPS in each."""
    load = observation.context.get("load")
    series = load.get("series") if isinstance(load, Mapping) else None
    if not isinstance(series, Mapping):
        return None
    step, rates = series.get("interval_ms"), series.get("iops")
    if not isinstance(step, int | float) or step <= 0 or not isinstance(rates, Sequence) or len(rates) < 2:
        return None
    return (step / 1000, rates) if all(isinstance(r, int | float) for r in rates) else None


def _agreement(study: "Study", pair: _Pair, slot: Slot | None, length: float) -> Agreement:
    """``slot``: None for the whole trial, which is compared with nothing."""
    metric = METRICS[study.workloads[pair.cell.workload].primary]
    rate = metric if metric.better > 0 else METRICS["iops"]
    margin = math.log1p(study.design.margins.get(rate.name, rate.margin))
    limit = SHARE * margin
    begin, end = (slot.ramp, slot.seconds) if slot else (pair.begins, length)
    rest = pair.logs(length / 2, length)
    both = [(a, b) for a, b in zip(pair.logs(begin, end), rest, strict=True) if a is not None and b is not None]
    if len(both) < 2:
        return Agreement(pair.cell, pair.lane, "open", limit, len(both))
    here, bias = Effect(tuple(a for a, _ in both)), Effect(tuple(a - b for a, b in both))
    half = bias.half_width(_LEVEL)
    low, high = bias.mean - half, bias.mean + half
    word: Word = "agrees" if -limit < low and high < limit else "differs" if low > limit or high < -limit else "open"
    if slot and word == "agrees" and metric.percentile is not None and _beyond(pair, slot, metric.percentile) < BEYOND:
        word = "few-ios"
    wanted = blocks_needed(bias.sd, limit - abs(bias.mean), _LEVEL, _MOST) if word == "open" else None
    needed = blocks_needed(here.sd, margin, level(study), _MOST)
    more = max(wanted - len(both), 1) if wanted else None
    return Agreement(pair.cell, pair.lane, word, limit, len(both), bias.mean, low, high, more, here.sd, needed)


def _beyond(pair: _Pair, slot: Slot, percentile: float) -> float:
    """I/Os beyond a percentile in the slot of the slowest trial."""
    first, last = (round((t - pair.begins) / pair.interval) for t in (slot.ramp, slot.seconds))
    return min(math.fsum(r[first:last]) for both in pair.series for r in both) * pair.interval * (1 - percentile)


def _load(study: "Study", agreements: Sequence[Agreement], seconds: Mapping[str, float]) -> float | None:
    """Seconds of load until all cells have their blocks. ``seconds``: of a trial and its ramp, by cell."""
    blocks: dict[str, int] = {}
    lanes: dict[str, int] = {}
    for agreement in agreements:
        if agreement.needed is None:
            return None
        key = agreement.cell.key
        blocks[key] = max(blocks.get(key, LOOKS[0]), agreement.needed)
        lanes[key] = len(study.lanes_of(agreement.cell))
    return sum(n * lanes[key] * seconds[key] for key, n in blocks.items())


def _autocorrelation(pairs: Sequence[_Pair], length: float) -> float | None:
    """Lag 1, in the second half of the trials, where what fades has faded."""
    lags = []
    for pair in pairs:
        first = round((length / 2 - pair.begins) / pair.interval)
        for ours, theirs in pair.series:
            logs = [math.log(a / b) for a, b in zip(ours[first:], theirs[first:], strict=False) if a > 0 and b > 0]
            if len(logs) < 3:
                continue
            mean = math.fsum(logs) / len(logs)
            off = [x - mean for x in logs]
            if (total := math.fsum(x * x for x in off)) > 0:
                lags.append(math.fsum(a * b for a, b in pairwise(off)) / total)
    return math.fsum(lags) / len(lags) if lags else None
