import math
import re

import numpy as np

from fairlane.stats.contests import Past, Stage
from fairlane.stats.effects import Effect, position_effect
from fairlane.stats.footnotes import carried_over, order, past, robustness
from fairlane.stats.moving import Move
from fairlane.stats.neighbours import alike
from tests.words import note, noted


def notes(d, level=0.05, resolution=0.0):
    effect = Effect(tuple(d), resolution)
    return list(robustness(effect, level))


def dependence(effect, lane, baseline, lane_first, among):
    """As of a pair of lanes with a single cell."""
    stage = Stage(effect, (20,), (20,), past=Past(memory=alike(effect.logs)))
    return [*past(stage), *order(effect.logs, lane_first, (lane, baseline), among)]


def test_well_behaved_blocks_need_no_footnote():
    d = np.random.default_rng(2).normal(0.05, 0.02, 20)
    assert notes(d) == []
    assert list(dependence(Effect(tuple(d)), "a", "b", [i % 2 == 0 for i in range(20)], 1)) == []


def test_a_stall_that_hides_a_difference_is_told():
    """Nine blocks say +10 %, the tenth stalled."""
    told = notes([0.10, 0.11, 0.09, 0.10, 0.12, 0.11, 0.10, 0.09, 0.10, -0.60], level=0.05)
    assert noted(told) == ["pulled"]
    assert {"1.105", "1.033"} <= set(re.findall(r"[\d.]*\d", told[0]))


def test_normal_blocks_are_hardly_ever_pulled():
    rng = np.random.default_rng(6)
    assert sum("pulled" in noted(notes(d)) for d in rng.normal(0, 1e-2, (300, 10))) <= 3


def test_permutation_disagrees_where_t_leans_on_normality():
    told = notes([0.02, 0.03, 0.02, 0.04, 0.03, 0.02, 0.9])
    assert noted(told)[0] == "permutation"
    assert "p = 0.016" in told[0]


def test_permutation_is_not_asked_what_it_cannot_answer():
    """Six blocks: no p below 1/32. That it does not reach a look's 0.0002 is no disagreement."""
    assert notes([0.10, 0.11, 0.09, 0.10, 0.12, 0.11], level=0.0002) == []


def test_no_spread_and_resolution():
    assert noted(notes([0.1] * 4)) == ["no-spread"]
    told = notes([0.0100, 0.0101, 0.0099, 0.0100], resolution=0.0156)
    assert noted(told) == ["resolution"]
    assert "1.57%" in told[0]


def test_dependence_is_told_with_its_size():
    first = [i % 2 == 0 for i in range(20)]
    carried = [0.05 + 0.001 * math.sin(i * 7) - (0.0305 if f else 0) for i, f in enumerate(first)]
    told = list(dependence(Effect(tuple(carried)), "new", "base", first, 8))
    carry = note(told, "carried-over")
    assert "+3.1%" in carry
    assert carry.index("new") < carry.index("base"), "new ran after base"
    wave = tuple(0.05 * math.sin(i / 3) for i in range(20))
    memory = alike(wave)
    said = note(list(dependence(Effect(wave), "new", "base", first, 8)), "correlated")
    numbers = [f"{memory.rho:.2f}", f"{memory.chance:.2g}", f"{memory.widening(20):.1f}"]
    assert [n for n in numbers if n not in said] == []
    moved = Stage(Effect(wave), (20,), (20,), past=Past(move=Move(20, first=6)))
    assert " 6 blocks" in note(list(past(moved)), "left-out")


def test_a_tiny_order_effect_is_not_worth_a_word():
    first = [i % 2 == 0 for i in range(8)]
    told = list(dependence(Effect(tuple(0.001 * f for f in first)), "a", "b", first, 1))
    assert "carried-over" not in noted(told)


def test_an_order_effect_must_stand_out_among_all_primaries():
    """p = 0.03: worth telling in a study of one comparison, not in one of eight."""
    first = [i % 2 == 0 for i in range(8)]
    d = Effect(tuple(0.02 * (not f) + 0.008 * (-1) ** (i // 2) for i, f in enumerate(first)))
    found = position_effect(d.logs, first)
    assert found is not None
    assert 0.0063 < found.p < 0.05
    assert carried_over(d.logs, first, 1) == found
    assert carried_over(d.logs, first, 8) is None
