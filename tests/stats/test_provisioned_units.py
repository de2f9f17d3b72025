"""Volumes made anew: figures of a lane alone, capacities, knees and correlation count provisionings, not blocks."""

import math
import random
from dataclasses import replace

import pytest
from scipy.stats import t

from fairlane import registry
from fairlane.gate.absolute import Level, level_of
from fairlane.records import Evidence, Observation
from fairlane.stats import knee
from fairlane.stats.capacity import by_provisioning, capacities, climbs, rounds
from fairlane.stats.ladders import ladders
from fairlane.stats.live import Live
from fairlane.stats.pairs import shelve
from fairlane.study.load import parse_study
from fairlane.study.spec import Study

STUDY = """
name: placed
platform: {{kind: fake}}
baseline: a
lanes:
  a: {{transport: local}}
  b: {{transport: local}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [1, 2, 4, 8, 16], slo: {{lat_mean: 200us}}}}
design: {{looks: [24], provisionings: {provisionings}}}
"""
EACH = 4


def placed(provisionings: int) -> Evidence:
    """24 blocks of lanes that are equal but for where each set of four blocks' volumes lie (sd 5 %); trials 0.2 %."""
    study, rng, trials = _study(provisionings), random.Random(7), []  # noqa: S311
    places = {(lane, p): rng.gauss(0, 0.05) for lane in "ab" for p in range(24 // EACH)}
    for cell in study.cells():
        depth = cell.params["iodepth"]
        for block in range(24):
            for position, lane in enumerate("ab"):
                speed = math.exp(places[lane, block // EACH] + rng.gauss(0, 0.002))
                latency = 80_000 / speed * (1 + depth / 8)
                figures = {"iops": depth / latency * 1e9, "lat_mean": latency}
                trials.append(Observation(cell.key, block, lane, position, metrics=figures))
    return Evidence("placed", study, "", 1, (), tuple(trials), {}, {}, complete=True)


@pytest.mark.parametrize("provisionings", [1, 2, 6])
def test_an_interval_while_it_runs_needs_two_provisionings(provisionings: int) -> None:
    live, evidence = Live(_study(provisionings)), placed(provisionings)
    seen = [s for trial in sorted(evidence.observations, key=lambda o: o.block) for s in live.add(trial)]
    first = min(s.blocks for s in seen if math.isfinite(s.alone[0]))
    assert first == (2 if provisionings == 1 else 24 // provisionings + 1)


def _study(provisionings: int) -> Study:
    return parse_study(STUDY.format(provisionings=provisionings), "placed.yaml")


def test_a_lane_s_own_figure_has_the_interval_of_its_provisionings() -> None:
    evidence = placed(6)
    level = level_of(evidence, shelve(evidence.observations), evidence.study.cells()[0], "b", "iops")
    assert isinstance(level, Level)
    assert level.ends is not None
    logs = [math.log(v) for v in level.blocks.values()]
    means = [sum(logs[i : i + EACH]) / EACH for i in range(0, 24, EACH)]
    middle = sum(means) / 6
    sd = math.sqrt(sum((m - middle) ** 2 for m in means) / 5)
    half = float(t.ppf(0.95, 5)) * sd / math.sqrt(6)
    assert [math.log(end) for end in level.ends] == pytest.approx([middle - half, middle + half])
    assert len(level.blocks) == 24


def test_capacity_is_no_surer_than_its_provisionings() -> None:
    """What is made once looks like blocks that remember; taken as independent, it would be far too sure."""
    six, one = (capacities(e.study, e.observations)[0] for e in (placed(6), placed(1)))
    (independent,) = capacities(placed(1).study, placed(1).observations, modelled=True)
    widths = [math.log(c.high / c.low) for c in (six, one, independent)]  # type: ignore[operator]
    assert six.ratio == pytest.approx(one.ratio, rel=0.01)
    assert widths[0] > widths[1] > 1.2 * widths[2]
    assert widths[0] > 2 * widths[2]
    assert six.blocks == one.blocks == 24


def test_one_provisioning_with_every_rung_has_no_interval() -> None:
    evidence = placed(6)
    first = [o if o.block < EACH else replace(o, failed="no volume", metrics={}) for o in evidence.observations]
    (capacity,) = capacities(evidence.study, first)
    assert (capacity.low, capacity.high, capacity.notes[0].kind) == (None, None, "too-few-rounds")  # type: ignore[attr-defined]


def test_the_knee_counts_provisionings() -> None:
    evidence = placed(6)
    study, shelves = evidence.study, shelve(evidence.observations)
    (ladder,) = ladders(study)
    climbed = climbs(study, shelves, ladder, "b", "lat_mean")
    looks = rounds(study, shelves, ladder)[1]
    result = knee.knee(study, ladder, by_provisioning(climbed, study.design.blocks_per_unit), looks, 0.05)
    assert (len(climbed), result.blocks) == (24, 6)


@pytest.mark.parametrize(("provisionings", "kinds"), [(1, {"correlated"}), (6, set())])
def test_where_volumes_lie_is_no_correlation_of_blocks(provisionings: int, kinds: set[str]) -> None:
    assert {f.kind for f in registry.load("checks", "autocorrelation").check(placed(provisionings))} == kinds
