"""Rules where one lane fails or stalls more than the other: what flatters a rule takes it away."""

from collections.abc import Mapping, Sequence

import pytest

from fairlane.gate.decide import decide
from fairlane.gate.grammar import parse
from fairlane.records import Evidence
from tests.stats.conftest import make_run

LOOK, BLOCKS = 10, 20


def around(level: float) -> list[float | None]:
    return [level * (1 + 0.004 * ((-1) ** block)) for block in range(BLOCKS)]


def failing(lane: str, *blocks: int, new: float = 1200.0) -> Evidence:
    """``new`` and ``base``, of which ``lane`` fails in ``blocks``."""
    cell = {"base": around(1000), "new": around(new)}
    for block in blocks:
        cell[lane][block] = None
    return make_run([cell], looks=(LOOK, BLOCKS))


def word(evidence: Evidence, rule: str) -> str:
    (outcome,) = decide([parse(rule)], evidence, lambda _: ())
    return outcome.word


@pytest.mark.parametrize("lane", ["new", "base"])
@pytest.mark.parametrize(
    ("rule", "few", "many"),
    [
        ("new >= 10 % over base", "met", "not proven"),
        ("new faster than base", "met", "not proven"),
        ("base slower than new", "met", "not proven"),
    ],
)
def test_a_difference_holds_whatever_failed_trials_may_have_shown(rule: str, few: str, many: str, lane: str) -> None:
    """One in ten may fail as an exception; more are a state of the lane, in which it may be half or twice as fast."""
    assert word(failing(lane, 2), rule) == few
    assert word(failing(lane, 2, 5, 7, 11, 13), rule) == many


@pytest.mark.parametrize(
    ("rule", "of_new", "of_base"),
    [
        ("new not slower than base", "not proven", "met"),
        ("new <= 5 % under base", "not proven", "met"),
        ("new <= 30 % over base", "met", "not proven"),
        ("new within 40 % of base", "not proven", "not proven"),
    ],
)
def test_failures_of_one_lane_take_away_that_it_is_as_good(rule: str, of_new: str, of_base: str) -> None:
    assert word(failing("new"), rule) == "met"
    assert word(failing("new", 2), rule) == of_new
    assert word(failing("base", 2), rule) == of_base


@pytest.mark.parametrize(
    ("rule", "failed", "expected"),
    [
        ("iops of new >= 1100", (), "met"),
        ("iops of new >= 1100", (2,), "met"),
        ("iops of new >= 1100", (2, 5, 7, 11, 13), "not proven"),
        ("iops of new <= 1300", (2, 5, 7, 11, 13), "not proven"),
        ("iops of new >= 100", (2, 5, 7, 11, 13), "met"),
    ],
)
def test_a_lanes_own_figure_holds_whatever_its_failed_trials_may_have_shown(
    rule: str, failed: Sequence[int], expected: str
) -> None:
    assert word(failing("new", *failed), rule) == expected


def test_blocks_that_wait_for_the_next_look_do_not_count() -> None:
    late = failing("new", 12, 13, 14, 15)
    running = Evidence(
        late.name, late.study, "", 1, late.blocks[:16], tuple(o for o in late.observations if o.block < 16), {}, {},
        complete=False,
    )  # fmt: skip
    assert word(running, "new faster than base") == "met"
    assert word(late, "new faster than base") == "not proven"


def stalled(lane_stalls: Mapping[str, Sequence[int]]) -> Evidence:
    """Two equal lanes; the figure of ``lane_stalls`` is 0.69 of the usual in those blocks."""
    cell = {
        lane: [v * (0.69 if v and b in lane_stalls.get(lane, ()) else 1) for b, v in enumerate(around(1000)) if v]
        for lane in ("base", "new")
    }
    return make_run([cell], looks=(LOOK, BLOCKS), margins={"iops": 0.2})


@pytest.mark.parametrize(
    ("rule", "of_new", "of_base"),
    [
        ("new ties base", "not proven", "not proven"),
        ("new not slower than base", "not proven", "met"),
        ("new <= 10 % under base", "not proven", "met"),
        ("new not faster than base", "met", "not proven"),
    ],
)
def test_stalls_of_one_lane_take_away_that_it_is_as_good(rule: str, of_new: str, of_base: str) -> None:
    assert word(stalled({}), rule) == "met"
    assert word(stalled({"new": [3]}), rule) == of_new
    assert word(stalled({"base": [3]}), rule) == of_base
