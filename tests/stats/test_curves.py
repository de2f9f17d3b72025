"""Ladders, capacity at equal latency, and the scalability law, against curves whose truth is known."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import FairlaneError
from fairlane.records import Finding, Observation
from fairlane.stats import usl
from fairlane.stats.capacity import (
    Capacity,
    Objective,
    at_equal_terms,
    capacities,
    guarded,
)
from fairlane.stats.crossing import Crossing, Curve
from fairlane.stats.ladders import ladders
from fairlane.study.load import parse_study
from fairlane.study.spec import Study
from tests.words import noted

STUDY = """
name: ladder
platform: {{kind: fake}}
baseline: a
lanes:
  a: {{transport: local}}
  b: {{transport: local}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: {depths}, numjobs: {jobs}, slo: {{lat_mean: 200us}}}}
design: {{looks: [{blocks}]}}
"""


def study(*, depths: str = "[1, 2, 4, 8, 16, 32]", jobs: str = "[1]", blocks: str = "6") -> Study:
    return parse_study(STUDY.format(depths=depths, jobs=jobs, blocks=blocks), "test.yaml")


def law(depth: float, speed: float) -> tuple[float, float]:
    """IOPS and mean latency (ns) of a device that saturates: latency = service x (1 + depth / 8), Little's law."""
    latency = 80_000 / speed * (1 + depth / 8)
    return depth / latency * 1e9, latency


def observed(asked: Study, speeds: dict[str, float], sd: float = 0.01, blocks: int = 6) -> list[Observation]:
    rng = random.Random(5)  # noqa: S311
    seen = []
    for cell in asked.cells():
        for block in range(blocks):
            for place, (lane, speed) in enumerate(speeds.items()):
                iops, latency = law(cell.params["iodepth"] * cell.params["numjobs"], speed)
                wobble = math.exp(rng.gauss(0, sd))
                metrics = {"iops": iops * wobble, "lat_mean": latency / wobble}
                seen.append(Observation(cell.key, block, lane, place, metrics=metrics))
    return seen


def capacity_of(speed: float, limit: float) -> float:
    """Throughput at ``limit`` by the law."""
    depth = 8 * (limit * speed / 80_000 - 1)
    return law(depth, speed)[0]


def test_a_ladder_is_cells_that_differ_in_one_kind_of_load() -> None:
    (one,) = ladders(study())
    assert [cell.params["iodepth"] for cell in one.cells] == [1, 2, 4, 8, 16, 32]
    assert one.loads == (1, 2, 4, 8, 16, 32)
    assert one.name == "4k randread, iodepth 1 to 32"
    assert not one.open_loop
    assert ladders(study(depths="[1, 8]")) == ()
    both = ladders(study(depths="[1, 4, 16]", jobs="[1, 2, 4]"))
    assert [ladder.climb for ladder in both] == ["iodepth"] * 3 + ["numjobs"] * 3
    assert both[1].loads == (2, 8, 32)
    assert both[4].name == "4k randread qd4, numjobs 1 to 4"


def test_an_open_loop_is_a_ladder_of_its_own() -> None:
    asked = study(depths="[1, 2, 4, 64], rate_iops: [1000, 2000, 4000]")
    found = ladders(asked)
    assert [(ladder.climb, ladder.open_loop) for ladder in found] == [("rate_iops", True)] * 4
    assert found[3].loads == (1000, 2000, 4000)
    assert found[3].cells[0].name == "4k randread qd64 at 1000"


Rungs = Sequence[tuple[float, float]]
"""Throughput and latency by rising load."""


def throughput_at(rungs: Rungs, latency: float) -> Crossing:
    throughputs, latencies = np.log(rungs).T
    return Crossing(Curve(latencies[None], throughputs[None]), math.log(latency), last=True)


def latency_at(rungs: Rungs, throughput: float) -> Crossing:
    throughputs, latencies = np.log(rungs).T
    return Crossing(Curve(throughputs[None], latencies[None]), math.log(throughput), last=False)


def read(crossing: Crossing) -> tuple[float, float]:
    """Figure, and the end of the ladder beyond which it lies: -1, 0, +1."""
    return math.exp(crossing.value), 0 if math.isfinite(crossing.place) else math.copysign(1, crossing.place)


def test_capacity_between_rungs_and_at_them() -> None:
    rungs = ((1000, 100.0), (1900, 120.0), (3000, 200.0))
    assert read(throughput_at(rungs, 120.0)) == pytest.approx((1900, 0))
    middle = read(throughput_at(rungs, math.sqrt(120 * 200)))
    assert middle == pytest.approx((math.sqrt(1900 * 3000), 0))
    assert read(throughput_at(rungs, 200.0)) == pytest.approx((3000, 1))
    assert read(throughput_at(rungs, 99.0)) == pytest.approx((1000, -1))
    assert read(latency_at(rungs, middle[0])) == pytest.approx((math.sqrt(120 * 200), 0))
    assert read(latency_at(rungs, 500)) == pytest.approx((100, -1))
    assert read(latency_at(rungs, 3001)) == pytest.approx((200, 1))


def test_what_falls_where_it_should_rise_is_pooled() -> None:
    curve = throughput_at(((1000, 100.0), (2000, 300.0), (1800, 200.0), (2500, 400.0)), 1).curve
    pooled = math.sqrt(2000 * 1800), math.sqrt(300 * 200)
    assert np.exp(curve.ys) == pytest.approx([1000, pooled[0], pooled[0], 2500])
    assert np.exp(curve.xs) == pytest.approx([100, pooled[1], pooled[1], 400])


@given(
    st.lists(st.tuples(st.floats(1, 1e6), st.floats(1e3, 1e9)), min_size=3, max_size=9),
    st.floats(1e2, 1e10),
    st.floats(1.0, 10.0),
)
def test_more_latency_never_means_less_capacity(rungs: list[tuple[float, float]], limit: float, factor: float) -> None:
    tight, loose = throughput_at(rungs, limit), throughput_at(rungs, limit * factor)
    assert tight.value <= loose.value + 1e-9
    assert tight.place <= loose.place + 1e-9


def one(found: tuple[Capacity, ...]) -> Capacity:
    (only,) = found
    return only


def test_slo_capacity_finds_the_true_ratio() -> None:
    asked = study()
    found = one(capacities(asked, observed(asked, {"a": 1.0, "b": 1.3})))
    truth = capacity_of(1.3, 200_000) / capacity_of(1.0, 200_000)
    assert found.verdict == "faster"
    assert found.ratio == pytest.approx(truth, rel=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.ratio is not None
    assert found.low < found.ratio < found.high
    assert found.lane_value.exact
    assert found.lane_value.low == pytest.approx(capacity_of(1.3, 200_000), rel=0.03)
    assert found.blocks == 6


def test_equal_lanes_tie_at_equal_latency_and_at_equal_throughput() -> None:
    asked = study()
    found = at_equal_terms(asked, observed(asked, {"a": 1.0, "b": 1.0}, sd=0.003), "lat_mean")
    assert len(found) == 12
    assert {c.verdict for c in found[2:-2]} == {"tie"}
    # the baseline's own end rungs: beyond them the ladder says nothing
    for end in (found[:2], found[-2:]):
        assert all(None in (c.low, c.high) and c.verdict != "tie" for c in end)


def test_a_capacity_beyond_the_top_rung_is_a_lower_bound_and_can_still_be_faster() -> None:
    asked = study(depths="[1, 2, 4, 8]")
    # at 100 us b (three times as fast) is still within on its top rung, a is between its rungs
    goal = [Objective("lat_mean", 100_000)]
    found = one(capacities(asked, observed(asked, {"a": 1.0, "b": 3.0}), goal))
    assert found.lane_value.high == math.inf
    assert found.baseline_value.exact
    assert found.verdict == "faster"
    assert found.ratio is None
    assert found.high is None
    assert found.low is not None
    assert 1 < found.low <= law(8, 3.0)[0] / capacity_of(1.0, 100_000) * 1.01
    assert noted(found.notes) == ["beyond-top-rung"]
    # the other way round, b is slower and the bound is an upper one
    swapped = one(capacities(asked, observed(asked, {"a": 3.0, "b": 1.0}), goal))
    assert swapped.verdict == "slower"
    assert swapped.low is None
    assert swapped.high == pytest.approx(1 / found.low, rel=0.05)


def test_both_beyond_the_top_rung_say_nothing() -> None:
    asked = study(depths="[1, 2, 4, 8]")
    found = one(capacities(asked, observed(asked, {"a": 1.0, "b": 1.5}), [Objective("lat_mean", 10**9)]))
    assert found.verdict == "inconclusive"
    assert (found.low, found.high, found.ratio) == (None, None, None)
    assert noted(found.notes) == ["beyond-top-rung"] * 2


def test_a_failed_rung_takes_its_round_away_and_one_round_is_no_spread() -> None:
    asked = study()
    seen = observed(asked, {"a": 1.0, "b": 1.3})
    top = asked.cells()[-1].key
    broken = [replace(o, failed="gone", metrics={}) if (o.cell, o.block, o.lane) == (top, 2, "b") else o for o in seen]
    assert one(capacities(asked, broken)).blocks == 5
    single = [o for o in broken if o.block == 0 or o.cell == "no"]
    assert one(capacities(study(blocks="2"), single)).verdict == "inconclusive"


def test_lanes_that_ran_at_different_times_are_two_samples() -> None:
    """Four trials of one lane and seven of the other, whatever their numbers: Welch, not pairs."""
    asked = study()
    apart = asked.model_copy(update={"design": asked.design.model_copy(update={"paired": False})})
    seen = [o for o in observed(asked, {"a": 1.0, "b": 1.3}, blocks=7) if o.lane == "a" or o.block >= 3]
    found = one(capacities(apart, seen))
    assert (found.verdict, found.blocks) == ("faster", 4)
    assert found.ratio == pytest.approx(capacity_of(1.3, 200_000) / capacity_of(1.0, 200_000), rel=0.03)
    single = one(capacities(apart, [o for o in seen if o.block == 3]))
    assert (single.verdict, single.low, single.blocks) == ("no-spread", None, 1)
    assert single.lane_value.exact


@pytest.mark.slow
def test_false_verdicts_of_equal_lanes_are_rare() -> None:
    """Nominal 5 %; 300 studies: 5 % is 15, and 27 is beyond 99.8 % of the binomial."""
    asked = study(depths="[1, 4, 16]")
    wrong = 0
    rng = np.random.default_rng(11)
    for _ in range(300):
        seen = []
        for cell in asked.cells():
            iops, latency = law(cell.params["iodepth"], 1.0)
            for block in range(6):
                for place, lane in enumerate("ab"):
                    wobble = math.exp(rng.normal(0, 0.05))
                    metrics = {"iops": iops * wobble, "lat_mean": latency / wobble}
                    seen.append(Observation(cell.key, block, lane, place, metrics=metrics))
        wrong += one(capacities(asked, seen, [Objective("lat_mean", 150_000)])).verdict in ("faster", "slower")
    assert wrong <= 27


def test_the_scalability_law_is_found() -> None:
    loads = [1, 2, 4, 8, 16, 32, 64]

    def x(n: float) -> float:
        return 1000 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1))

    fitted = usl.fit(loads, [x(n) for n in loads])
    assert fitted is not None
    assert (fitted.scale, fitted.contention, fitted.coherency) == pytest.approx((1000, 0.05, 0.001), rel=1e-3)
    assert fitted.error < 1e-6
    assert fitted.at(16) == pytest.approx(x(16))
    assert usl.fit(loads[:5], [x(n) for n in loads[:5]]) is None
    assert usl.fit(loads[1:], [x(n) for n in loads[1:]]) is None


def test_an_objective_is_a_latency() -> None:
    with pytest.raises(FairlaneError, check=lambda error: "slo" in str(error) and "lat_p99" in str(error)):
        parse_study(STUDY.format(depths="[1]", jobs="[1]", blocks=2).replace("lat_mean: 200us", "iops: 200us"), "x")


def test_what_is_read_off_a_curve_is_no_better_than_its_worst_rung():
    asked = study()
    found = capacities(asked, observed(asked, {"a": 1.0, "b": 1.3}))
    top = (asked.cells()[-1].key,)
    refusing = Finding("unmatched", "critical", "they differ in ramp", top, ("b",), refuses=True)
    refused = one(guarded(found, [refusing]))
    assert (refused.verdict, refused.ratio, refused.low, refused.notes) == ("refused", None, None, (refusing.message,))
    held = one(guarded(found, [replace(refusing, refuses=False, lanes=("a",))]))
    assert (held.verdict, bool(held.withheld)) == ("faster", True)
    for harmless in (replace(refusing, lanes=("c",)), replace(refusing, refuses=False, severity="warning")):
        assert guarded(found, [harmless]) == found


def test_copies_of_lanes_are_drawn_and_not_compared():
    text = STUDY.format(depths="[1, 2, 4]", jobs="[1]", blocks="6")
    asked = parse_study(text.replace("  b: {", "  again: {copy_of: a, transport: local}\n  b: {"), "test.yaml")
    seen = observed(asked, {"a": 1.0, "again": 1.0, "b": 1.3})
    assert {c.lane for c in (*capacities(asked, seen), *at_equal_terms(asked, seen, "lat_mean"))} == {"b"}
