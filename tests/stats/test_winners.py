import math

import numpy as np
import pytest

from fairlane.records import Finding
from fairlane.stats.judge import judge
from fairlane.stats.winners import winners


def lanes(rng, speeds, blocks=20, sd=0.01, shared=0.1):
    common = rng.normal(0, shared, blocks)
    return {
        name: list(1000 * speed * np.exp(common + rng.normal(0, sd, blocks)))
        for name, speed in zip("abcdefgh", speeds, strict=False)
    }


def found_in(evidence, findings=()):
    return winners(evidence, judge(evidence, findings), findings)


def of(run, cell, **options):
    (found,) = found_in(run([cell], **options))
    return found


def test_the_clear_best_and_by_how_much_it_beats_the_others(run):
    found = of(run, lanes(np.random.default_rng(1), [1.0, 1.5, 1.2]))
    assert found.plausible == ("b",)
    beaten_by, ratio = found.out["a"]
    assert beaten_by == "b"
    assert 1.45 < ratio < 1.5
    assert found.out["c"][0] == "b"
    assert 1.2 < found.out["c"][1] < 1.25


def test_lanes_that_are_not_told_apart_are_all_plausible(run):
    found = of(run, lanes(np.random.default_rng(2), [1.0, 1.5, 1.5, 1.49]))
    assert "a" not in found.plausible
    assert {"b", "c"} <= set(found.plausible)
    assert set(found.plausible) | set(found.out) == set(found.lanes)


def test_less_is_better_for_latency(run):
    found = of(run, lanes(np.random.default_rng(3), [1.0, 0.5, 0.8]), primary="lat_mean")
    assert found.plausible == ("b",)
    assert 0.5 < found.out["a"][1] < 0.55


def test_the_judge_decides_between_two_others_as_it_would_alone(run):
    cell = lanes(np.random.default_rng(4), [1.0, 1.5, 1.2])
    cell["c"][2] = None
    (alone,) = (v for v in judge(run([{"b": cell["b"], "c": cell["c"]}]), ()) if v.primary)
    assert (alone.verdict, alone.blocks) == ("slower", 19)
    assert of(run, cell).out["c"] == ("b", pytest.approx(1 / alone.joint_high))  # type: ignore[operator]


def test_what_withholds_a_verdict_takes_no_lane_out(run):
    """Of the slower lane a quarter of the trials fail: they may have been the fast ones."""
    cell = lanes(np.random.default_rng(4), [1.0, 1.5, 1.3])
    assert of(run, cell).plausible == ("b",)
    cell["c"][::4] = [None] * 5
    assert of(run, cell).plausible == ("b", "c")


def test_the_verdicts_decide_against_the_baseline(run):
    """Also where the common blocks of the two lanes alone would say otherwise: a verdict has the spread of other cells,
    is corrected for all comparisons, and may be withheld."""
    rng = np.random.default_rng(5)
    evidence = run([lanes(rng, [1.0, 1.12, 0.9, 0.97], blocks=6, sd=0.05) for _ in range(4)], looks=[6])
    verdicts = judge(evidence, ())
    words = {v.verdict for v in verdicts if v.primary}
    assert {"faster", "inconclusive"} <= words
    for w in winners(evidence, verdicts):
        mine = {v.lane: v.verdict for v in verdicts if v.primary and v.key == w.key}
        assert ("a" in w.out) == ("faster" in mine.values())
        assert {lane for lane, word in mine.items() if word == "slower"} <= set(w.out)
    stain = Finding("drops", "critical", "packets were dropped")
    assert all("a" not in w.out for w in found_in(evidence, (stain,)))


def test_two_lanes_have_verdicts_and_no_set(run):
    assert found_in(run([lanes(np.random.default_rng(6), [1.0, 1.5])])) == ()


def test_before_the_first_look_nothing_is_said(run):
    assert found_in(run([lanes(np.random.default_rng(7), [1, 2, 3], blocks=5)], complete=False)) == ()


def test_blocks_beyond_the_last_look_reached_wait(run):
    cell = lanes(np.random.default_rng(8), [1.0, 1.5, 1.2], blocks=9)
    six = {lane: values[:6] for lane, values in cell.items()}
    assert of(run, cell, complete=False).out == of(run, six, complete=False).out


def test_a_lane_without_figures_is_left_out_and_says_so(run):
    cell = lanes(np.random.default_rng(9), [1.0, 1.5, 1.2, 2.0])
    cell["d"] = [None] * 20
    found = of(run, cell)
    assert found.lanes == ("a", "b", "c")
    assert found.left_out == {"d": "every trial of d failed"}
    assert found.plausible == ("b",)


def test_refused_lanes_are_left_out(run):
    evidence = run([lanes(np.random.default_rng(10), [1.0, 1.5, 1.2, 2.0])])
    key = evidence.cells()[0].key
    refusal = Finding("unmatched", "critical", "another disk size", (key,), ("d",), refuses=True)
    (found,) = found_in(evidence, (refusal,))
    assert found.left_out == {"d": "another disk size"}
    assert found.plausible == ("b",)
    elsewhere = Finding("unmatched", "critical", "another disk size", ("other",), ("d",), refuses=True)
    assert found_in(evidence, (elsewhere,))[0].plausible == ("d",)
    everything = Finding("unmatched", "critical", "nothing matches", refuses=True)
    assert found_in(evidence, (everything,)) == ()


def test_swapping_names_swaps_the_answer(run):
    cell = lanes(np.random.default_rng(11), [1.0, 1.5, 1.2])
    found = of(run, cell)
    turned = of(run, {"a": cell["b"], "b": cell["c"], "c": cell["a"]})
    names = {"b": "a", "c": "b", "a": "c"}
    assert {names[lane] for lane in found.plausible} == set(turned.plausible)
    assert {names[lane]: names[by] for lane, (by, _) in found.out.items()} == {
        lane: by for lane, (by, _) in turned.out.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("speeds", [[1, 1, 1], [1, 1, 1, 1, 1], [1, 0.99, 0.98]])
def test_the_best_is_in_the_set_with_95_percent(run, speeds):
    """Where all are equal the first is a best one: it is left out in at most 5 % of 400 studies."""
    rng = np.random.default_rng(13)
    missed = sum("a" in of(run, lanes(rng, speeds, blocks=6, sd=0.02), looks=[6]).out for _ in range(400))
    assert missed / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
