"""What a decision costs: time under load until a verdict stands, against the ways of the published studies.

    uv run python bench/decision_cost.py             some 3 minutes
    uv run python bench/decision_cost.py --quick     under 20 s
    uv run python bench/decision_cost.py --log FILE  describe the noise of a real fio run (write_iops_log, 1 s)

Two lanes in one cell, the noise in one-second steps:

    ln IOPS(t) = effect + fast(t) + slow(t) + luck(trial)

fast and slow are Ornstein-Uhlenbeck processes (autocorrelated; sd and correlation time in the table of sites), luck is
what a trial draws at its start and no length averages out. Every method lives through the same noise. Each trial begins
with a ramp that is thrown away and counts as load.

* Fairlane: slots of 1 s ramp and 1 s trial, interleaved in balanced order, four cells with the same effect in random
  order, looks after 4, 6, ... 20 blocks; the product's own open_cells ends cells and its judge gives the words.
* 5 x 60 s: all trials of one lane, then all of the other; Welch's interval and the same words (a kindness: the studies
  show means).
* 1 x 300 s each, and the lane that is more than the margin ahead has won, as tables of single results are read.

Wrong: any difference where there is none (a small one, too) or the opposite one, and a tie (or "too small to matter")
at a difference of the margin or more. Printed are the ratio of the loads, and that of the loads per *right* decision
(load / share of studies that decided rightly), because what stays undecided has to be done again. A method that errs in
more than the 5 % that Fairlane promises has no such price: no number of its decisions is worth as much. It then says
how often it errs.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from calibration import evidence, study  # type: ignore[import-not-found] # beside this file
from numpy.typing import NDArray
from scipy.signal import lfilter

from fairlane.records import Word
from fairlane.stats.answers import word
from fairlane.stats.judge import judge
from fairlane.stats.samples import Samples
from fairlane.stats.stopping import open_cells

Floats = NDArray[np.float64]

LOOKS, ALPHA, MARGIN = tuple(range(4, 21, 2)), 0.05, 0.05
EFFECTS = (0.0, 0.05, 0.10, 0.20)
"""True relative differences: none, the margin, twice and four times the margin."""
RAMP, CELLS = 2, 4
"""Seconds of the others' ramps; cells of Fairlane's study."""
SLOT = (1, 1)
"""Seconds of Fairlane's ramp and trial."""
WANTED = 10.0


@dataclass(frozen=True)
class Site:
    """Where the lanes run; standard deviations of ln IOPS, correlation times in seconds."""

    name: str
    fast: float
    fast_time: float
    slow: float
    slow_time: float
    luck: float

    def noise(self, rng: np.random.Generator, studies: int, seconds: int) -> Floats:
        """[study, second]"""
        return _process(rng, studies, seconds, self.fast, self.fast_time) + _process(
            rng, studies, seconds, self.slow, self.slow_time
        )


SITES = (
    # A dedicated array: 1 % between runs. Assumed.
    Site("steady", 0.04, 3, 0.01, 600, 0.003),
    # Runs of ten differ by 10 % from worst to best (sd 3 %): so much or more in over a quarter of the configurations
    # of Cao et al., "On the Performance Variation in Modern Storage Stacks", FAST 2017. The fast part is assumed.
    Site("varied", 0.08, 5, 0.03, 600, 0.01),
    # Fitted to bench/data/iops_per_second.txt, a real fio run on a shared machine (see --log).
    Site("shared machine", 0.235, 7.5, 0.06, 200, 0.0),
)


def _process(rng: np.random.Generator, studies: int, seconds: int, sd: float, time: float) -> Floats:
    """An Ornstein-Uhlenbeck process in steps of a second, stationary from the start."""
    keep = math.exp(-1 / time)
    drive = rng.normal(0, sd * math.sqrt(1 - keep * keep), (studies, seconds))
    first = rng.normal(0, sd, (studies, 1)) * keep
    found: Floats = lfilter([1.0], [1.0, -keep], drive, axis=1, zi=first)[0]
    return found


@dataclass(frozen=True)
class Outcome:
    """What a method made of one study."""

    said: Word
    load: float
    """Seconds, ramps included."""
    estimate: float


def trials(
    noise: Floats, site: Site, rng: np.random.Generator, slot: tuple[int, int], slots: NDArray[np.intp]
) -> Floats:
    """Mean ln IOPS of the trials in ``slots``: ramps and seconds of load, one after the other."""
    ramp, seconds = slot
    begins = slots * (ramp + seconds) + ramp
    sums = np.concatenate([[0.0], np.cumsum(noise)])
    means: Floats = (sums[begins + seconds] - sums[begins]) / seconds
    return means + rng.normal(0, site.luck, slots.shape)


def fairlane(
    noise: Floats, site: Site, rng: np.random.Generator, effect: float, slot: tuple[int, int]
) -> list[Outcome]:
    """One study of ``CELLS`` cells; cells that are decided make room for the others."""
    planned = study(2, CELLS, f"looks: {list(LOOKS)}")
    keys = [cell.key for cell in planned.cells()]
    logs = np.zeros((CELLS, LOOKS[-1], 2))
    blocks, now, before, goes_on = dict.fromkeys(keys, 0), 0, 0, frozenset(keys)
    for look, n in enumerate(LOOKS):
        cells = [i for i, key in enumerate(keys) if key in goes_on]
        turns = [(i, b) for b in range(before, n) for i in rng.permutation(cells)]
        figures = trials(noise, site, rng, slot, now + np.arange(2 * len(turns))).reshape(-1, 2)
        coin = {i: rng.integers(2) for i in cells}
        for (i, b), (first, second) in zip(turns, figures, strict=True):
            lane = (coin[i] + b) % 2  # AB and BA once in every two blocks
            logs[i, b, lane], logs[i, b, 1 - lane] = first, second
        logs[cells, before:n, 1] += effect
        now, before = now + 2 * len(turns), n
        blocks |= dict.fromkeys(goes_on, n)
        made = evidence(planned, logs, blocks)
        goes_on = open_cells(planned, made.observations, look)
        if not goes_on:
            break
    return [Outcome(v.verdict, 2 * v.blocks * sum(slot), math.log(v.ratio or 1)) for v in judge(made, ()) if v.primary]


def five_by_sixty(noise: Floats, site: Site, rng: np.random.Generator, effect: float, _: object) -> list[Outcome]:
    figures = trials(noise, site, rng, (RAMP, 60), np.arange(10))
    apart = Samples(tuple((figures[5:] + effect).tolist()), tuple(figures[:5].tolist()))
    said = word(apart.mean, apart.interval(ALPHA), apart.interval(2 * ALPHA), MARGIN, +1)
    return [Outcome(said, 10 * (RAMP + 60), apart.mean)]


def one_by_300(noise: Floats, site: Site, rng: np.random.Generator, effect: float, _: object) -> list[Outcome]:
    base, lane = trials(noise, site, rng, (RAMP, 300), np.arange(2))
    ahead = lane + effect - base
    edge = math.log1p(MARGIN)
    said: Word = "faster" if ahead > edge else "slower" if ahead < -edge else "tie"
    return [Outcome(said, 2 * (RAMP + 300), ahead)]


METHODS = {"Fairlane": fairlane, "5 x 60 s": five_by_sixty, "1 x 300 s": one_by_300}


def wrong(said: Word, effect: float) -> bool:
    if not effect:
        return said in {"faster", "slower", "different-but-small"}
    return said in {"slower", "tie", "different-but-small"}


@dataclass(frozen=True)
class Row:
    """A method at one site and true effect, over all studies."""

    method: str
    wrong: float
    undecided: float
    load: float
    error: float
    """Root mean square error of the estimated difference."""

    studies: int

    @property
    def errs(self) -> bool:
        """More often than promised, beyond two standard errors of the simulation."""
        return self.wrong > ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / self.studies)

    @property
    def cost(self) -> float:
        """Seconds under load per right decision; inf: it makes hardly any, or errs too often for it to be one."""
        right = 1 - self.wrong - self.undecided
        return self.load / right if right > 0.01 and not self.errs else math.inf


def longest(slot: tuple[int, int]) -> int:
    """Seconds that the longest of the methods takes, all of Fairlane's cells included."""
    return max(10 * (RAMP + 60), 2 * (RAMP + 300), 2 * CELLS * LOOKS[-1] * sum(slot))


def measure(
    site: Site,
    effect: float,
    studies: int,
    *,
    methods: Sequence[str] = tuple(METHODS),
    slot: tuple[int, int] = SLOT,
    seed: int = 1,
) -> list[Row]:
    """``methods`` through the same noise; ``effect`` is the true relative difference."""
    rng = np.random.default_rng((seed, SITES.index(site), int(1e4 * effect)))
    truth = math.log1p(effect)
    found: dict[str, list[Outcome]] = {name: [] for name in methods}
    for start in range(0, studies, 500):
        for line in site.noise(rng, min(500, studies - start), longest(slot)):
            for name in methods:
                found[name] += METHODS[name](line, site, rng, truth, slot)
    return [
        Row(
            name,
            float(np.mean([wrong(o.said, effect) for o in seen])),
            float(np.mean([o.said == "inconclusive" for o in seen])),
            float(np.mean([o.load for o in seen])),
            math.sqrt(float(np.mean([(o.estimate - truth) ** 2 for o in seen]))),
            len(seen),
        )
        for name, seen in found.items()
    ]


@dataclass(frozen=True)
class Ratio:
    """Fairlane against another method."""

    where: str
    load: float
    cost: float
    """inf: the other one has no price; nan: neither has."""
    told: str
    ours_errs: bool


def _ratio(where: str, ours: Row, other: Row) -> Ratio:
    cost = math.nan if math.isinf(ours.cost) else other.cost / ours.cost
    if other.errs:
        told = f"errs {other.wrong:.0%}"
    else:
        told = f"{cost:.1f}" if math.isfinite(cost) else "neither decides" if math.isnan(cost) else "never decides"
    return Ratio(where, other.load / ours.load, cost, told, ours.errs)


def compare(studies: int, seed: int) -> Iterator[Ratio]:
    """Prints a block per site and gives every ratio."""
    for site in SITES:
        print(
            f"\n{site.name}: fast {site.fast:.1%} over {site.fast_time:g} s, slow {site.slow:.1%} over "
            f"{site.slow_time:g} s, luck {site.luck:.1%}"
        )
        print(f"{'':18} {'wrong':>7} {'undecided':>10} {'load':>7} {'estimate':>9}  ratio: load  per right decision")
        for effect in EFFECTS:
            print(f"true difference {effect:.0%}")
            ours, *theirs = measure(site, effect, studies, seed=seed)
            print(_line(ours))
            for row in theirs:
                ratio = _ratio(f"{site.name}, {effect:.0%}, against {row.method}", ours, row)
                print(f"{_line(row)} {ratio.load:12.1f} {ratio.told:>19}")
                yield ratio


def _line(row: Row) -> str:
    told = f"{row.wrong:7.1%} {row.undecided:10.1%} {row.load:5.0f} s +-{row.error:6.2%}"
    return f"  {row.method:16} {told}" + (" (!)" if row.errs and row.method == "Fairlane" else "")


def lengths(studies: int, seed: int) -> None:
    """How long a slot should be: Fairlane's load per right decision."""
    tried = ((1, 1), (1, 2), (2, 2), (2, 5), (2, 10), (2, 60))
    print("\nseconds under load per right decision, by Fairlane's slots (ramp + trial)")
    print(f"{'seconds':24}" + "".join(f"{f'{ramp}+{length}':>8}" for ramp, length in tried))
    for site in SITES:
        for effect in (0.0, 0.10):
            rows = [measure(site, effect, studies, methods=("Fairlane",), slot=s, seed=seed)[0] for s in tried]
            print(f"{site.name + f', {effect:.0%}':24}" + "".join(f"{row.cost:8.0f}" for row in rows))


def describe(path: Path) -> None:
    """sd, autocorrelation and spread of longer means of a series of IOPS per second."""
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    values = [float(line.split(",")[1 if "," in line else 0]) for line in lines]
    logs = np.log(np.array(values))
    logs -= logs.mean()
    print(f"{path.name}: {len(logs)} s, sd of ln IOPS {logs.std():.1%}")
    for k in (1, 2, 5, 10, 20, 30, 60):
        if len(logs) >= 4 * k:
            means = logs[: len(logs) // k * k].reshape(-1, k).mean(axis=1)
            print(f"  lag {k:3} s: autocorrelation {logs[k:] @ logs[:-k] / (logs @ logs):+.2f}; "
                  f"means of {k:3} s: sd {means.std(ddof=1):.1%}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 studies")
    parser.add_argument("--studies", type=int, default=200, help="per site and difference, of four cells each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="describe this log of IOPS per second, and nothing else")
    asked = parser.parse_args()
    if asked.log:
        describe(asked.log)
        return
    studies = 40 if asked.quick else asked.studies
    found = list(compare(studies, asked.seed))
    if not asked.quick:
        lengths(studies // 4, asked.seed)
    priced = [r for r in found if math.isfinite(r.cost)]
    erring = [r for r in found if r.told.startswith("errs")]
    print(f"\n{studies:,} studies of {CELLS} cells each. Target: {WANTED:g} times less load at equal or lower error.")
    _sum("load, all cases", [r.load for r in found])
    _sum("load per right decision, where the other method errs in 5 % at most", [r.cost for r in priced])
    _sum("load, where it errs in more", [r.load for r in erring])
    missed = [r for r in found if r.ours_errs or not (r.cost if r in priced else r.load) >= WANTED]
    for r in missed:
        print(f"* missed: {r.where}: load {r.load:.1f} times, per right decision: {r.told}")
    sys.exit(1 if missed else 0)


def _sum(name: str, ratios: Sequence[float]) -> None:
    reached = sum(ratio >= WANTED for ratio in ratios)
    print(f"{name}: {min(ratios):.1f} to {max(ratios):.1f} times less; {reached} of {len(ratios)} cases reach it")


if __name__ == "__main__":
    main()
