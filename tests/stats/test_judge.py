"""The judge on evidence with chosen figures: the rules of docs/verdict.md, one by one."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from fairlane.records import Finding
from fairlane.report.phrases import further
from fairlane.stats.answers import word
from fairlane.stats.effects import Effect
from fairlane.stats.judge import judge
from fairlane.stats.looks import level, nominal_levels
from fairlane.stats.stopping import open_cells
from tests.words import note, noted

EDGE = math.log1p(0.05)
LOOKS = (6, 10, 15, 20)


def around(centre, n, noise=0.004):
    """``n`` figures whose logs lie around ln(centre) in a fixed pattern without trend."""
    pattern = (0.3, -1.1, 0.9, -0.4, 1.2, -0.9, 0.1, -0.1, 0.7, -0.7)
    return [centre * math.exp(noise * pattern[i % 10]) for i in range(n)]


def only(verdicts, metric="iops"):
    (verdict,) = [v for v in verdicts if v.metric == metric]
    return verdict


def first(evidence, findings=()):
    return only(judge(evidence, findings))


def primaries(evidence):
    return [v for v in judge(evidence, ()) if v.primary]


def drawn_at(low, high, logs):
    """Nominal two-sided level of a t interval of ``logs`` with these ends as ratios."""
    assert math.log(low * high) / 2 == pytest.approx(np.mean(logs), abs=1e-12)
    error = np.std(logs, ddof=1) / math.sqrt(len(logs))
    return 2 * stats.t.sf(math.log(high / low) / 2 / error, len(logs) - 1)


def logs_of(cell, lane="new", baseline="base"):
    """Log-ratios of the blocks in which both trials succeeded."""
    return [math.log(y / x) for x, y in zip(cell[baseline], cell[lane], strict=True) if x and y]


# --- the words

intervals = st.tuples(st.floats(-0.3, 0.3), st.floats(1e-9, 0.3), st.floats(0, 1)).map(
    lambda t: (t[0], (t[0] - t[1], t[0] + t[1]), (t[0] - t[1] * t[2], t[0] + t[1] * t[2]))
)
margins = st.floats(0.001, 0.5)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.10, 0.20, "faster"),
        (-0.20, -0.10, "slower"),
        (0.01, 0.20, "faster"),  # more than nothing, and not shown to be small
        (0.01, 0.03, "different-but-small"),
        (-0.03, -0.01, "different-but-small"),
        (-0.02, 0.02, "tie"),
        (-0.02, 0.06, "inconclusive"),
    ],
)
def test_words(low, high, said):
    mean, half = (low + high) / 2, (high - low) / 2
    inner = (mean - 0.8 * half, mean + 0.8 * half)
    assert word(mean, (low, high), inner, 0.05, +1) == said
    mirrored = {"faster": "slower", "slower": "faster"}.get(said, said)
    assert word(mean, (low, high), inner, 0.05, -1) == mirrored


def test_the_narrower_interval_decides_the_tie():
    assert word(0.0, (-0.06, 0.06), (-0.045, 0.045), 0.05, +1) == "tie"


@given(intervals, margins, st.sampled_from([1, -1]))
def test_swapping_the_lanes_mirrors_the_word(seen, margin, better):
    mean, outer, inner = seen
    swapped = word(-mean, (-outer[1], -outer[0]), (-inner[1], -inner[0]), margin, better)
    mirror = {"faster": "slower", "slower": "faster"}
    said = word(mean, outer, inner, margin, better)
    assert swapped == mirror.get(said, said)


@given(intervals, margins, margins)
def test_a_wider_margin_only_makes_small_of_large_and_ties_of_doubt(seen, one, other):
    narrow, wide = sorted((one, other))
    mean, outer, inner = seen
    before, after = (word(mean, outer, inner, margin, +1) for margin in (narrow, wide))
    assert (
        after
        in {
            "faster": {"faster", "different-but-small"},
            "slower": {"slower", "different-but-small"},
            "different-but-small": {"different-but-small"},
            "tie": {"tie"},
            "inconclusive": {"inconclusive", "tie"},
        }[before]
    )


@given(intervals, margins)
def test_word_and_interval_never_contradict(seen, margin):
    mean, outer, inner = seen
    excludes = outer[0] > 0 or outer[1] < 0
    said = word(mean, outer, inner, margin, +1)
    assert excludes == (said in {"faster", "slower", "different-but-small"})


# --- the whole judge

figures = st.lists(st.tuples(st.floats(900, 1300), st.floats(900, 1300)), min_size=6, max_size=12)
# settings: the fixture is a plain function and holds no state
stateless = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)


@stateless
@given(seen=figures)
def test_swapping_lanes_negates_the_effect(run, seen):
    a, b = [x for x, _ in seen], [y for _, y in seen]
    there, back = (first(run([cell], looks=(len(seen),))) for cell in ({"x": a, "y": b}, {"y": b, "x": a}))
    assert (there.lane, back.lane) == ("y", "x")
    for end, other in (("low", "high"), ("tie_low", "tie_high"), ("ratio", "ratio")):
        assert getattr(there, end) == pytest.approx(1 / getattr(back, other), rel=1e-9)
    assert back.verdict == {"faster": "slower", "slower": "faster"}.get(there.verdict, there.verdict)


@stateless
@given(seen=figures, factor=st.sampled_from([1e-3, 0.5, 7.0, 1e6]))
def test_scaling_both_changes_nothing(run, seen, factor):
    a, b = [x for x, _ in seen], [y for _, y in seen]
    plain = first(run([{"x": a, "y": b}], looks=(len(seen),)))
    scaled = first(run([{"x": [v * factor for v in a], "y": [v * factor for v in b]}], looks=(len(seen),)))
    assert scaled.verdict == plain.verdict
    for end in ("low", "ratio", "high", "joint_low", "joint_high", "tie_low", "tie_high"):
        assert getattr(scaled, end) == pytest.approx(getattr(plain, end), rel=1e-9)
    assert scaled.lane_value == pytest.approx(plain.lane_value * factor)


@stateless
@given(seen=st.lists(figures, min_size=1, max_size=4))
def test_the_joint_interval_holds_the_others_and_decides_words(run, seen):
    """The printed interval never contradicts the word: it excludes no difference wherever the joint one does."""
    cells = [{"x": [x for x, _ in cell], "y": [y for _, y in cell]} for cell in seen]
    for v in primaries(run(cells)):
        for ends in (
            [v.joint_low, v.low, v.ratio, v.high, v.joint_high],
            [v.joint_low, v.tie_low, v.ratio, v.tie_high, v.joint_high],
        ):
            assert ends == sorted(ends)
        differs = v.joint_low > 1 or v.joint_high < 1
        assert differs == (v.verdict in {"faster", "slower", "different-but-small"})
        assert (v.verdict in {"tie", "different-but-small"}) == (v.tie_low > 1 / 1.05 and v.tie_high < 1.05)


# --- one lane, one cell


def test_primaries_alone_are_judged_as_among_all(run):
    cells = [
        {"base": around(1000, 10), "new": around(at, 10, -0.02), "old": around(990, 10, 0.01)} for at in (1010, 1100)
    ]
    made = run(cells, others=lambda lane, block, value: {"lat_mean": 1e9 / value + block, "bw": value * 4096})
    every = judge(made, ())
    assert {v.metric for v in every} == {"iops", "lat_mean", "bw"}
    assert judge(made, (), primary_only=True) == tuple(v for v in every if v.primary)


def test_faster_with_everything_a_reader_needs(run):
    v = first(run([{"base": around(1000, 6), "new": around(1200, 6, -0.004)}], looks=(6,)))
    assert (v.verdict, v.lane, v.baseline, v.metric, v.primary, v.headline) == (
        "faster", "new", "base", "iops", True, True,
    )  # fmt: skip
    assert v.ratio == pytest.approx(v.lane_value / v.baseline_value)
    assert v.ratio == pytest.approx(1.2, rel=0.01)
    assert v.low < v.tie_low < v.ratio < v.tie_high < v.high
    assert v.level == 0.05
    assert (v.blocks, v.voided, v.more_blocks, v.margin) == (6, 0, None, 0.05)
    assert v.key == f"{v.workload}.{v.cell.replace(' ', '-')}"


def test_less_is_better_for_latency(run):
    made = run([{"base": around(1e6, 6), "new": around(8e5, 6, -0.004)}], looks=(6,), primary="lat_mean")
    v = only(judge(made, ()), "lat_mean")
    assert v.verdict == "faster"
    assert v.high < 1, "the ratio is that of the metric itself"


def test_margins_of_the_study_count(run):
    cells = [{"base": around(1000, 8), "new": around(1080, 8, -0.004)}]
    assert first(run(cells, looks=(8,))).verdict == "faster"
    v = first(run(cells, looks=(8,), margins={"iops": 0.2}))
    assert (v.verdict, v.margin) == ("different-but-small", 0.2)


def test_a_tie_is_proven(run):
    assert first(run([{"base": around(1000, 8), "new": around(1001, 8, -0.004)}], looks=(8,))).verdict == "tie"


def test_doubt_tells_how_many_blocks_it_takes(run):
    cells = [{"base": around(1000, 6), "new": around(1010, 6, -0.08)}]
    v = first(run(cells, looks=(6,)))
    assert v.verdict == "inconclusive"
    assert not v.headline
    assert v.more_blocks == 7
    enough = 6 + v.more_blocks
    later = first(run([{"base": around(1000, enough), "new": around(1010, enough, -0.08)}], looks=(enough,)))
    assert math.log(later.high / later.ratio) == pytest.approx(EDGE, rel=0.2), "the pattern's spread is not the same"


def test_a_clear_difference_needs_few_blocks_however_wide_its_interval(run):
    def after(blocks):
        new = [1500 * math.exp(side) for side in (0.3, -0.3) * (blocks // 2)]
        return first(run([{"base": [1000] * len(new), "new": new}], looks=(len(new),)))

    v = after(4)
    assert (v.verdict, v.joint_low < 1) == ("inconclusive", True)
    assert 1 < v.more_blocks <= 4, "within the margin its interval would be after some hundred"
    assert after(4 + 2 * -(-v.more_blocks // 2)).verdict == "faster"


def test_values_are_geometric_means_and_merged_percentiles(run):
    def latency(lane, block):
        slow = 10_000_000 if lane == "new" else 5_000_000
        return {100_000: 9000, slow: 1000} if block % 2 else {100_000: 900, slow: 100}

    made = run([{"base": [100.0, 400.0] * 3, "new": [200.0, 800.0] * 3}], looks=(6,), latency=latency)
    verdicts = judge(made, ())
    assert only(verdicts).baseline_value == pytest.approx(200)
    assert only(verdicts).lane_value == pytest.approx(400)
    p99 = only(verdicts, "lat_p99")
    assert (p99.lane_value, p99.baseline_value) == (10_000_000, 5_000_000)
    assert (p99.verdict, p99.primary, p99.headline) == ("slower", False, False)


def test_no_spread_gives_a_point_and_says_so(run):
    v = first(run([{"base": [1000.0] * 3, "new": [1100.0] * 3}], looks=(3,)))
    assert (v.verdict, v.headline, v.held) == ("faster", False, "few-blocks"), "three blocks bear no headline"
    assert v.low == pytest.approx(v.high)
    assert "no-spread" in noted(v.notes)
    assert first(run([{"base": [1000.0] * 6, "new": [1100.0] * 6}], looks=(6,))).headline


def test_no_interval_is_narrower_than_the_bins(run):
    """One bin apart in every block is not a proven difference: both p50s may lie on the same side of the bin's edge."""
    bins = {"base": {100_352: 5000}, "new": {101_888: 5000}}
    made = run([{"base": around(1000, 6), "new": around(1000, 6)}], looks=(6,), latency=lambda lane, _: bins[lane])
    p50 = only(judge(made, ()), "lat_p50")
    assert p50.verdict == "tie"
    assert p50.low < 1 < p50.high
    assert "1.57%" in note(p50.notes, "no-spread")


def test_iops_are_counted_in_whole_ios(run):
    """922 I/Os in every trial of one lane and 923 in those of the other: that is how the clock cut the last one off."""
    made = run(
        [{"base": [1844.0] * 3, "new": [1846.0] * 3}],
        looks=(3,),
        latency=lambda lane, _: {500_000: 922 if lane == "base" else 923},
    )
    assert first(made).verdict == "tie"


# --- failed trials


def test_a_failed_trial_voids_its_block(run):
    base, new = around(1000, 10), around(1200, 10, -0.004)
    new[3], base[7] = None, None
    v = first(run([{"base": base, "new": new}], looks=(10,)))
    assert (v.blocks, v.voided, v.verdict) == (8, 2, "faster")
    assert v.level == pytest.approx(0.05), "one look: all of alpha, whatever is left"


def test_nothing_left_is_refused(run):
    v = first(run([{"base": around(1000, 6), "new": [None] * 6}], looks=(6,)))
    assert (v.verdict, v.blocks, v.voided, v.headline) == ("refused", 0, 6, False)
    assert noted(v.notes) == ["all-failed"]
    assert "new" in v.notes[0].split()
    assert (v.ratio, v.low, v.high, v.lane_value) == (None,) * 4
    never = first(run([{"base": [None, 1.0] * 3, "new": [1.0, None] * 3}], looks=(6,)))
    assert noted(never.notes) == ["no-block"]


def test_one_block_has_no_interval(run):
    made = run([{"base": [1000.0, None], "new": [1200.0, 1.0]}], looks=(2,))
    v = first(made)
    assert (v.verdict, v.low, v.more_blocks, v.blocks, v.headline) == ("no-spread", None, None, 1, False)
    assert v.ratio == pytest.approx(1.2)
    assert noted(v.notes) == ["single-trials"]
    assert v.notes[0].count(" 6 ") == 2, "blocks, or repeats"
    waiting = first(replace(made, complete=False))
    assert waiting.verdict == "inconclusive", "more may come"


def test_a_cell_with_one_block_goes_on(run):
    made = run([{"base": around(1000, 6), "new": [1200.0, *[None] * 5]}])
    assert open_cells(made.study, made.observations, 0) == {made.cells()[0].key}


def test_a_trial_that_did_nothing_voids_its_block(run):
    v = first(run([{"base": around(1000, 6), "new": [0.0, *around(1200, 5)]}], looks=(6,)))
    assert (v.blocks, v.voided) == (5, 1)


def test_percentiles_need_ten_beyond_in_every_block(run):
    def latency(lane, block):
        return {1000: 999 if (lane, block) == ("new", 4) else 1000}

    cells = [{"base": around(1000, 6), "new": around(1200, 6)}]
    shown = {v.metric for v in judge(run(cells, looks=(6,), latency=latency), ())}
    assert shown == {"iops", "lat_p50", "lat_p95"}
    v = only(judge(run(cells, looks=(6,), latency=latency, primary="lat_p99"), ()), "lat_p99")
    assert (v.verdict, noted(v.notes)) == ("refused", ["too-few-beyond"])
    assert {"10", "4"} <= set(v.notes[0].split())
    assert "p99 latency" in v.notes[0]


def test_a_primary_that_was_not_measured_is_refused(run):
    made = run([{"base": around(1000, 6), "new": around(1200, 6)}], looks=(6,))
    bare = replace(made, observations=tuple(replace(o, metrics={"bw": 1.0}) for o in made.observations))
    v = only(judge(bare, ()))
    assert (v.verdict, noted(v.notes)) == ("refused", ["no-metric"])
    assert {"new", "IOPS"} <= set(v.notes[0].split())


# --- many claims


def test_primaries_share_the_error(run):
    cells = [{"base": around(1000, 6), "a": around(1200, 6, -0.004), "b": around(1002, 6, -0.1)} for _ in range(2)]
    verdicts = [v for v in judge(run(cells, looks=(6,)), ()) if v.primary]
    assert [(v.lane, v.verdict) for v in verdicts] == [("a", "faster"), ("b", "inconclusive")] * 2
    levels = [
        drawn_at(v.joint_low, v.joint_high, logs_of(cell, v.lane))
        for v, cell in zip(verdicts, [cell for cell in cells for _ in "ab"], strict=True)
    ]
    assert levels == pytest.approx([0.05 / 4, 0.05 / 2] * 2), "those rejected first pass their share on"
    assert {v.level for v in verdicts} == {0.05}, "printed is the interval of one comparison, and there is one look"
    for v, cell in zip(verdicts, [cell for cell in cells for _ in "ab"], strict=True):
        assert drawn_at(v.low, v.high, logs_of(cell, v.lane)) == pytest.approx(0.05)


def test_the_rest_is_exploratory(run):
    others = {"bw": 4096.0, "lat_mean": 2.0, "cpu_per_io": 3.0}
    made = run(
        [{"base": around(1000, 6), "new": around(1200, 6, -0.004)}],
        looks=(6,),
        others=lambda lane, block, value: {name: value * factor for name, factor in others.items()},
    )
    verdicts = judge(made, ())
    assert [v.metric for v in verdicts] == ["iops", "bw", "lat_mean", "cpu_per_io"]
    assert [v.verdict for v in verdicts] == ["faster", "faster", "slower", "slower"]
    assert [v.headline for v in verdicts] == [True, False, False, False]
    assert {v.level for v in verdicts[1:]} == {0.05}, "all three rejected: the whole alpha by Benjamini-Hochberg"


def test_critical_findings_take_the_headline(run):
    made = run([{"base": around(1000, 6), "a": around(1200, 6), "b": around(1300, 6)} for _ in range(2)], looks=(6,))
    one, two = (cell.key for cell in made.cells())

    def headlines(**where):
        found = Finding("x", **{"severity": "critical", "message": "m", **where})
        verdicts = judge(made, [found])
        assert all(v.headline != (v.held == "finding") for v in verdicts)
        return [v.headline for v in verdicts]

    assert headlines() == [False] * 4, "no cell named: all"
    assert headlines(severity="warning") == [True] * 4
    assert headlines(cells=(one,)) == [False, False, True, True]
    assert headlines(cells=(two,), lanes=("a",)) == [True, True, False, True]
    assert headlines(lanes=("base",)) == [False] * 4, "every comparison leans on the baseline"


# --- refused by the guard


def test_a_finding_that_refuses_takes_the_verdict_of_every_metric(run):
    made = run([{"base": around(1000, 6), "a": around(1200, 6), "b": around(1300, 6)} for _ in range(2)], looks=(6,),
               others=lambda lane, block, value: {"bw": value * 4096})  # fmt: skip
    one, two = (cell.key for cell in made.cells())

    def refused(*messages, **where):
        found = [Finding("unmatched", "critical", m, refuses=True, **where) for m in messages]
        return {(v.key, v.lane, v.metric) for v in judge(made, found) if v.verdict == "refused"}

    every = {(key, lane, metric) for key in (one, two) for lane in "ab" for metric in ("iops", "bw")}
    assert refused("the ramps differ") == every, "it names nothing: all"
    assert refused("the ramps differ", cells=(one,), lanes=("a",)) == {x for x in every if x[:2] == (one, "a")}
    assert refused("x", lanes=("base", "b")) == {x for x in every if x[1] == "b"}, "the baseline is in every comparison"
    assert refused("x", lanes=("base",)) == every
    assert refused() == set()
    (v, *_) = judge(made, [Finding("unmatched", "critical", m, refuses=True) for m in ("ramp", "size", "ramp")])
    assert v.notes == ("ramp", "size")
    assert (v.ratio, v.low, v.tie_low, v.more_blocks, v.detectable, v.headline) == (None,) * 5 + (False,)
    assert v.lane_value == pytest.approx(1200, rel=0.01), "what each lane did is known all the same"


def test_a_refused_contest_leaves_the_others_as_they_are(run):
    cell = {"base": around(1000, 6), "a": around(1200, 6), "b": around(1300, 6, -0.01)}
    made = run([cell], looks=(6,))
    plain = [v for v in judge(made, ()) if v.lane == "b"]
    found = Finding("unmatched", "critical", "ramp", lanes=("a",), refuses=True)
    guarded = [v for v in judge(made, [found]) if v.lane == "b"]
    assert (plain[0].ratio, plain[0].verdict) == (guarded[0].ratio, guarded[0].verdict)
    joint = drawn_at(guarded[0].joint_low, guarded[0].joint_high, logs_of(cell, "b"))
    assert joint == pytest.approx(0.025), "what is refused counts among the primaries: the study has it"
    assert (guarded[0].low, guarded[0].high) == (plain[0].low, plain[0].high)


# --- what could have been found


def test_detectable_is_found_in_four_of_five(run):
    """Lanes that truly differ by it, with the spread seen: 80 % of the intervals exclude no difference."""
    v = first(run([{"base": around(1000, 10), "new": around(1010, 10, -0.15)}], looks=(10,)))
    assert v.verdict == "inconclusive"
    sd = np.std(np.log(around(1010, 10, -0.15)) - np.log(around(1000, 10)), ddof=1)
    rng = np.random.default_rng(20)
    d = rng.normal(math.log1p(v.detectable), sd, (40_000, 10))
    t = d.mean(1) / (d.std(1, ddof=1) / 10**0.5)
    assert (t > stats.t.isf(v.level / 2, 9)).mean() == pytest.approx(0.8, abs=0.008)
    assert f"{v.detectable:.2%}" in note(v.notes, "detectable")


def test_a_difference_beyond_all_measure_is_not_given_to_the_digit(run):
    v = first(run([{"base": [1000.0, 1300.0], "new": [1400.0, 900.0]}], looks=(2,)))
    assert v.verdict == "inconclusive"
    assert v.detectable is not None
    assert v.detectable > 9
    assert "%" not in note(v.notes, "detectable")


def test_detectable_is_no_less_than_the_figures_steps(run):
    bins = {"base": {100_352: 5000}, "new": {101_888: 5000}}
    made = run([{"base": around(1000, 6), "new": around(1000, 6)}], looks=(6,), latency=lambda lane, _: bins[lane])
    assert only(judge(made, ()), "lat_p50").detectable == pytest.approx(math.expm1(2 / 128))


# --- looks


def growing(n, noise=0.05):
    return {"base": around(1000, n), "new": around(1060, n, -noise)}


def test_between_two_looks_nothing_moves(run):
    at_six = first(run([growing(6)], complete=False))
    for n in (7, 8, 9):
        v = first(run([growing(n)], complete=False))
        assert replace(v, notes=()) == replace(at_six, notes=())
        assert re.findall(r"\d+", note(v.notes, "waiting")) == [str(n - 6), "10"]


def test_before_the_first_look_there_is_no_interval(run):
    v = first(run([growing(5)], complete=False))
    assert (v.verdict, v.low, v.blocks) == ("inconclusive", None, 5)
    assert "6" in note(v.notes, "before-first-look").split()


@pytest.mark.parametrize(("look", "n"), list(enumerate(LOOKS)))
def test_every_look_has_its_level(run, look, n):
    v = first(run([growing(n)]))
    logs = logs_of(growing(n))
    joint = nominal_levels(LOOKS, 0.05)[look]
    assert drawn_at(v.joint_low, v.joint_high, logs) == pytest.approx(joint)
    assert drawn_at(v.tie_low, v.tie_high, logs) == pytest.approx(nominal_levels(LOOKS, 0.10)[look])
    assert v.level == pytest.approx(max(0.3 * 0.05, joint)), "printed with its own spread, within the joint one"
    assert drawn_at(v.low, v.high, logs) == pytest.approx(v.level)
    assert v.blocks == n


def test_voided_blocks_take_no_look_away(run):
    cell = growing(20)
    cell["new"][11] = None
    v = first(run([cell]))
    assert (v.blocks, v.voided) == (19, 1)
    joint = level(LOOKS, (6, 10, 14, 19), 0.05)
    low, high = Effect(tuple(logs_of(cell))).interval(joint)
    assert v.joint_low < math.exp(low) < math.exp(high) < v.joint_high, "the failed trial may have been any of these"
    third, last = nominal_levels(LOOKS, 0.05)[2:]
    assert joint == pytest.approx(last, rel=0.05)
    assert joint > 1.5 * third


def test_a_cell_without_a_trial_yet_is_no_refusal(run):
    both = {"base": [1000.0, 1010.0], "new": [1100.0, 1110.0]}
    cells = [both, {"base": [1000.0], "new": []}, {"base": [], "new": []}]
    open_ = {v.cell: v.verdict for v in judge(run(cells, complete=False), ()) if v.primary}
    assert set(open_.values()) == {"inconclusive"}
    ended = {v.cell: v.verdict for v in judge(run(cells), ()) if v.primary}
    assert sorted(ended.values()) == ["inconclusive", "refused", "refused"]


def test_what_withholds_a_headline_is_named(run):
    few = first(run([{"base": [1000.0, 1001.0, 999.0], "new": [1500.0, 1501.0, 1502.0]}], looks=(3,)))
    assert (few.held, few.held_because) == ("few-blocks", "3 blocks, 6 are needed")
    clear = run([{"base": [1000.0] * 6, "new": [1500.0 + n for n in range(6)]}], looks=(6,))
    drops = Finding("drops", "critical", "packets were lost (drops: 3): repair the network.")
    (found,) = (v for v in judge(clear, (drops,)) if v.primary)
    assert (found.held, found.held_because) == ("finding", "critical finding: packets were lost (drops: 3)")


def test_further_blocks_are_counted_in_provisionings_where_these_are_compared(run):
    noisy = run([{"base": [1000.0] * 12, "new": [900.0, 901.0, 1300.0, 1301.0, 950.0, 951.0] * 2}], looks=(12,))
    design = noisy.study.design.model_copy(update={"provisionings": 6})
    v = first(replace(noisy, study=noisy.study.model_copy(update={"design": design})))
    assert v.more_blocks
    assert (v.blocks_per_unit, v.more_blocks % 2) == (2, 0)
    assert "further provisioning" in further([v])


def test_a_missing_block_of_an_unfinished_run_is_waited_for(run):
    made = run([growing(10)], complete=False)
    without = [o for o in made.observations if (o.block, o.lane) != (8, "new")]
    v = first(replace(made, observations=tuple(without)))
    assert v.blocks == 6
    assert drawn_at(v.joint_low, v.joint_high, logs_of(growing(6))) == pytest.approx(nominal_levels(LOOKS, 0.05)[0])


def test_open_cells_stop_when_decided(run):
    clear = {"base": around(1000, 10), "new": around(1400, 10, -0.004)}
    open_ = {"base": around(1000, 10), "new": around(1030, 10, -0.05)}
    made = run([clear, open_])
    keys = [cell.key for cell in made.cells()]
    assert open_cells(made.study, made.observations, 0) == set(keys), "two cells of six blocks know their spread badly"
    assert open_cells(made.study, made.observations, 1) == {keys[1]}


def test_open_cells_do_not_come_back(run):
    """The first cell stopped at 6 blocks, whatever is said of it now: without more blocks it is not open."""
    stopped = {"base": around(1000, 6), "new": around(1030, 6, -0.05)}
    going = {"base": around(1000, 10), "new": around(1030, 10, -0.05)}
    made = run([stopped, going])
    keys = [cell.key for cell in made.cells()]
    assert open_cells(made.study, made.observations, 0) == set(keys)
    assert open_cells(made.study, made.observations, 1) == {keys[1]}


def test_open_cells_do_not_see_later_blocks(run):
    made = run([growing(14)])
    before = [o for o in made.observations if o.block < 10]
    assert open_cells(made.study, made.observations, 1) == open_cells(made.study, before, 1)


def test_nothing_goes_on_after_the_last_look(run):
    made = run([growing(20)])
    assert open_cells(made.study, made.observations, 3) == frozenset()
    with pytest.raises(IndexError):
        open_cells(made.study, made.observations, 4)


def test_a_lane_that_always_fails_keeps_no_cell_open(run):
    made = run([{"base": around(1000, 6), "new": [None] * 6}])
    assert open_cells(made.study, made.observations, 0) == frozenset()


def test_a_verdict_stays_when_other_cells_lose_theirs(run):
    """At the first look all are decided but the second lane of the other cell. That cell goes on and its first lane
    falls back into doubt; the stopped cell keeps its level and its word."""
    stopped = {"base": around(1000, 6), "a": around(1300, 6, -0.004), "b": around(1300, 6, -0.004)}
    other = {
        "base": around(1000, 10),
        "a": [*around(1300, 6, -0.004), 300.0, 3000.0, 200.0, 1000.0],
        "b": around(1010, 10, -0.1),
    }
    early = run([stopped, {lane: values[:6] for lane, values in other.items()}])
    late = run([stopped, other])
    before, after = ([v for v in judge(made, ()) if v.primary] for made in (early, late))
    assert [v.verdict for v in before[:3]] == ["faster"] * 3
    assert after[2].verdict == "inconclusive"
    assert after[:2] == before[:2]
