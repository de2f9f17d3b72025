"""Rules where blocks are few, or not independent: what withholds a verdict makes a rule not proven."""

from collections.abc import Callable, Mapping

import pytest

from fairlane.gate.decide import Outcome, decide
from fairlane.gate.grammar import parse
from fairlane.records import Evidence
from fairlane.stats.judge import judge
from tests.stats.conftest import make_run

BLOCKS = 20
Level = Callable[[int], float]


def steady(level: float) -> Level:
    return lambda block: level * (1 + 0.004 * (-1) ** block)


def falling(first: float, last: float) -> Level:
    return lambda block: steady(first + (last - first) * block / (BLOCKS - 1))(block)


def measured(new: Level, *, looks: tuple[int, ...] = (BLOCKS,), cells: int = 1) -> Evidence:
    lanes = {"base": steady(1000), "new": new}
    cell = {name: [level(block) for block in range(looks[-1])] for name, level in lanes.items()}
    return make_run([cell] * cells, looks=looks)


def outcome(evidence: Evidence, rule: str) -> Outcome:
    (found,) = {(o.word, o.reason): o for o in decide([parse(rule)], evidence, lambda _: ())}.values()
    return found


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ("new > 0 % over base", "not proven"),
        ("new faster than base", "not proven"),
        ("new not slower than base", "not proven"),
        ("base faster than new", "not proven"),
        ("new <= 100 % over base", "met"),
        ("iops of new >= 1050", "not proven"),
        ("iops of new >= 600", "met"),
    ],
)
def test_a_lane_that_still_moves_proves_only_what_it_will_not_undo(rule: str, word: str) -> None:
    evidence = measured(falling(1500, 1100))
    found = outcome(evidence, rule)
    assert found.word == word
    if word == "not proven":
        assert found.reason.startswith("new is still moving")
    assert not any(v.headline for v in judge(evidence, ()))


def test_a_large_difference_stands_though_a_lane_moves() -> None:
    found = outcome(measured(falling(2400, 2300)), "new >= 50 % over base")
    assert found.word == "met"


@pytest.mark.parametrize("rule", ["new > 0 % over base", "iops of new >= 900"])
def test_two_blocks_prove_nothing(rule: str) -> None:
    assert outcome(measured(steady(1200), looks=(2,)), rule).reason == "2 blocks, 6 are needed"
    assert outcome(measured(steady(1200), looks=(6,)), rule).word == "met"


def test_blocks_that_remember_prove_less() -> None:
    """Two states that last for five blocks, in every cell; mixed, the same figures would do."""

    def state(lasting: int) -> Level:
        return lambda block: steady(1020 if block // lasting % 2 else 1080)(block)

    for rule in ("new >= 2 % over base", "iops of new >= 1030"):
        mixed, lasting = (outcome(measured(state(n), cells=3), rule) for n in (1, 5))
        assert (mixed.word, lasting.word) == ("met", "not proven")


def test_other_metrics_are_looked_at_by_themselves() -> None:
    """The IOPS stay where they are, and the latency does not."""

    def latency(lane: str, block: int, _: float) -> Mapping[str, float]:
        return {"lat_mean": 1e6 * (falling(0.6, 0.9)(block) if lane == "new" else steady(1.0)(block))}

    cell = {"base": [steady(1000)(b) for b in range(BLOCKS)], "new": [steady(1200)(b) for b in range(BLOCKS)]}
    evidence = make_run([cell], looks=(BLOCKS,), others=latency)
    assert outcome(evidence, "new >= 10 % over base").word == "met"
    found = outcome(evidence, "new > 0 % under base in lat_mean")
    assert (found.word, found.reason.partition(",")[0]) == ("not proven", "new is still moving")


def test_what_is_met_names_the_stalls_that_nobody_saw() -> None:
    for rule in ("new >= 10 % over base", "iops of new >= 1100"):
        assert outcome(measured(steady(1200)), rule).observed.endswith("slow trials in up to 14 % can go unnoticed")
    assert "unnoticed" not in outcome(measured(steady(1200)), "new >= 40 % over base").observed
