"""What a hostile reviewer simulates: each case with its error, its target and the power that is left.

    uv run python bench/hostile.py             some 5 minutes on 2 cores
    uv run python bench/hostile.py --quick     under a minute, figures to about +-5 %

Studies are simulated trial by trial, in the order of the product's own schedules, carried out look by look with the
product's open_cells and judged by its judge and its gate. Lanes are equal unless the case says otherwise; the margin is
5 %. A target counts as missed where the share is beyond it by more than two standard errors of the simulation.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from calibration import DIFFERENT, SCHEDULES, Floats, Row, evidence, figures, study  # type: ignore[import-not-found] # beside it
from numpy.typing import NDArray

from fairlane.gate.decide import decide
from fairlane.gate.grammar import parse
from fairlane.records import Evidence, Observation, Verdict
from fairlane.stats.judge import judge
from fairlane.stats.stopping import open_cells
from fairlane.study.spec import Study

LOOKS = tuple(range(4, 21, 2))
TIES = ("tie", "different-but-small")

Failed = NDArray[np.bool_]


@dataclass(frozen=True)
class Simulated:
    """One study's trials."""

    logs: Floats
    """ln(IOPS): [cell, block, lane]"""
    failed: Failed | None = None


Draw = Callable[[np.random.Generator], Simulated]


def planned(cells: int) -> Study:
    """Two lanes, the default looks; few cells begin at six blocks, as by default."""
    made: Study = study(2, cells, f"looks: {list(LOOKS if cells >= 6 else LOOKS[1:])}")
    return made


def carried_out(asked: Study, made: Simulated) -> Evidence:
    """The run's evidence, with cells ended at the looks."""
    keys = [cell.key for cell in asked.cells()]
    blocks = dict.fromkeys(keys, 0)
    goes_on = frozenset(keys)
    run: Evidence = evidence(asked, made.logs, blocks)
    for look, n in enumerate(asked.design.looks):
        blocks |= dict.fromkeys(goes_on, n)
        run = with_failures(evidence(asked, made.logs, blocks), asked, made)
        goes_on = open_cells(asked, run.observations, look)
        if not goes_on:
            break
    return run


def with_failures(run: Evidence, asked: Study, made: Simulated) -> Evidence:
    if made.failed is None:
        return run
    place = {cell.key: i for i, cell in enumerate(asked.cells())}
    lanes = {lane: i for i, lane in enumerate(asked.lanes)}
    failed = made.failed

    def trial(o: Observation) -> Observation:
        return replace(o, failed="timeout", metrics={}) if failed[place[o.cell], o.block, lanes[o.lane]] else o

    return replace(run, observations=tuple(trial(o) for o in run.observations))


def verdicts(
    cells: int, draw: Draw, rng: np.random.Generator, studies: int, asked: Study | None = None
) -> Iterator[list[Verdict]]:
    """The primary verdicts, study by study."""
    asked = asked or planned(cells)
    for _ in range(studies):
        yield [v for v in judge(carried_out(asked, draw(rng)), ()) if v.primary]


def alike(cells: int, sd: float, effect: float = 0.0) -> Draw:
    """Normal trials; log-ratios with this standard deviation."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = rng.normal(0, sd / math.sqrt(2), (cells, LOOKS[-1], 2))
        logs[:, :, 1] += effect
        return Simulated(logs)

    return draw


def stalling(cells: int, share: float, speed: float, failing: float = 0.0) -> Draw:
    """One lane has trials at ``speed``, some of which fail; the others of both lanes have an sd of 1 %."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = rng.normal(0, 0.01, (cells, LOOKS[-1], 2))
        stalls = rng.random((cells, LOOKS[-1])) < share
        logs[:, :, 1] += math.log(speed) * stalls
        failed = np.zeros(logs.shape, bool)
        failed[:, :, 1] = stalls & (rng.random(stalls.shape) < failing)
        return Simulated(logs, failed)

    return draw


def selecting(cells: int, share: float, speed: float) -> Draw:
    """This share of one lane's trials would run at ``speed``, and these fail; of the other as many fail by chance."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = rng.normal(0, 0.01, (cells, LOOKS[-1], 2))
        failed = rng.random(logs.shape) < share
        return Simulated(logs - share * math.log(speed) * np.array([0.0, speed > 1.0]), failed)

    return draw


def failing(cells: int, effect: float, share: float = 0.0, *, once: bool = False) -> Draw:
    """Failures that have nothing to do with the figures, whose log-ratios have an sd of 3 %: this share of both lanes'
    trials, or ``once`` in one lane."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = alike(cells, 0.03, math.log1p(effect))(rng).logs
        failed = rng.random(logs.shape) < share
        if once:
            failed[np.arange(cells), rng.integers(0, 6, cells), 1] = True
        return Simulated(logs, failed)

    return draw


def bursts(cells: int, share: float, length: int = 3) -> Draw:
    """Trials of one lane at half speed, so many blocks in a row."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = rng.normal(0, 0.01, (cells, LOOKS[-1], 2))
        starts = rng.random((cells, LOOKS[-1] + length - 1)) < 1 - (1 - share) ** (1 / length)
        stalls = np.any([starts[:, k : k + LOOKS[-1]] for k in range(length)], axis=0)
        logs[:, :, 1] += math.log(0.5) * stalls
        return Simulated(logs)

    return draw


def skewed(cells: int) -> Draw:
    """One lane with exponential noise of 3 %, the other with a normal one of 1 %."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = rng.normal(0, 0.01, (cells, LOOKS[-1], 2))
        logs[:, :, 1] = 0.03 * (rng.exponential(1, (cells, LOOKS[-1])) - 1)
        return Simulated(logs)

    return draw


def slow_lane(cells: int, rho: float, sd: float = 0.03) -> Draw:
    """Log-ratios that follow a first-order autoregression, each cell its own: one lane drifts."""

    def draw(rng: np.random.Generator) -> Simulated:
        d = rng.normal(0, sd, (cells, LOOKS[-1]))
        for i in range(1, LOOKS[-1]):
            d[:, i] = rho * d[:, i - 1] + math.sqrt(1 - rho**2) * d[:, i]
        return Simulated(np.stack([np.zeros_like(d), d], axis=2))

    return draw


def beneath(cells: int, rho: float) -> Draw:
    """The same beneath as much noise that does not last."""

    def draw(rng: np.random.Generator) -> Simulated:
        return Simulated(slow_lane(cells, rho)(rng).logs + alike(cells, 0.03)(rng).logs)

    return draw


def warming(cells: int, start: float, blocks: float, sd: float = 0.02) -> Draw:
    """One lane begins ``start`` off, in all cells, and comes back with a time constant of so many blocks."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = alike(cells, sd)(rng).logs
        logs[:, :, 1] += start * np.exp(-np.arange(LOOKS[-1]) / blocks)
        return Simulated(logs)

    return draw


def one_noisy(cells: int) -> Draw:
    """One cell with an sd of 8 %, the others of 1 %."""

    def draw(rng: np.random.Generator) -> Simulated:
        logs = alike(cells, 0.01)(rng).logs
        logs[0] *= 8
        return Simulated(logs)

    return draw


def periodic(period: float, cells: int = 1) -> Draw:
    """A neighbour's load on the array that comes and goes; one cell, so that its trials lie side by side."""

    def noise(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        time = np.arange(shape[1]) + rng.random((shape[0], 1)) * period
        wave: Floats = rng.normal(0, 0.01, shape) + 0.05 * np.sin(2 * np.pi * time / period)
        return wave

    made: list[Floats] = []

    def draw(rng: np.random.Generator) -> Simulated:
        if not made:  # one study for each of many schedules
            made.extend(figures(noise, rng, SCHEDULES, lanes=2, cells=cells, blocks=LOOKS[-1]))
        return Simulated(made.pop())

    return draw


def two_states(cells: int) -> Draw:
    """Each trial of either lane draws one of two speeds, 5 % apart."""

    def draw(rng: np.random.Generator) -> Simulated:
        shape = (cells, LOOKS[-1], 2)
        return Simulated(math.log(1.05) * (rng.random(shape) < 0.5) + rng.normal(0, 0.002, shape))

    return draw


def placed(cells: int, each: int, effect: float = 0.0) -> Draw:
    """Volumes that lie well or badly: 3 % a lane, the same in all cells, in each provisioning of so many blocks; trials
    have 1 %."""

    def draw(rng: np.random.Generator) -> Simulated:
        lies = rng.normal(0, 0.03, (1, math.ceil(LOOKS[-1] / each), 2)).repeat(each, axis=1)[:, : LOOKS[-1]]
        logs = lies + rng.normal(0, 0.01, (cells, LOOKS[-1], 2))
        logs[:, :, 1] += effect
        return Simulated(logs)

    return draw


def shifted(draw: Draw, effect: float = 0.10) -> Draw:
    """The same, with a lane that is faster."""

    def moved(rng: np.random.Generator) -> Simulated:
        made = draw(rng)
        made.logs[:, :, 1] += math.log1p(effect)
        return made

    return moved


def share_of(test: Callable[[Verdict], bool], cells: int, draw: Draw, rng: np.random.Generator, studies: int) -> float:
    made = [test(v) for study_ in verdicts(cells, draw, rng, studies) for v in study_]
    return sum(made) / len(made)


def any_of(test: Callable[[Verdict], bool], cells: int, draw: Draw, rng: np.random.Generator, studies: int) -> float:
    return sum(any(map(test, study_)) for study_ in verdicts(cells, draw, rng, studies)) / studies


def different(v: Verdict) -> bool:
    return v.verdict in DIFFERENT


def faster(v: Verdict) -> bool:
    return v.verdict == "faster"


def tied(v: Verdict) -> bool:
    return v.verdict in TIES


def covers(truth: float) -> Callable[[Verdict], bool]:
    return lambda v: v.low is not None and v.high is not None and v.low <= 1 + truth <= v.high


def passes(rule: str, effect: float, rng: np.random.Generator, studies: int, cells: int = 24) -> tuple[float, float]:
    """Shares of studies in which a rule is met in all cells, and of cells in which it is; 20 blocks, sd 3 %."""
    asked = study(2, cells, "looks: [20]")
    keys = {cell.key: 20 for cell in asked.cells()}
    met = [
        [
            o.word == "met"
            for o in decide([parse(rule)], evidence(asked, alike(cells, 0.03, effect)(rng).logs, keys), _none)
        ]
        for _ in range(studies)
    ]
    return sum(map(all, met)) / studies, sum(map(sum, met)) / (studies * cells)


def _none(_: Evidence) -> tuple[()]:
    return ()


def ties(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    calm = [v for made in verdicts(1, alike(1, 0.01), rng, studies) for v in made]
    early = sum(tied(v) and v.blocks <= 10 for v in calm)
    yield Row("tie within 10 blocks, sd 1 %", 0.80, early / studies, studies, least=True)
    spoiled = [v for made in verdicts(1, stalling(1, 0.08, 0.5), rng, studies) for v in made if tied(v)]
    yield Row("tie, 8 % of one lane's trials at half speed", None, len(spoiled) / studies, studies)
    too_sure = sum((v.unseen or 1.0) < 0.08 for v in spoiled)
    yield Row("... whose printed bound is below 8 %", 0.05, too_sure / max(1, len(spoiled)), max(1, len(spoiled)))
    share = share_of(tied, 1, stalling(1, 0.04, 0.2), rng, studies)
    yield Row("tie, 4 % of one lane's trials at a fifth", None, share, studies)
    share = share_of(tied, 1, alike(1, 0.01, math.log1p(0.05)), rng, studies)
    yield Row("tie at the margin, sd 1 %", 0.05, share, studies)


def failures(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    made = [v for one in verdicts(1, stalling(1, 0.30, 0.5, 0.8), rng, studies) for v in one]
    yield Row("tie, 30 % stall and 80 % of those fail", 0.05, sum(map(tied, made)) / studies, studies)
    wrong = sum(v.headline and v.verdict != "slower" for v in made)
    yield Row("... a headline, and not of the slower lane", 0.05, wrong / studies, studies)
    yield Row("... called slower", None, sum(v.verdict == "slower" for v in made) / studies, studies)
    for cells in (1, 8):
        some = max(40, studies // cells)
        made = [v for one in verdicts(cells, selecting(cells, 0.25, 0.5), rng, some) for v in one]
        yield Row(
            f"a lane's slow quarter fails, of the other any (-16 %), {cells}: tie",
            0.05,
            sum(map(tied, made)) / len(made),
            len(made),
        )
        some_different = [any(map(different, one)) for one in verdicts(cells, selecting(cells, 0.25, 2), rng, some)]
        yield Row(
            f"a lane's fast quarter fails (0 %), any of {cells}: different", 0.05, sum(some_different) / some, some
        )
        for effect in (0.10, 0.0):
            made = [v for one in verdicts(cells, failing(cells, effect, 0.03), rng, some) for v in one]
            word = faster if effect else tied
            yield Row(
                f"3 % of both fail by chance, {cells}: {'+10 % is faster' if effect else 'equal lanes tie'}",
                None, sum(map(word, made)) / len(made), len(made),
            )  # fmt: skip
        for effect in (1.0, 0.2, 0.10):
            made = [v for one in verdicts(cells, failing(cells, effect, once=True), rng, some) for v in one]
            yield Row(
                f"one trial of one lane fails, {cells}: {effect:+.0%} is faster", None,
                sum(map(faster, made)) / len(made), len(made),
            )  # fmt: skip


def uneven(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    """Stalls that come in bursts, and noise with a tail."""
    for cells in (1, 8):
        made = [v for one in verdicts(cells, bursts(cells, 0.30), rng, max(40, studies // cells)) for v in one]
        name = f"tie, 30 % of one lane's trials stall, three in a row, {cells}"
        yield Row(name, None, sum(map(tied, made)) / len(made), len(made))
        too_sure = sum(tied(v) and (v.unseen or 1.0) < 0.30 for v in made)
        yield Row("... whose printed bound is below 30 %", 0.05, too_sure / len(made), len(made))
    for cells in (1, 8, 24):
        some = max(100, studies // cells)
        yield Row(
            f"A/A, any of {cells}, one lane exponential", 0.05, any_of(different, cells, skewed(cells), rng, some), some
        )
        found = share_of(faster, cells, shifted(skewed(cells)), rng, max(20, some // 4))
        yield Row("... +10 % is faster", None, found, max(20, some // 4) * cells)


def unsettled(name: str, asked: Study, draw: Draw, rng: np.random.Generator, studies: int) -> Iterator[Row]:
    """Studies without a difference, of one case: false headlines; what is withheld; the power that is left."""
    cells = len(asked.cells())
    some = max(40, studies // math.isqrt(cells))
    made = list(verdicts(cells, draw, rng, some, asked))
    false = sum(any(v.headline and different(v) for v in study_) for study_ in made) / some
    yield Row(f"A/A, {name}, any of {cells}: a headline", 0.05, false, some)
    held = sum(v.held in ("moving", "alike-blocks") for study_ in made for v in study_)
    yield Row("... share of cells that are withheld", None, held / (cells * some), cells * some)
    moved = [v for study_ in verdicts(cells, shifted(draw), rng, some, asked) for v in study_]
    right = sum(v.headline and faster(v) for v in moved) / len(moved)
    yield Row("... +10 % is faster, a headline", None, right, len(moved))


def calm(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    """What the rules on blocks that are not independent cost where nothing is wrong."""
    for cells in (1, 8):
        for sd in (0.02, 0.05):
            some = max(40, studies // math.isqrt(cells))
            equal = [v for m in verdicts(cells, alike(cells, sd), rng, some) for v in m]
            right = sum(v.headline and tied(v) for v in equal) / len(equal)
            yield Row(f"equal lanes tie, a headline, {cells} cells, sd {sd:.0%}", None, right, len(equal))
            false = sum(v.headline and different(v) for v in equal) / len(equal)
            yield Row("... called different", 0.05, false, len(equal))
            apart = [v for m in verdicts(cells, alike(cells, sd, math.log1p(0.1)), rng, some) for v in m]
            found = sum(v.headline and faster(v) for v in apart) / len(apart)
            yield Row("... +10 % is faster, a headline", None, found, len(apart))
            yield Row(
                "... and its blocks, in hundreds", None, sum(v.blocks for v in apart) / len(apart) / 100, len(apart)
            )


def moving(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    for cells in (1, 8):
        for start, blocks in ((-0.06, 4), (-0.15, 4), (-0.06, 10)):
            name = f"{start:.0%} gone in {blocks} blocks"
            yield from unsettled(name, planned(cells), warming(cells, start, blocks), rng, studies)


def remembering(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    for cells, rho in ((1, 0.6), (8, 0.6), (24, 0.6), (8, 0.3)):
        yield from unsettled(f"AR {rho:g}", planned(cells), slow_lane(cells, rho), rng, studies)
    for cells, rho in ((1, 0.8), (8, 0.6), (8, 0.8), (24, 0.8)):
        yield from unsettled(f"AR {rho:g} beneath noise", planned(cells), beneath(cells, rho), rng, studies)


def few(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    """Cells that lend their spread after two or three blocks."""
    for n in (2, 3):
        asked: Study = study(2, 8, f"looks: [{n}]")
        yield from unsettled(f"looks [{n}], one cell of sd 8 %", asked, one_noisy(8), rng, studies)


def dependence(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    drifting = [v for made in verdicts(1, slow_lane(1, 0.8), rng, studies) for v in made]
    headlines = sum(v.headline and different(v) for v in drifting)
    yield Row("A/A, one lane drifts (AR 0.8): a headline", 0.10, headlines / studies, studies)
    yield Row("... called different", None, sum(map(different, drifting)) / studies, studies)
    share = share_of(faster, 1, shifted(slow_lane(1, 0.8)), rng, studies)
    yield Row("+10 % is faster, one lane drifts", None, share, studies)
    for period in (3, 3.7, 4, 5):
        share = share_of(different, 1, periodic(period), rng, studies)
        yield Row(f"A/A, load with a period of {period:g} trials, one cell", 0.075, share, studies)
    share = share_of(faster, 1, shifted(periodic(4)), rng, studies)
    yield Row("+10 % is faster, load with a period of 4 trials", None, share, studies)
    for cells in (1, 8, 16):
        some = max(60, studies // cells)
        share = any_of(different, cells, two_states(cells), rng, some)
        yield Row(f"A/A, any of {cells}, trials of two states", 0.05, share, some)
    share = share_of(faster, 8, shifted(two_states(8)), rng, studies // 8)
    yield Row("+10 % is faster, 8 cells, trials of two states", None, share, studies // 8 * 8)


def provisionings(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    once = [v for made in verdicts(1, placed(1, LOOKS[-1]), rng, studies) for v in made]
    yield Row("A/A, placement 3 %, made once", None, sum(map(different, once)) / studies, studies)
    for times in (2, 3, 4, 5):
        anew: Study = study(2, 8, f"provisionings: {times}")
        each = anew.design.blocks_per_unit
        yield from unsettled(f"placement 3 %, made {times} times", anew, placed(8, each), rng, studies)
    for cells in (1, 8):
        some = max(40, studies // cells)
        anew = study(2, cells, "provisionings: 6")
        made = list(verdicts(cells, placed(cells, 2), rng, some, anew))
        yield Row(f"A/A, any of {cells}, made 6 times", 0.05, sum(any(map(different, m)) for m in made) / some, some)
        for effect in (0.0, 0.10):
            made = list(verdicts(cells, placed(cells, 2, math.log1p(effect)), rng, some, anew))
            covered = sum(covers(effect)(v) for m in made for v in m) / (some * cells)
            yield Row(
                f"printed interval covers {effect:+.0%}, {cells} cells, 6 times",
                0.94,
                covered,
                some * cells,
                least=True,
            )
        found = sum(map(faster, (v for m in made for v in m))) / (some * cells)
        yield Row(f"+10 % is faster, {cells} cells, made 6 times", None, found, some * cells)


def gate(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    some, edge = max(20, studies // 10), math.log1p(0.05)
    for rule, limit in (("within 5 % of", -edge), ("<= 5 % under", math.log(0.95))):
        whole, _ = passes(f"lane-1 {rule} lane-0", 0.0, rng, some)
        yield Row(f"24 equal cells pass a gate, {rule}", 0.95, whole, some, least=True)
        _, one = passes(f"lane-1 {rule} lane-0", limit, rng, some)
        yield Row(f"a cell at the limit passes, {rule}", 0.05, one, 24 * some)


Case = Callable[[np.random.Generator, int], Iterator[Row]]


def rows(case: Case, studies: int, seed: int) -> list[Row]:
    return list(case(np.random.default_rng((seed, *case.__name__.encode())), studies))


def main(description: str, all_cases: Sequence[Case]) -> None:
    """Run the cases that the command line names, and print their rows."""
    by_name = {case.__name__: case for case in all_cases}
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="150 studies")
    parser.add_argument("--studies", type=int, default=1000, help="of one comparison, per row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("cases", nargs="*", help=f"only these: {', '.join(by_name)}")
    asked = parser.parse_args()
    cases = [by_name[name] for name in asked.cases or by_name]
    studies = 150 if asked.quick else asked.studies
    missed = False
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for made in pool.map(rows, cases, [studies] * len(cases), [asked.seed] * len(cases)):
            for row in made:
                target = "" if row.target is None else f"{'>=' if row.least else '<='} {100 * row.target:.0f}"
                print(f"{row.name:58} {target:>6} {100 * row.share:6.1f}{'*' if row.missed else ''}", flush=True)
                missed |= row.missed
    print(
        f"\nper cent; {studies:,} studies of one comparison, as many comparisons in larger ones; * a target is missed"
    )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main(__doc__, (calm, ties, failures, uneven, moving, remembering, few, dependence, provisionings, gate))
