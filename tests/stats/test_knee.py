"""The point of diminishing returns is named only where the gains beyond it are proven to be small."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from fairlane.records import Finding
from fairlane.stats.knee import Knee, guarded, knee, share
from fairlane.stats.ladders import Point, ladders
from fairlane.study.load import parse_study
from fairlane.study.spec import Study

STUDY = """
name: threads
platform: {{kind: fake}}
baseline: iscsi
lanes: {{iscsi: {{transport: iscsi}}, nvme: {{transport: nvme_tcp}}}}
workloads:
  reads: {{kind: fio, rw: [read], bs: [64k], iodepth: [1], numjobs: {jobs}}}
design: {{looks: [6]}}
"""

READS = (1.0, 1.96, 3.8, 7.0, 11.9, 17.6, 17.9)
"""A published ladder of threads, in shape: 1 to 64, and 32 are the most that pay off."""
WRITES = (1.0, 1.95, 3.6, 6.1, 8.3, 8.4, 8.2)
"""16 are."""
MARGIN = 0.05


def study(jobs: int) -> Study:
    return parse_study(STUDY.format(jobs=[2**i for i in range(jobs)]), "test.yaml")


def found(rungs: tuple[float, ...], sd: float, blocks: int = 6, seed: int = 1, rate: float = 0.05) -> Knee:
    rng = np.random.default_rng(seed)
    asked = study(len(rungs))
    (ladder,) = ladders(asked)
    climbs = [
        [Point(load, 1000 * x * math.exp(rng.normal(0, sd)), 1e6) for load, x in zip(ladder.loads, rungs, strict=True)]
        for _ in range(blocks)
    ]
    return knee(asked, ladder, climbs, 1, rate)


@pytest.mark.parametrize(("rungs", "load"), [(READS, 32), (WRITES, 16)])
def test_a_ladder_that_goes_beyond_the_optimum_names_it_with_intervals(rungs: tuple[float, ...], load: int) -> None:
    point = found(rungs, 0.005)
    assert (point.state, point.load, point.earliest, point.margin) == ("reached", load, load, MARGIN)
    for step, (here, beyond) in zip(point.steps, itertools.pairwise(rungs), strict=True):
        assert step.low < beyond / here - 1 < step.high
        assert (step.high < MARGIN) == (step.load >= load)


@pytest.mark.parametrize(("rungs", "top"), [(READS, 32), (WRITES, 16)])
def test_a_ladder_that_ends_at_the_optimum_does_not_reach_it(rungs: tuple[float, ...], top: int) -> None:
    """A model or a formula for the bend names one here too: the gains fall from step to step."""
    point = found(rungs[: int(math.log2(top)) + 1], 0.005)
    assert (point.state, point.load, point.earliest) == ("not-reached", None, None)
    assert point.steps[-1].next_load == top
    assert point.steps[-1].low > MARGIN


def test_blocks_that_scatter_decide_nothing() -> None:
    point = found(READS, 0.1)
    assert (point.state, point.load) == ("not-decided", None)
    assert point.steps[-1].low < MARGIN < point.steps[-1].high


def test_a_step_that_is_not_decided_leaves_a_range() -> None:
    point = found((1.0, 1.9, 3.0, 3.15, 3.16), 0.005)
    assert (point.state, point.load, point.earliest) == ("reached", 8, 4)


def test_a_gain_further_up_moves_the_point_beyond_it() -> None:
    point = found((1.0, 1.01, 1.02, 2.0, 2.0), 0.003)
    assert (point.state, point.load) == ("reached", 8)


def test_gains_are_per_doubling_of_the_load() -> None:
    asked = parse_study(STUDY.format(jobs=[1, 4, 16]), "test.yaml")
    (ladder,) = ladders(asked)
    climbs = [[Point(load, load**0.05, 1e6) for load in ladder.loads]] * 6
    point = knee(asked, ladder, climbs, 1, 0.05)
    assert [step.gain for step in point.steps] == pytest.approx([2**0.05 - 1] * 2)
    assert point.state == "reached"


def test_one_round_is_no_spread() -> None:
    point = found(READS, 0.005, blocks=1)
    assert (point.state, point.blocks, point.steps) == ("not-decided", 1, ())


def test_a_critical_finding_withholds_it() -> None:
    (ladder,) = ladders(study(7))
    point = found(READS, 0.005)
    finding = Finding("noise", "critical", "the rung is in doubt", (ladder.cells[3].key,), ("iscsi",))
    held = guarded(point, ladder, "iscsi", [finding])
    assert (held.state, held.load, held.withheld) == ("not-decided", None, True)
    for harmless in (replace(finding, lanes=("nvme",)), replace(finding, severity="warning")):
        assert guarded(point, ladder, "iscsi", [harmless]) == point


def test_the_error_rate_is_shared_among_lanes_and_ladders() -> None:
    asked = study(7)
    assert share(asked, ladders(asked)) == pytest.approx(0.05 / 2)


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.01, 0.05])
@pytest.mark.parametrize("last", [1.05, 1.1])
def test_false_points_are_rare(sd: float, last: float) -> None:
    """True gains at the margin, or above it, on the last step, or in the middle. One-sided 2.5 %; of 400 studies that
    is 10, and 20 is beyond 99.8 % of the binomial."""
    middle = (1.0, 2.0, 2.0 * last, 2.0 * last * 1.001, 2.0 * last * 1.002)
    end = (1.0, 1.9, 1.91, 1.91 * last)
    points = [found(end, sd, seed=seed) for seed in range(400)]
    assert sum(point.state == "reached" for point in points) <= 20
    points = [found(middle, sd, seed=seed) for seed in range(400)]
    assert sum(point.load is not None and point.load < 4 for point in points) <= 20
    flat = (1.0, 1.9, 1.91, 1.91 * (1 + MARGIN))
    points = [found(flat, sd, seed=seed) for seed in range(400)]
    assert sum(point.state == "not-reached" for point in points) <= 20
