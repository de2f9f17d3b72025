"""Blocks, lengths and sizes that are planned from a time: they fit into it, and what is given is kept."""

import re

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from fairlane.errors import FairlaneError
from fairlane.versus.plan import LARGEST, SMALLEST, Shape, Sizes, Wanted, sizes

MIB = 2**20
TWO = Shape(2, 2, {"a": 500 * MIB, "b": 500 * MIB}, room=2**40)


def test_three_minutes_are_twelve_blocks_by_default() -> None:
    plan = sizes(Wanted(), TWO)
    assert plan.blocks == 12
    assert plan.looks == (6, 8, 10, 12)
    assert plan.seconds <= 180
    assert plan.runtime >= 1


def test_more_time_gives_longer_trials_first_and_then_more_blocks() -> None:
    plans = [sizes(Wanted(seconds=minutes * 60), TWO) for minutes in (1, 3, 10, 30, 120)]
    assert [plan.runtime for plan in plans] == sorted(plan.runtime for plan in plans)
    assert [plan.blocks for plan in plans] == sorted(plan.blocks for plan in plans)
    assert plans[-1].blocks == 40


@drawn(
    seconds=st.floats(60, 36_000),
    cells=st.integers(1, 6),
    lanes=st.integers(2, 4),
    speed=st.floats(MIB, 20_000 * MIB),
    room=st.integers(SMALLEST, 2**42),
)
def test_a_plan_fits_into_its_time_or_is_refused(
    seconds: float, cells: int, lanes: int, speed: float, room: int
) -> None:
    shape = Shape(cells, lanes, {str(n): speed for n in range(lanes)}, room=room)
    try:
        plan: Sizes | None = sizes(Wanted(seconds=seconds), shape)
    except FairlaneError as error:
        plan = None
        kind = error.kind
    if plan is None:
        assert kind == "time-short"
        return
    assert plan.seconds <= seconds * 1.01
    assert plan.size is not None
    assert min(room, SMALLEST) <= plan.size <= min(room, LARGEST)
    assert plan.looks[-1] == plan.blocks


def test_what_is_given_is_kept() -> None:
    plan = sizes(Wanted(blocks=5, runtime=0.3, size=8 * MIB), TWO)
    assert (plan.blocks, plan.looks, plan.runtime, plan.size) == (5, (5,), 0.3, 8 * MIB)


def test_a_tail_gets_trials_of_seconds() -> None:
    assert sizes(Wanted(), Shape(1, 2, TWO.fill, room=2**40, tail=True)).runtime >= 2


def test_existing_files_give_the_size_and_larger_ones_are_refused() -> None:
    shape = Shape(2, 2, {}, existing=10 * MIB + 5000)
    assert sizes(Wanted(), shape).size == 10 * MIB
    with pytest.raises(FairlaneError) as refused:
        sizes(Wanted(size=11 * MIB), shape)
    assert refused.value.kind == "size-large"


def test_a_tail_on_a_slow_path_gets_longer_trials_or_a_warning() -> None:
    slow = Shape(1, 2, {}, existing=2**34, tail=True, slowest=50)
    patient = sizes(Wanted(seconds=1800), slow)
    assert patient.runtime * 50 >= 1000
    assert not patient.warnings
    hasty = sizes(Wanted(seconds=180), slow)
    assert hasty.runtime * 50 < 1000
    assert hasty.warnings
    assert sizes(Wanted(blocks=6), slow).runtime * 50 >= 1000
    assert sizes(Wanted(blocks=6, runtime=2), slow).warnings
    assert not sizes(Wanted(), Shape(1, 2, {}, existing=2**34, tail=True, slowest=5000)).warnings


def test_a_time_that_is_too_short_names_the_least_that_does() -> None:
    with pytest.raises(FairlaneError) as refused:
        sizes(Wanted(seconds=20), TWO)
    assert refused.value.kind == "time-short"
    found = re.search(r"--for (\d+)s", refused.value.hint)
    assert found
    least = int(found[1])
    assert sizes(Wanted(seconds=least), TWO).blocks == 6
    with pytest.raises(FairlaneError):
        sizes(Wanted(seconds=least - 2), TWO)
