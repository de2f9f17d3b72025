"""How often the judge is wrong, measured: false differences, intervals that miss, ties that are none.

    uv run python bench/calibration.py             some 5 minutes on 2 cores
    uv run python bench/calibration.py --quick     under a minute, figures to about +-5 %

Two lanes that are the same, or differ by a known factor, are simulated under five kinds of noise, in the order of the
product's own schedules, carried out by its open_cells and judged by its judge (Samples for lanes apart; winners). Both
lanes stall alike: bench/hostile.py has what hits one lane alone. Printed is the share of studies in per cent; a target
counts as missed where the share is beyond it by more than two standard errors of the simulation.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fairlane.records import Evidence, Observation, Verdict, Word
from fairlane.stats.answers import word
from fairlane.stats.anytime import half_width, mixture
from fairlane.stats.contests import Stage
from fairlane.stats.effects import Effect, Estimate
from fairlane.stats.judge import judge
from fairlane.stats.neighbours import alike
from fairlane.stats.samples import Samples
from fairlane.stats.stopping import open_cells
from fairlane.stats.winners import winners
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from fairlane.study.spec import Study

Floats = NDArray[np.float64]
Shape = tuple[int, int]

LOOKS = tuple(range(6, 21, 2))
"""The default plan of few cells."""
DESIGN = f"looks: {list(LOOKS)}"
ALPHA, MARGIN = 0.05, 0.05
MOST = 40
WIDTH = f"stop: {{width: 2%, least: 10, most: {MOST}}}"
SCHEDULES = 200
"""Different schedules that the studies use in turn."""
DIFFERENT: frozenset[Word] = frozenset({"faster", "slower", "different-but-small"})
TIES: frozenset[Word] = frozenset({"tie", "different-but-small"})


def normal(rng: np.random.Generator, shape: Shape) -> Floats:
    """Trials with a standard deviation of 3 %."""
    return rng.normal(0, 0.03, shape)


def t3(rng: np.random.Generator, shape: Shape) -> Floats:
    """Heavy tails: Student's t with 3 degrees of freedom."""
    return 0.02 * rng.standard_t(3, shape)


def stalls(rng: np.random.Generator, shape: Shape) -> Floats:
    """8 % of the trials at half speed."""
    return rng.normal(0, 0.02, shape) - 0.7 * (rng.uniform(size=shape) < 0.08)


def drift(rng: np.random.Generator, shape: Shape) -> Floats:
    """The array fills up: half of the throughput is gone at the end."""
    return rng.normal(0, 0.02, shape) + np.linspace(0, -0.7, shape[-1])


def lag1(rng: np.random.Generator, shape: Shape) -> Floats:
    """Each trial correlated 0.7 with the one before."""
    noise = rng.normal(0, 0.03, shape)
    for i in range(1, shape[-1]):
        noise[..., i] = 0.7 * noise[..., i - 1] + math.sqrt(1 - 0.49) * noise[..., i]
    return noise


Noise = Callable[[np.random.Generator, Shape], Floats]
NOISES: tuple[Noise, ...] = (normal, t3, stalls, drift, lag1)


@dataclass(frozen=True)
class Row:
    """One promise, measured under one noise."""

    name: str
    target: float | None
    """Share that must not be exceeded or, if ``least``, must be reached; None: told, not promised."""
    share: float
    studies: int
    least: bool = False

    @property
    def missed(self) -> bool:
        error = 2 * math.sqrt(max(self.share * (1 - self.share), 1e-9) / self.studies)
        beyond = 0.0 if self.target is None else (self.target - self.share if self.least else self.share - self.target)
        return beyond > error


@cache
def study(lanes: int, cells: int, design: str) -> Study:
    names = "".join(f"  lane-{i}: {{transport: local}}\n" for i in range(lanes))
    return parse_study(
        f"name: bench\nplatform: {{kind: fake}}\nbaseline: lane-0\nlanes:\n{names}workloads:\n"
        f"  main: {{kind: fio, iodepth: {list(range(1, cells + 1))}, runtime: 1s}}\ndesign: {{{design}}}\n",
        "bench",
    )


@cache
def _times(lanes: int, cells: int, blocks: int) -> NDArray[np.intp]:
    """When each trial runs, counted in trials, in several of the product's schedules: [schedule, cell, block, lane]."""
    asked = study(lanes, cells, f"looks: [{blocks}]")
    keys = {cell.key: i for i, cell in enumerate(asked.cells())}
    names = {lane: i for i, lane in enumerate(asked.lanes)}
    times = np.zeros((SCHEDULES, cells, blocks, lanes), dtype=np.intp)
    for seed in range(SCHEDULES):
        now = 0
        for block in schedule(asked, blocks, seed=seed):
            for lane in block.order:
                times[seed, keys[block.cell.key], block.index, names[lane]] = now
                now += 1
    return times


def figures(noise: Noise, rng: np.random.Generator, studies: int, *, lanes: int, cells: int, blocks: int) -> Floats:
    """ln(IOPS) of lanes without any difference: [study, cell, block, lane]."""
    times = _times(lanes, cells, blocks)
    logs = noise(rng, (studies, times[0].size))
    which = np.arange(studies) % SCHEDULES
    return logs[np.arange(studies)[:, None, None, None], times[which]]


def differences(noise: Noise, rng: np.random.Generator, studies: int, blocks: int, cells: int = 4) -> Iterator[Floats]:
    """Paired log-ratios of one cell of ``cells``, study by study."""
    batch = 2000
    for start in range(0, studies, batch):
        some = min(batch, studies - start)
        logs = figures(noise, rng, some, lanes=2, cells=cells, blocks=blocks)
        yield from logs[:, 0, :, 1] - logs[:, 0, :, 0]


def verdict(logs: Floats, design: str = DESIGN) -> Verdict:
    """Of one cell and rival with these log-ratios, carried out and judged as ``design`` has it."""
    asked = study(2, 1, design)
    made = carried_out(asked, np.stack([np.zeros_like(logs), logs], axis=1)[None])
    (judged,) = judge(made, ())
    return judged


def covers(judged: Verdict, truth: float) -> bool:
    """Whether the printed interval holds the true log-ratio."""
    return judged.low is not None and judged.high is not None and judged.low <= math.exp(truth) <= judged.high


def rejected(logs: Floats) -> bool:
    """Whether any look of the plan excludes no difference, if no tie ends the study before."""
    memories = ((n, alike(logs[:n].tolist())) for n in LOOKS)
    effects = (Effect(tuple(logs[:n].tolist()), factor=m.widening(n), share=m.share) for n, m in memories)
    return any(Stage(e, LOOKS, LOOKS[: k + 1]).rejects(ALPHA) for k, e in enumerate(effects))


def watched(logs: Floats) -> bool:
    """Whether the anytime-valid interval ever excludes no difference, looked at after every block."""
    g = mixture(ALPHA, LOOKS[-1])
    seen = (Effect(tuple(logs[:n].tolist())) for n in range(2, len(logs) + 1))
    return any(abs(effect.mean) > half_width(effect, ALPHA, g) for effect in seen)


def paired(noise: Noise, rng: np.random.Generator, studies: int) -> Iterator[Row]:
    """One comparison."""
    edge, tenth = math.log1p(MARGIN), math.log(1.1)
    count: dict[str, int] = {}

    def seen(name: str, *, yes: bool) -> None:
        count[name] = count.get(name, 0) + yes

    for logs in differences(noise, rng, studies, LOOKS[-1]):
        for n in (6, 10, 20):
            fixed = verdict(logs[:n], f"looks: [{n}]")
            seen(f"coverage, {n} blocks", yes=covers(fixed, 0))
            seen(f"A/A, {n} blocks", yes=fixed.verdict in DIFFERENT)
        ends = verdict(logs)
        seen("A/A, planned looks", yes=ends.verdict in DIFFERENT)
        seen("coverage where it stopped", yes=covers(ends, 0))
        seen("tie shown for equal lanes", yes=ends.verdict == "tie")
        seen("A/A, rejected at any look", yes=rejected(logs))
        seen("A/A, watched at every block", yes=watched(logs))
        seen("tie at the margin, 20 blocks", yes=verdict(logs + edge, "looks: [20]").verdict in TIES)
        seen("tie at the margin, planned looks", yes=verdict(logs + edge).verdict in TIES)
        ends = verdict(logs + tenth)
        seen("coverage where it stopped, +10 %", yes=covers(ends, tenth))
        seen("+10 % found", yes=ends.verdict == "faster")
    for name, n in count.items():
        least = name.startswith("coverage")
        told = "shown" in name or "found" in name
        yield Row(name, None if told else 0.94 if least else 0.05, n / studies, studies, least)
    some = max(1, studies // 4)
    ends_ = [verdict(logs, WIDTH) for logs in differences(noise, rng, some, MOST)]
    yield Row("A/A, stopped on width", 0.05, sum(v.verdict in DIFFERENT for v in ends_) / some, some)
    yield Row("coverage, stopped on width", 0.94, sum(covers(v, 0) for v in ends_) / some, some, least=True)
    alone = sum(verdict(logs).verdict in DIFFERENT for logs in differences(noise, rng, studies, 20, cells=1))
    yield Row("A/A, a study of one cell", 0.05, alone / studies, studies)


def said(effect: Estimate) -> Word:
    """The word of trials apart, judged once."""
    return word(effect.mean, effect.interval(ALPHA), effect.interval(2 * ALPHA), MARGIN, +1)


def unpaired(noise: Noise, rng: np.random.Generator, studies: int) -> Iterator[Row]:
    """Ten trials of a lane after ten of the other: Welch. Under drift and lag-1 noise no formula could be right."""
    logs = noise(rng, (studies, 20))
    apart = [Samples(tuple(x[:10].tolist()), tuple(x[10:].tolist())) for x in logs]
    target = None if noise in (drift, lag1) else 0.05
    wrong = sum(said(s) in DIFFERENT for s in apart)
    yield Row("A/A, one lane after the other", target, wrong / studies, studies)
    covered = sum(not s.rejects(ALPHA) for s in apart)
    yield Row("coverage, one lane after the other", target and 0.94, covered / studies, studies, least=True)


def evidence(asked: Study, logs: Floats, blocks: dict[str, int]) -> Evidence:
    """Logs [cell, block, lane] as the run of ``asked`` after so many blocks of each cell."""
    trials = [
        Observation(cell.key, b, lane, place, metrics={"iops": 1000 * math.exp(logs[c, b, place])})
        for c, cell in enumerate(asked.cells())
        for b in range(blocks[cell.key])
        for place, lane in enumerate(asked.lanes)
    ]
    return Evidence("bench", asked, "", 1, (), tuple(trials), {}, {})


def carried_out(asked: Study, logs: Floats) -> Evidence:
    """Cells that are decided at a look end there, as in the runner."""
    keys = [cell.key for cell in asked.cells()]
    blocks = dict.fromkeys(keys, 0)
    goes_on = frozenset(keys)
    for look, n in enumerate(asked.design.looks):
        blocks |= dict.fromkeys(goes_on, n)
        made = evidence(asked, logs, blocks)
        goes_on = open_cells(asked, made.observations, look)
        if not goes_on:
            break
    return made


def whole(noise: Noise, rng: np.random.Generator, studies: int) -> Iterator[Row]:
    """Four cells and three lanes, from the schedule to the verdicts."""
    asked = study(3, 4, DESIGN)
    any_ = missed = 0
    for logs in figures(noise, rng, studies, lanes=3, cells=4, blocks=LOOKS[-1]):
        made = carried_out(asked, logs)
        verdicts = judge(made, ())
        any_ += any(v.primary and v.verdict in DIFFERENT for v in verdicts)
        missed += "lane-0" in winners(made, verdicts)[0].out
    yield Row("A/A, any of 8 primaries (Holm)", 0.05, any_ / studies, studies)
    yield Row("a best of 3 lanes left out", 0.1, missed / studies, studies)


def measure(noise: Noise, studies: int, whole_studies: int, seed: int = 1) -> list[Row]:
    """All rows for one noise."""
    rng = np.random.default_rng((seed, NOISES.index(noise)))
    parts: Iterable[Iterator[Row]] = (
        paired(noise, rng, studies),
        unpaired(noise, rng, studies),
        whole(noise, rng, whole_studies),
    )
    return [row for part in parts for row in part]


def show(table: dict[str, list[Row]]) -> list[str]:
    """Prints the table; returns what was missed, as sentences."""
    names = list(table)
    print(f"{'per cent of simulated studies':38} {'target':>8}" + "".join(f"{name:>9}" for name in names))
    for rows in zip(*table.values(), strict=True):
        first = rows[0]
        target = next((r.target for r in rows if r.target is not None), None)
        asked = "" if target is None else f"{'>=' if first.least else '<='} {100 * target:.0f}"
        cells = "".join(f"{100 * row.share:8.1f}{'*' if row.missed else ' '}" for row in rows)
        print(f"{first.name:38} {asked:>8}{cells}".rstrip())
    return [
        f"{row.name}, {noise}: {100 * row.share:.1f} % (target {100 * (row.target or 0):.0f} %)"
        for noise, rows in table.items()
        for row in rows
        if row.missed
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 studies")
    parser.add_argument("--studies", type=int, default=1000, help="of one comparison, per noise")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    studies = 100 if asked.quick else asked.studies
    whole_studies = max(1, studies // 5)
    begun = time.monotonic()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        n = len(NOISES)
        rows = pool.map(measure, NOISES, [studies] * n, [whole_studies] * n, [asked.seed] * n)
        table = dict(zip((noise.__name__ for noise in NOISES), rows, strict=True))
    missed = show(table)
    print(f"\n{studies:,} studies of one comparison and {whole_studies:,} of eight, per noise; "
          f""
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    for line in missed:
        print(f"* missed: {line}")
    if not missed:
        print("Every target is met.")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
