"""The judge on lanes that ran at different times, on percentiles that a tool told, and on copies of lanes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fairlane import registry
from fairlane.records import Finding
from fairlane.stats.contests import Claims
from fairlane.stats.judge import judge
from fairlane.stats.stopping import open_cells
from fairlane.study.load import parse_study
from tests.stats.test_judge import drawn_at
from tests.words import note, noted

BASE = [1000.0, 1015, 990, 1004, 1021, 984, 1011]
NEW = [1210.0, 1180, 1203, 1199]


def apart(evidence, *, renumber=lambda seen: seen.block):
    design = evidence.study.design.model_copy(update={"paired": False})
    seen = tuple(replace(o, block=renumber(o)) for o in evidence.observations)
    return replace(evidence, study=evidence.study.model_copy(update={"design": design}), observations=seen)


def first(evidence, findings=()):
    return judge(evidence, findings)[0]


def test_two_samples_are_welchs(run):
    v = first(apart(run([{"base": BASE, "new": NEW}])))
    known = stats.ttest_ind(np.log(BASE), np.log(NEW), equal_var=False)
    assert known.df < 10
    assert (v.verdict, v.headline, v.blocks, v.voided, v.level) == ("faster", True, 4, 0, 0.05)
    assert v.ratio == pytest.approx(stats.gmean(NEW) / stats.gmean(BASE))
    half = stats.t.isf(0.025, 3) * math.sqrt(np.var(np.log(NEW), ddof=1) / 4 + np.var(np.log(BASE), ddof=1) / 7)
    assert (v.low, v.high) == pytest.approx((v.ratio * math.exp(-half), v.ratio * math.exp(half)))
    assert v.low < v.tie_low < v.tie_high < v.high
    assert (v.lane_value, v.baseline_value) == pytest.approx((stats.gmean(NEW), stats.gmean(BASE)))
    assert "not-interleaved" in noted(v.notes)


def test_numbers_and_looks_mean_nothing(run):
    """Trials are numbered as the files came, and are looked at once, whatever looks the study would have had."""
    made = run([{"base": BASE * 3, "new": NEW * 3}])
    plain = first(apart(made))
    assert plain.blocks == 12
    assert plain.level == 0.05
    assert first(apart(made, renumber=lambda o: 1000 * (o.lane == "new") + 7 * o.block)) == plain
    assert first(apart(made, renumber=lambda o: 40 - o.block)).ratio == pytest.approx(plain.ratio)


def test_failed_trials_are_counted_and_void_nothing_else(run):
    v = first(apart(run([{"base": [*BASE, None], "new": [None, *NEW]}])))
    assert (v.blocks, v.voided) == (4, 2)
    assert v.ratio == first(apart(run([{"base": BASE, "new": NEW}]))).ratio


def test_neighbours_and_orders_are_not_told(run):
    rising = [1000 * math.exp(0.01 * i) for i in range(12)]
    paired = run([{"base": [1000.0, 1001.0] * 6, "new": rising}], looks=(12,))
    assert "correlated" in noted(first(paired).notes)
    loose = apart(paired)
    assert not {"correlated", "carried-over"} & set(noted(first(loose).notes))
    for check in ("autocorrelation", "carry_over"):
        assert not list(registry.load("checks", check).check(loose))


def test_a_permutation_test_watches_over_welch(run):
    wild = [1000.0, 1001, 999, 1000, 5000]
    notes = first(apart(run([{"base": [1000.0, 1000.5, 999.5, 1000, 999], "new": wild}]))).notes
    assert "pulled" in noted(notes)


def test_one_trial_of_a_lane_tells_nothing_of_its_spread(run):
    v = first(apart(run([{"base": [1000.0], "new": [1500.0]}])))
    assert (v.verdict, v.low, v.tie_low, v.detectable, v.headline) == ("no-spread", None, None, None, False)
    assert v.ratio == pytest.approx(1.5)
    assert noted(v.notes)[-1] == "single-trials"
    assert "new" not in v.notes[-1].split(), "both have one alone"
    v = first(apart(run([{"base": BASE, "new": [1500.0]}])))
    assert v.verdict == "no-spread"
    assert noted(v.notes)[-1] == "single-trials"
    assert "new" in v.notes[-1].replace(":", "").split()


def test_more_to_come_means_no_word_yet(run):
    made = apart(run([{"base": BASE, "new": NEW}], complete=False))
    v = first(made)
    assert (v.verdict, v.low) == ("inconclusive", None)
    assert noted(v.notes)[-1] == "judged-later"
    assert open_cells(made.study, made.observations, 0) == {made.cells()[0].key}
    assert open_cells(made.study, made.observations, 3) == frozenset()


def test_doubt_tells_how_many_trials_of_each_it_takes(run):
    noisy = [1000 * math.exp(0.1 * math.sin(5 * i * i)) for i in range(8)]
    v = first(apart(run([{"base": noisy, "new": [x * 1.02 for x in reversed(noisy)]}])))
    assert v.verdict == "inconclusive"
    n = 8 + v.more_blocks
    sd = np.std(np.log(noisy), ddof=1)
    assert stats.t.isf(0.025, 2 * n - 2) * sd * math.sqrt(2 / n) <= math.log(1.05)
    assert stats.t.isf(0.025, 2 * n - 4) * sd * math.sqrt(2 / (n - 1)) > math.log(1.05)
    assert "8" in note(v.notes, "detectable").split()


# --- percentiles as told


def test_a_percentile_that_a_tool_told_is_judged_with_a_note(run):
    made = run(
        [{"base": BASE[:6], "new": (NEW * 2)[:6]}],
        looks=(6,),
        others=lambda lane, block, value: {"lat_p99": 1e9 / value},
    )
    (p99,) = (v for v in judge(made, ()) if v.metric == "lat_p99")
    assert p99.verdict == "faster"
    assert noted(p99.notes)[0] == "as-reported"
    assert p99.lane_value == pytest.approx(1e9 / stats.gmean((NEW * 2)[:6]))


def test_where_there_are_bins_they_alone_count(run):
    made = run(
        [{"base": BASE[:6], "new": (NEW * 2)[:6]}],
        looks=(6,),
        others=lambda lane, block, value: {"lat_p99": 1.0 + block},
        latency=lambda lane, block: {1000: 500, 5000: 5},
    )
    shown = {v.metric for v in judge(made, ())}
    assert "lat_p50" in shown
    assert "lat_p99" not in shown, "five I/Os beyond, and what the tool says of it is not asked"


# --- A/A controls

COPY = """\
name: copies
platform: {kind: fake}
baseline: a
lanes:
  a: {transport: local}
  b: {transport: iscsi}
  a2: {transport: local, copy_of: a}
  b2: {transport: iscsi, copy_of: b}
workloads:
  main: {kind: fio, iodepth: [1, 2], runtime: 1s}
design: {looks: [8]}
"""


def with_copies(run, rng, *, defect=0.0):
    """Two cells; b is 10 % faster than a; ``defect`` in b2, in the second cell."""
    cells = []
    for n in range(2):
        speed = {"a": 0.0, "b": 0.1, "a2": 0.0, "b2": 0.1 + defect * n}
        cells.append({lane: list(1000 * np.exp(s + rng.normal(0, 0.01, 8))) for lane, s in speed.items()})
    return replace(run(cells, looks=(8,)), study=parse_study(COPY, "copies.yaml"))


def test_copies_are_compared_with_what_they_copy_and_claim_nothing(run):
    made = with_copies(run, np.random.default_rng(7))
    verdicts = judge(made, [])
    controls = [v for v in verdicts if v.control]
    assert [(v.lane, v.baseline, v.metric) for v in controls] == [("a2", "a", "iops"), ("b2", "b", "iops")] * 2
    assert {v.level for v in controls} == {0.05 / 4}, "the four share alpha"
    assert not any(v.primary or v.headline for v in controls)
    primaries = [v for v in verdicts if v.primary]
    assert [v.lane for v in primaries] == ["b", "b"]
    for v in primaries:
        ours, base = (
            {o.block: o.metrics["iops"] for o in made.observations if (o.cell, o.lane) == (v.key, lane)}
            for lane in ("b", "a")
        )
        logs = [math.log(ours[b] / base[b]) for b in ours]
        joint = drawn_at(v.joint_low, v.joint_high, np.array(logs))
        assert joint == pytest.approx(0.025), "Holm knows nothing of the copies"
    bare = replace(made, observations=tuple(o for o in made.observations if not o.lane.endswith("2")))
    claims = [[v for v in judge(e, []) if v.primary] for e in (made, bare)]
    assert claims[0] == claims[1]


def test_the_check_tells_the_noise_floor(run):
    made = with_copies(run, np.random.default_rng(5))
    found = list(registry.load("checks", "aa_control").check(made))
    assert [(f.severity, f.kind, f.lanes) for f in found] == [
        ("info", "noise-floor", ("a2", "a")),
        ("info", "noise-floor", ("b2", "b")),
    ]
    (v,) = (v for v in judge(made, ()) if v.control and v.lane == "a2" and v.cell.endswith("qd1"))
    assert found[0].evidence[v.key] == pytest.approx({"ratio": v.ratio, "low": v.low, "high": v.high})


def test_a_copy_that_differs_takes_the_headline_of_its_cell(run):
    made = with_copies(run, np.random.default_rng(5), defect=0.05)
    found = list(registry.load("checks", "aa_control").check(made))
    assert [f.severity for f in found] == ["info", "critical", "info"]
    one, two = (cell.key for cell in made.cells())
    assert (found[1].kind, found[1].cells) == ("differs", (two,))
    assert {"b2", "b"} <= set(found[1].message.split())
    assert {v.key: v.headline for v in judge(made, found) if v.primary} == {one: True, two: False}


@pytest.mark.slow
def test_chance_alone_hardly_ever_breaks_a_control(run):
    rng = np.random.default_rng(6)
    broken = sum(
        any(stage.rejects(claims.rate(c)) for c in claims.contests if c.control and (stage := c.final))
        for claims in (
            Claims(made.study, made.observations, primary_only=True)
            for made in (with_copies(run, rng) for _ in range(200))
        )
    )
    assert broken <= 200 * 0.05 + 3 * math.sqrt(200 * 0.05 * 0.95)


def test_a_copy_is_never_refused_and_keeps_no_cell_open(run):
    made = with_copies(run, np.random.default_rng(5))
    found = Finding("unmatched", "critical", "the ramps differ", refuses=True)
    assert {v.verdict == "refused" for v in judge(made, [found]) if v.control} == {False}
