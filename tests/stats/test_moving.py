"""A lane that moves against the other: which first blocks are left out, and when nothing is said."""

import math

import numpy as np
import pytest
from scipy import stats

from fairlane.records import Evidence
from fairlane.stats.answers import moved, word
from fairlane.stats.contests import ALIKE
from fairlane.stats.moving import ALONE, MOVES, Move, move, trend
from fairlane.stats.neighbours import memory
from fairlane.stats.stopping import open_cells
from tests.stats.test_judge import primaries
from tests.words import noted


def independent(logs):
    """Whether the blocks of a study of one cell count as independent, all of them: its interval is Student's own."""
    row = (tuple(logs),)
    found = memory(row)
    return not move(row).first and found.chance > ALIKE and found.widening(len(logs)) == 1


def rows(rng, many, n, start, blocks, *, sd=0.02):
    """Log-ratios of cells that begin ``start`` off, and come back with a time constant of so many blocks."""
    course = start * np.exp(-np.arange(n) / blocks)
    return tuple(tuple(course + rng.normal(0, sd, n)) for _ in range(many))


def test_the_slope_of_one_cell_is_that_of_a_regression():
    values = np.random.default_rng(1).normal(0, 0.01, (1, 9))
    fit = stats.linregress(range(9), values[0])
    course, *found = trend(values)
    assert found == pytest.approx((fit.slope, fit.pvalue))
    assert course == pytest.approx(values[0] - values[0].mean())


@pytest.mark.parametrize("shock", [0.0, 0.005, 0.02])
@pytest.mark.parametrize("many", [1, 8])
def test_its_chance_is_a_p_value_whatever_the_cells_share(many, shock):
    """Also where a shock of a block hits all cells alike, and where one cell is noisy."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(1000):
        noise = rng.normal(0, 0.01, (many, 8)) + rng.normal(0, 1, 8) * shock
        noise[0] *= 3
        found.append(trend(noise)[2])
    for level in (0.05, 0.2):
        assert np.mean(np.array(found) <= level) < level + 3.5 * math.sqrt(level / 1000)
        assert np.mean(np.array(found) <= level) > level / 2


def test_eight_cells_show_a_slope_that_one_does_not():
    rng = np.random.default_rng(7)
    seen = {many: [trend(np.array(rows(rng, many, 6, -0.06, 4)))[2] <= 0.05 for _ in range(100)] for many in (1, 8)}
    assert np.mean(seen[1]) < 0.4
    assert np.mean(seen[8]) > 0.8


def test_first_blocks_are_left_out_until_no_slope_is_left():
    rng = np.random.default_rng(3)
    found = [move(rows(rng, 8, 20, -0.15, 4)) for _ in range(100)]
    assert np.mean([m.standing for m in found]) < 0.1
    assert 6 < np.mean([m.first for m in found]) < 14
    still = [move(rows(rng, 8, 20, 0.0, 4)) for _ in range(400)]
    assert np.mean([m.first > 0 for m in still]) == pytest.approx(MOVES, abs=0.07)
    assert np.mean([m.first for m in still]) < 1


def test_a_lane_that_never_arrives_is_still_moving():
    found = move((tuple(0.01 * i + 0.0003 * (-1) ** (i // 2) for i in range(12)),))
    assert found.standing
    assert found.slope == pytest.approx(0.01, rel=0.2)
    assert (found.units, found.first) == (12, 12 - ALONE)
    assert move(((0.0, 0.01, 0.02, 0.03),)) == Move(4), "a cell alone needs six that stay"
    assert move(((0.0, 0.01, 0.02, 0.03),) * 3).standing


def test_less_is_left_out_where_no_more_blocks_will_come():
    rng = np.random.default_rng(8)
    calm = [rows(rng, 8, 10, 0.0, 4) for _ in range(400)]
    often, seldom = (np.mean([move(x, certain=certain).first > 0 for x in calm]) for certain in (False, True))
    assert seldom < 0.08 < often


@pytest.mark.parametrize("values", [(), ((),), ((0.1, 0.2, 0.3),)])
def test_too_few_blocks_tell_nothing(values):
    assert not move(values).standing
    assert move(values).first == 0
    assert move(((0.02,) * 8,)) == Move(8, course=(0.0,) * 8)


def test_a_slope_undoes_a_word_that_it_leads_away_from():
    assert Move(10, first=4, slope=0.004).ahead == pytest.approx(0.048), "6 units stay, 12 more are looked ahead"
    slower, tie = ((-0.1, -0.04), (-0.09, -0.06)), ((-0.01, 0.02), (-0.005, 0.015))
    for made, (joint, test), shift, stands in (
        ("slower", slower, 0.048, False),
        ("slower", slower, 0.03, True),
        ("slower", slower, -0.048, True),  # it grows
        ("tie", tie, 0.048, False),
        ("tie", tie, 0.03, True),
    ):
        assert word(-0.01, joint, test, 0.05, 1) == made
        assert (word(-0.01, moved(joint, shift), moved(test, shift), 0.05, 1) == made) == stands


def test_how_far_the_lanes_moved_on():
    assert Move(6, first=4, course=(-3.0, -1.0, 0.0, 1.0, 1.0, 2.0)).since(0, 2) == 3.5


def test_a_unit_that_a_cell_lacks_is_left_out_of_that_cell():
    rng = np.random.default_rng(4)
    whole = rows(rng, 8, 12, -0.3, 3, sd=0.01)
    holes = tuple((math.nan, *row[1:]) if i < 3 else row for i, row in enumerate(whole))
    assert abs(move(holes).first - move(whole).first) <= 2


# --- in a study


def cells(rng, start, blocks, n=10, many=8):
    moving = rows(rng, many, n, start, blocks, sd=0.01)
    return [{"base": [1000.0] * n, "new": list(1000 * np.exp(x))} for x in moving]


def test_a_cache_that_fills_is_left_out_and_named(run):
    """Equal lanes, of which one begins at half speed."""
    made: Evidence = run(cells(np.random.default_rng(5), -0.7, 1.0, n=14), looks=(14,))
    found = primaries(made)
    assert all(v.blocks < 14 for v in found)
    assert {v.verdict for v in found} <= {"tie", "different-but-small", "inconclusive"}
    assert all("left-out" in noted(v.notes) for v in found)
    assert all(0.97 < v.ratio < 1.03 for v in found)


def test_a_lane_that_still_moves_bears_no_headline_and_ends_no_cell(run):
    made: Evidence = run(cells(np.random.default_rng(6), -0.5, 12.0), looks=(6, 10))
    found = primaries(made)
    assert {v.verdict for v in found} == {"slower"}
    assert {v.held for v in found} == {"moving"}
    assert all("new is still moving" in v.held_because for v in found)
    assert not any(v.headline for v in found)
    assert len(open_cells(made.study, made.observations, 0)) == 8


def test_a_cell_that_had_ended_hears_of_the_move_that_others_show(run):
    """Seven cells show in twenty blocks that the lane came back after the six blocks of the eighth."""
    moving = rows(np.random.default_rng(20), 8, 20, -0.07, 8.0)
    every = [{"base": [1000.0] * 20, "new": list(1000 * np.exp(x))} for x in moving]
    early = [{lane: values[:6] for lane, values in every[0].items()}, *every[1:]]
    (v, *_) = primaries(run(early, looks=(6, 20)))
    assert (v.verdict, v.blocks, v.held) == ("slower", 6, "moving")
    assert "after the 6 blocks of this cell" in v.held_because
    alone = [{lane: values[:6] for lane, values in cell.items()} for cell in every]
    assert "after" not in primaries(run(alone, looks=(6,)))[0].held_because


def test_a_cell_goes_on_while_its_slope_would_undo_the_difference(run):
    """Ten blocks decide it at once where they come in an order without a slope."""
    logs = -0.06 + np.array([-0.012, -0.010, -0.013, -0.004, -0.003, 0.004, 0.006, 0.012, 0.009, 0.011])
    mixed = logs[[4, 7, 0, 9, 2, 5, 1, 8, 3, 6]]
    for order, goes_on in ((logs, True), (mixed, False)):
        cell = {"base": [1000.0] * 10, "new": list(1000 * np.exp(order))}
        made: Evidence = run([cell], looks=(10, 20))
        assert bool(open_cells(made.study, made.observations, 0)) == goes_on
