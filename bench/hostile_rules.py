"""What a hostile reviewer simulates of gates, winners and capacities: as in hostile.py, error beside power.

    uv run python bench/hostile_rules.py             some 3 minutes on 2 cores
    uv run python bench/hostile_rules.py --quick     under a minute, figures to about +-5 %

Everything that decides is judged by the product's own code on runs of 20 blocks, unless the case says otherwise.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from calibration import Floats, Row, evidence, study  # type: ignore[import-not-found] # beside it
from hostile import (  # type: ignore[import-not-found] # beside it
    LOOKS,
    Draw,
    Simulated,
    alike,
    main,
    selecting,
    shifted,
    slow_lane,
    warming,
    with_failures,
)

from fairlane.gate.decide import decide
from fairlane.gate.grammar import parse
from fairlane.records import Evidence, Observation
from fairlane.stats.capacity import Capacity, capacities
from fairlane.stats.judge import judge
from fairlane.stats.winners import winners
from fairlane.study.load import parse_study
from fairlane.study.spec import Study

BLOCKS = LOOKS[-1]
HALF = math.log(2)


def run_of(made: Simulated, *, blocks: int = BLOCKS) -> Evidence:
    """All blocks of a study with as many lanes and cells as ``made`` has."""
    cells, _, lanes = made.logs.shape
    asked: Study = study(lanes, cells, f"looks: [{blocks}]")
    whole = evidence(asked, made.logs, dict.fromkeys((cell.key for cell in asked.cells()), blocks))
    shown: Evidence = with_failures(whole, asked, made)
    return shown


def share_met(rule: str, runs: Iterator[Evidence] | list[Evidence]) -> tuple[float, int]:
    """Share of cells in which the rule is met."""
    met = [o.word == "met" for run in runs for o in decide([parse(rule)], run, lambda _: ())]
    return sum(met) / len(met), len(met)


def timing_out(rng: np.random.Generator) -> Simulated:
    """Of one lane 45 % of the trials would run at half speed, and time out."""
    logs = rng.normal(0, 0.01, (1, BLOCKS, 2))
    failed = np.zeros(logs.shape, bool)
    failed[0, rng.permutation(BLOCKS)[:9], 1] = True
    return Simulated(logs, failed)


def with_bandwidth(run: Evidence, logs: Floats) -> Evidence:
    """The same with another metric, beside the primary one."""
    place = {cell.key: i for i, cell in enumerate(run.study.cells())}
    lanes = {lane: i for i, lane in enumerate(run.study.lanes)}

    def trial(o: Observation) -> Observation:
        bandwidth = 4e6 * math.exp(logs[place[o.cell], o.block, lanes[o.lane]])
        return replace(o, metrics={**o.metrics, "bw": bandwidth})

    return replace(run, observations=tuple(map(trial, run.observations)))


def gates(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    def many(draw: Draw, *, blocks: int = BLOCKS) -> list[Evidence]:
        return [run_of(draw(rng), blocks=blocks) for _ in range(studies)]

    yield Row(
        "9 of 20 trials time out (-27 %): iops >= 950 met", 0.05, *share_met("iops of lane-1 >= 950", many(timing_out))
    )
    yield Row("... none does, 1000 in truth", None, *share_met("iops of lane-1 >= 950", many(alike(1, 0.02))))
    for cells, rho, effect in itertools.product((1, 8), (0.6, 0.8), (0.0, 0.1)):
        other = shifted(slow_lane(cells, rho), effect)
        some = max(20, studies // cells)
        runs = [with_bandwidth(run_of(alike(cells, 0.01)(rng)), other(rng).logs) for _ in range(some)]
        name = f"exploratory metric, AR {rho}, {cells}, {effect:+.0%}: > 0 % over met"
        yield Row(name, None if effect else 0.05, *share_met("lane-1 > 0 % over lane-0 in bw", runs))
    yield Row(
        "two blocks of equal lanes: > 0 % over met",
        0.05,
        *share_met("lane-1 > 0 % over lane-0", many(alike(1, 0.03), blocks=2)),
    )
    for effect in (0.0, 0.1):
        runs = many(shifted(warming(1, 0.15, 4), effect))
        name = f"a lane is off by +15 %, gone in 4 blocks, {effect:+.0%}: > 0 % over met"
        yield Row(name, None if effect else 0.05, *share_met("lane-1 > 0 % over lane-0", runs))
    for effect in (0.0, 0.1):
        runs = many(alike(8, 0.03, math.log1p(effect)))
        yield Row(
            f"nothing is wrong, {effect:+.0%}, 8: > 0 % over met",
            None if effect else 0.05,
            *share_met("lane-1 > 0 % over lane-0", runs),
        )


def three(draw: Draw, third: Draw) -> Draw:
    """Two lanes, and the second of ``third`` as a third one."""

    def drawn(rng: np.random.Generator) -> Simulated:
        two, one = draw(rng), third(rng)
        logs = np.concatenate([two.logs, one.logs[:, :, 1:]], axis=2)
        if one.failed is None:
            return Simulated(logs)
        none = np.zeros(two.logs.shape, bool)
        return Simulated(logs, np.concatenate([none, one.failed[:, :, 1:]], axis=2))

    return drawn


def best(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    def sets(draw: Draw) -> list[tuple[set[str], set[str]]]:
        """Of each study: lanes that are out in any cell, and lanes that are the only winner of one."""
        made = []
        for _ in range(studies):
            run = run_of(draw(rng))
            found = winners(run, judge(run, ()))
            out = {lane for w in found for lane in w.out}
            made.append((out, {w.plausible[0] for w in found if len(w.plausible) == 1}))
        return made

    for rho in (0.0, 0.6, 0.8):
        for cells in (1, 8):
            third = slow_lane(cells, rho) if rho else alike(cells, 0.03)
            made = sets(three(alike(cells, 0.03), third))
            name = f"three equal lanes{f', one of AR {rho}' if rho else ''}, any of {cells}: one is out"
            yield Row(name, 0.10, sum(bool(out) for out, _ in made) / studies, studies)
    made = sets(three(alike(1, 0.03), shifted(selecting(1, 0.25, 0.5))))
    yield Row(
        "+10 % of what is left, the slow quarter failed (-8 %): the only winner",
        0.05,
        sum("lane-2" in w for _, w in made) / studies,
        studies,
    )
    for cells in (1, 8):
        made = sets(three(alike(cells, 0.03), alike(cells, 0.03, math.log1p(0.1))))
        yield Row(
            f"one lane +10 %, sd 3 %, any of {cells}: the only winner",
            None,
            sum("lane-2" in w for _, w in made) / studies,
            studies,
        )


@cache
def ladder() -> Study:
    return parse_study(
        "name: bench\nplatform: {kind: fake}\nbaseline: a\nlanes: {a: {transport: local}, b: {transport: local}}\n"
        "workloads:\n  main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 2, 4, 8, 16, 32], runtime: 1s, "
        "slo: {lat_mean: 200us}}\n"
        f"design: {{looks: [{BLOCKS}]}}\n",
        "bench",
    )


def climbed(speeds: Floats, failed: Callable[[int, int], bool] = lambda *_: False) -> Capacity:
    """``speeds``: their logarithms, [rung, block, lane]; trials of lane b for which ``failed`` holds have no figure."""
    trials = []
    for rung, cell in enumerate(ladder().cells()):
        depth = cell.params["iodepth"]
        for (block, place), speed in np.ndenumerate(speeds[rung]):
            latency = 80e3 * (1 + depth / 8) * math.exp(-speed)
            metrics = {"iops": depth / latency * 1e9, "lat_mean": latency}
            gone = place == 1 and failed(rung, block)
            trials.append(
                Observation(
                    cell.key,
                    block,
                    "ab"[place],
                    place,
                    failed="timeout" if gone else "",
                    metrics={} if gone else metrics,
                )
            )
    (found,) = capacities(ladder(), trials)
    return found


def capacity(rng: np.random.Generator, studies: int) -> Iterator[Row]:
    def noise(sd: float = 0.03) -> Floats:
        made: Floats = rng.normal(0, sd / math.sqrt(2), (6, BLOCKS, 2))
        return made

    def words(draw: Callable[[], Capacity]) -> list[str]:
        return [found.verdict if not found.withheld else "withheld" for found in (draw() for _ in range(studies))]

    def over_the_limit() -> Capacity:
        speeds = noise()
        slow = rng.random((6, BLOCKS)) < 0.38
        slow[:3] = False
        speeds[:, :, 1] += math.log(1.15) - slow * HALF
        return climbed(speeds, lambda rung, block: bool(slow[rung, block]))

    def remembering(rho: float, effect: float) -> Capacity:
        speeds = noise()
        speeds[:, :, 1] += math.log1p(effect) + slow_lane(6, rho)(rng).logs[:, :, 1]
        return climbed(speeds)

    def plain(effect: float) -> Capacity:
        speeds = noise()
        speeds[:, :, 1] += math.log1p(effect)
        return climbed(speeds)

    made = words(over_the_limit)
    yield Row("38 % of a lane's trials over the objective fail: faster", 0.05, made.count("faster") / studies, studies)
    for rho in (0.6, 0.8):
        made = words(lambda rho=rho: remembering(rho, 0.0))  # type: ignore[misc]
        wrong = sum(word in ("faster", "slower", "different-but-small") for word in made)
        yield Row(f"equal capacities, AR {rho} in one lane: different", 0.05, wrong / studies, studies)
        made = words(lambda rho=rho: remembering(rho, 0.1))  # type: ignore[misc]
        yield Row("... +10 % is faster", None, made.count("faster") / studies, studies)
    made = words(lambda: plain(0.0))
    yield Row("nothing is wrong: equal capacities tie", None, made.count("tie") / studies, studies)
    made = words(lambda: plain(0.1))
    yield Row("... +10 % is faster", None, made.count("faster") / studies, studies)


if __name__ == "__main__":
    main(__doc__, (gates, best, capacity))
