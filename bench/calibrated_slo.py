"""How often the comparison at an objective is wrong, measured: false differences, intervals that miss, and power.

    uv run python bench/calibrated_slo.py            2 to 4 minutes on 2 cores
    uv run python bench/calibrated_slo.py --quick    under 30 s, figures to about +-2 %

Two lanes climb a ladder block by block: throughput at a latency, and latency at a throughput, on curves that are steep,
flat, or bend at the objective, under noises that the lanes have alike or not. They are compared by the product's own
code (Crossing, Ratio). *before*: the paired t interval of a crossing in every block by itself, on every tenth study.

* error: intervals that exclude no difference of lanes that are the same; least favourable curve in brackets
* coverage: 95 % intervals that hold the truth where one lane is 20 % faster; least favourable curve in brackets
* power: that difference is found
* open: intervals without an end, because the ladder may end before the objective
* width: of the interval, relative to that of *before*, where both have ends (geometric mean)

A target counts as missed where the share is beyond it by more than two standard errors of the simulation: an error of
5 % over all curves and of 7 % on each, a coverage of 93 % on each curve. Stalls are promised less: of a rung that no
stall has hit, few blocks know nothing of stalls. Where both lanes have them, the error of equal lanes is promised, and
no coverage; where one has them, nothing.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlane.stats.crossing import Crossing, Curve, Ratio
from fairlane.stats.effects import Effect

Floats = NDArray[np.float64]

ALPHA, ERROR, WORST, COVERAGE = 0.05, 0.05, 0.07, 0.93
FASTER = math.log(1.2)
BLOCKS = (6, 10, 20)
STALL, STALLED = math.log(2), 0.08
"""A stalled trial runs at half speed; share of trials that do."""


@dataclass(frozen=True)
class Case:
    """A curve, as logarithms over its rungs, and a question to it."""

    name: str
    throughput: Floats
    latency: Floats
    at: float
    """ln of the objective."""
    by_latency: bool = True
    """Whether the objective is a latency, and the figure a throughput."""

    def crossing(self, throughput: Floats, latency: Floats) -> Crossing:
        """The product's, of one lane; blocks x rungs."""
        curve = Curve(latency, throughput) if self.by_latency else Curve(throughput, latency)
        return Crossing(curve, self.at, last=self.by_latency)

    def truth(self, ours: Floats, theirs: Floats) -> float:
        """The log-ratio of two lanes whose mean speeds differ from the curve by these logarithms."""
        lanes = [self.crossing(self.throughput[None] + s, self.latency[None] - s) for s in (ours, theirs)]
        return lanes[0].value - lanes[1].value


def _closed(service: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """A closed loop with 1 to 64 in flight, ``service``: their latency in ns."""
    depth: Floats = np.array([1.0, 2, 4, 8, 16, 32, 64])
    return np.log(depth / service(depth) * 1e9), np.log(service(depth))


def cases() -> tuple[Case, ...]:
    bends = _closed(lambda n: 80e3 * (1 + n / 8))
    flat = _closed(lambda n: 80e3 * (1 + n / 64))
    wall = _closed(lambda n: np.maximum(80e3 * (1 + n / 64), 6.9e3 * n))
    rate = np.array([0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95])
    steep = np.log(rate * 1e5), np.log(50e3 / (1 - rate))
    return (
        Case("between rungs", *bends, math.log(200e3)),
        Case("on a rung", *bends, math.log(160e3)),
        Case("flat", *flat, math.log(95e3)),
        Case("steep", *steep, math.log(200e3)),
        Case("wall", *wall, math.log(180e3)),
        Case("latency between", *bends, math.log(50e3), by_latency=False),
        Case("latency on a rung", *bends, float(bends[0][3]), by_latency=False),
    )


Shape = tuple[int, int, int]
"""Blocks, lanes, rungs."""
Noise = Callable[[np.random.Generator, Shape], tuple[Floats, Floats]]
"""Deviations of ln throughput and ln latency."""


def alike(sd: float) -> Noise:
    """Latencies with this standard deviation on every rung of both lanes, throughputs with less."""
    return lambda rng, shape: _little(rng, rng.normal(0, sd, shape), sd / 4)


def _little(rng: np.random.Generator, latency: Floats, own: float = 0.01) -> tuple[Floats, Floats]:
    """In a closed loop a slow trial has less throughput."""
    return -0.4 * latency + rng.normal(0, own, latency.shape), latency


def unequal(first: float, second: float) -> Noise:
    """The baseline and the lane with spreads of their own."""
    return lambda rng, shape: _little(rng, rng.normal(0, 1, shape) * np.array([first, second])[:, None])


def lane_blocks(rng: np.random.Generator, shape: Shape) -> tuple[Floats, Floats]:
    """Each lane has good and bad blocks: what all its rungs share."""
    return _little(rng, rng.normal(0, 0.05, shape) + rng.normal(0, 0.15, (shape[0], 2, 1)), 0.02)


def common_blocks(rng: np.random.Generator, shape: Shape) -> tuple[Floats, Floats]:
    """Good and bad blocks of both lanes: what pairing cancels."""
    return _little(rng, rng.normal(0, 0.05, shape) + rng.normal(0, 0.2, (shape[0], 1, 1)), 0.02)


def neighbours(rng: np.random.Generator, shape: Shape) -> tuple[Floats, Floats]:
    """Each rung of a block correlated 0.7 with the one below."""
    noise = rng.normal(0, 0.12, shape)
    for i in range(1, shape[2]):
        noise[..., i] = 0.7 * noise[..., i - 1] + math.sqrt(1 - 0.49) * noise[..., i]
    return _little(rng, noise)


def t3(rng: np.random.Generator, shape: Shape) -> tuple[Floats, Floats]:
    """Heavy tails: Student's t with 3 degrees of freedom."""
    return _little(rng, 0.08 * rng.standard_t(3, shape))


def stalls(*lanes: bool) -> Noise:
    """Some trials at half speed, in the ``lanes`` that have them."""

    def noise(rng: np.random.Generator, shape: Shape) -> tuple[Floats, Floats]:
        stalled = STALL * (rng.uniform(size=shape) < STALLED) * np.array(lanes)[:, None]
        return rng.normal(0, 0.02, shape) - stalled, rng.normal(0, 0.04, shape) + stalled

    return noise


@dataclass(frozen=True)
class Kind:
    """A noise, and what is promised under it."""

    noise: Noise
    means: tuple[float, float] = (0.0, 0.0)
    """The mean deviation of ln speed that it brings the baseline and the lane."""
    error: bool = True
    coverage: bool = True


NOISES: dict[str, Kind] = {
    "sd 5 %": Kind(alike(0.05)),
    "sd 10 %": Kind(alike(0.1)),
    "sd 20 %": Kind(alike(0.2)),
    "sd 30 %": Kind(alike(0.3)),
    "sd 20 % and 3 %": Kind(unequal(0.2, 0.03)),
    "sd 3 % and 20 %": Kind(unequal(0.03, 0.2)),
    "sd 10 % and 30 %": Kind(unequal(0.1, 0.3)),
    "blocks of a lane": Kind(lane_blocks),
    "blocks of both": Kind(common_blocks),
    "neighbours": Kind(neighbours),
    "t3": Kind(t3),
    "stalls in both": Kind(stalls(True, True), (-STALLED * STALL, -STALLED * STALL), coverage=False),
    "stalls in one": Kind(stalls(False, True), (0.0, -STALLED * STALL), error=False, coverage=False),
}


@dataclass
class Count:
    """What happened in the studies of one case, noise and number of blocks."""

    studies: int = 0
    error: int = 0
    covered: int = 0
    found: int = 0
    open: int = 0
    old_studies: int = 0
    old_error: int = 0
    widths: float = 0.0
    closed: int = 0


def measure(noise_name: str, blocks: int, studies: int, seed: int) -> dict[str, Count]:
    """By case."""
    kind, number_of = NOISES[noise_name], list(NOISES).index(noise_name)
    result = {}
    for number, case in enumerate(cases()):
        rng = np.random.default_rng((seed, number_of, blocks, number))
        count = result[case.name] = Count()
        # where stalls slow one lane the lanes are not the same: what counts is the difference that there is
        truths = [case.truth(np.array(kind.means[1] + speed), np.array(kind.means[0])) for speed in (0.0, FASTER)]
        for i in range(studies):
            dt, dl = kind.noise(rng, (blocks, 2, len(case.latency)))
            throughput, latency = case.throughput + dt, case.latency + dl
            base = case.crossing(throughput[:, 0], latency[:, 0])
            same = Ratio(case.crossing(throughput[:, 1], latency[:, 1]), base)
            faster = Ratio(case.crossing(throughput[:, 1] + FASTER, latency[:, 1] - FASTER), base)
            low, high = same.interval(ALPHA)
            count.studies += 1
            count.error += not low <= truths[0] <= high
            count.open += math.isinf(high - low)
            ends = faster.interval(ALPHA)
            count.covered += ends[0] <= truths[1] <= ends[1]
            count.found += faster.rejects(ALPHA)
            if i % 10 == 0:
                each = by_block(case, throughput, latency)
                count.old_studies += 1
                count.old_error += not each.interval(ALPHA)[0] <= truths[0] <= each.interval(ALPHA)[1]
                if math.isfinite(high - low):
                    count.closed += 1
                    count.widths += math.log((high - low) / 2 / each.half_width(ALPHA))
    return result


def by_block(case: Case, throughput: Floats, latency: Floats) -> Effect:
    """Before: log-ratios of crossings in single blocks."""
    values = [
        [case.crossing(t[None], x[None]).value for t, x in zip(throughput[:, lane], latency[:, lane], strict=True)]
        for lane in (1, 0)
    ]
    return Effect(tuple(a - b for a, b in zip(*values, strict=True)))


def beyond(share: float, target: float, studies: int) -> bool:
    """Whether ``share`` is above ``target`` by more than two standard errors."""
    return share - target > 2 * math.sqrt(max(share * (1 - share), 1e-9) / studies)


def show(noise: str, blocks: int, by_case: dict[str, Count]) -> Iterator[str]:
    """Prints one row; yields what was missed."""
    counts = by_case.values()
    studies = sum(c.studies for c in counts)

    def total(name: str, of: str = "studies") -> float:
        return float(sum(getattr(c, name) for c in counts) / max(1, sum(getattr(c, of) for c in counts)))

    worst = max(by_case, key=lambda name: by_case[name].error / by_case[name].studies)
    least = min(by_case, key=lambda name: by_case[name].covered / by_case[name].studies)
    error, error_worst = total("error"), by_case[worst].error / by_case[worst].studies
    missing_worst = 1 - by_case[least].covered / by_case[least].studies
    old = total("old_error", "old_studies")
    print(
        f"{noise:18} {blocks:3} {100 * error:7.1f} ({100 * error_worst:4.1f}) {100 * old:8.1f}"
        f" {100 * total('covered'):9.1f} ({100 - 100 * missing_worst:4.1f}) {100 * total('found'):7.0f}"
        f" {100 * total('open'):6.0f} {math.exp(total('widths', 'closed')):7.2f}"
    )
    promised = NOISES[noise]
    if promised.error and beyond(error, ERROR, studies):
        yield f"{noise}, {blocks} blocks: error {100 * error:.1f} % over all curves (target {100 * ERROR:.0f} %)"
    for name, c in by_case.items():
        where, wrong, held = f"{noise}, {blocks} blocks, {name}", c.error / c.studies, c.covered / c.studies
        if promised.error and beyond(wrong, WORST, c.studies):
            yield f"{where}: error {100 * wrong:.1f} % (target {100 * WORST:.0f} %)"
        if promised.coverage and beyond(1 - held, 1 - COVERAGE, c.studies):
            yield f"{where}: coverage {100 * held:.1f} % (target {100 * COVERAGE:.0f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer studies: under 30 s")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    studies = 40 if asked.quick else 500
    begun = time.monotonic()
    keys = [(noise, blocks) for noise in NOISES for blocks in BLOCKS]
    missed: list[str] = []
    print("per cent of simulated studies; the least favourable curve in brackets")
    print(f"{'noise':18} {'n':>3} {'error':>14} {'before':>8} {'coverage':>16} {'power':>7} {'open':>6} {'width':>7}")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        n = len(keys)
        rows = pool.map(measure, *zip(*keys, strict=True), [studies] * n, [asked.seed] * n)
        for (noise, blocks), by_case in zip(keys, rows, strict=True):
            missed += show(noise, blocks, by_case)
    print(f"\n{studies} studies a noise, number of blocks and curve ({len(cases())}); {time.monotonic() - begun:.0f} s")
    for line in missed:
        print(f"* missed: {line}")
    if not missed:
        print("Every target is met.")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
