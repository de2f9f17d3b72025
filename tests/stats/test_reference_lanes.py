"""Reference lanes: drawn, never contenders. What holds of a study with one holds of the study without it."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from fairlane.checks._pairs import primaries
from fairlane.gate.decide import decide
from fairlane.gate.grammar import parse
from fairlane.records import Evidence
from fairlane.stats import anytime
from fairlane.stats.capacity import capacities
from fairlane.stats.judge import judge
from fairlane.stats.live import Live
from fairlane.stats.stopping import open_cells
from fairlane.stats.winners import winners
from tests.stats.conftest import make_run

CELLS = 4


def noisy(level: float, sd: float, chance: random.Random, blocks: int = 10) -> list[float]:
    return [level * (1 + chance.gauss(0, sd)) for _ in range(blocks)]


def cells(reference: float = 40.0, sd: float = 0.3, **contenders: float) -> list[Mapping[str, Sequence[float]]]:
    """Figures of ``base``, of the contenders at their factors, and of ``local``."""
    chance = random.Random(11)  # noqa: S311 - noise
    made: list[Mapping[str, Sequence[float]]] = []
    for _ in range(CELLS):
        lanes = {"base": noisy(100.0, 0.02, chance)}
        lanes |= {name: noisy(100.0 * factor, 0.02, chance) for name, factor in contenders.items()}
        made.append({**lanes, "local": noisy(100.0 * reference, sd, chance)})
    return made


def with_role(evidence: Evidence, role: str = "reference") -> Evidence:
    lanes = {
        name: lane.model_copy(update={"role": role}) if name == "local" else lane
        for name, lane in evidence.study.lanes.items()
    }
    return replace(evidence, study=evidence.study.model_copy(update={"lanes": lanes}))


def others(lane: str, block: int, value: float) -> Mapping[str, float]:
    """Exploratory metrics that move with the primary."""
    return {"bw": value * 4096 * (1 + 0.001 * block), "lat_mean": 1e6 / value}


def without(made: Sequence[Mapping[str, Sequence[float]]]) -> list[dict[str, Sequence[float]]]:
    return [{name: values for name, values in cell.items() if name != "local"} for cell in made]


@pytest.mark.parametrize("looks", [[10], [4, 6, 10]])
def test_contenders_are_judged_as_if_the_reference_did_not_run(looks):
    made = cells(new=1.03, other=1.004)
    whole = with_role(make_run(made, looks=looks, others=others))
    alone = make_run(without(made), looks=looks, others=others)
    verdicts = judge(whole, ())
    assert [v for v in verdicts if v.lane != "local"] == list(judge(alone, ()))
    # the check can fail: as a contender it takes its part of the error rate
    contender = [v for v in judge(with_role(whole, "contender"), ()) if v.lane != "local"]
    assert [v.level for v in contender] != [v.level for v in judge(alone, ())]


def test_its_intervals_are_exploratory():
    mine = [v for v in judge(with_role(make_run(cells(new=1.03), others=others)), ()) if v.lane == "local"]
    assert {v.metric for v in mine} == {"iops", "bw", "lat_mean"}
    assert len(mine) == 3 * CELLS
    assert not any(v.primary or v.headline or v.control for v in mine)
    assert all(v.low and v.ratio and v.high and v.low < v.ratio < v.high for v in mine)
    assert {v.verdict for v in mine} == {"faster"}


def test_it_keeps_no_cell_open():
    """A reference with a spread of 30 % around the baseline's level is never decided; the contender is at once."""
    evidence = make_run(cells(reference=1.0, new=1.5), looks=[6, 10])
    assert len(open_cells(evidence.study, evidence.observations, 0)) == CELLS
    shown = with_role(evidence)
    assert open_cells(shown.study, shown.observations, 0) == frozenset()


def test_it_is_no_winner():
    evidence = make_run(cells(new=1.1, other=1.3))
    shown = with_role(evidence)
    assert {w.plausible for w in winners(evidence, judge(evidence, ()))} == {("local",)}
    assert {w.plausible for w in winners(shown, judge(shown, ()))} == {("other",)}
    assert not any("local" in w.verdicts for w in winners(shown, judge(shown, ())))
    two = with_role(make_run(cells(new=1.03)))
    assert winners(two, judge(two, ())) == (), "two that compete need no list of winners"


def test_it_has_no_part_in_the_errors_of_the_live_page():
    evidence = with_role(make_run(cells(new=1.03)))
    alone = make_run(without(cells(new=1.03)))
    assert anytime.spent(evidence.study) == anytime.spent(alone.study)
    live = Live(evidence.study)
    for observation in evidence.observations:
        assert all(standing.lane == "new" for standing in live.add(observation))
    assert live.comparisons == CELLS


def test_it_is_in_no_check_of_pairs():
    assert {p.lane for p in primaries(with_role(make_run(cells(new=1.03))))} == {"new"}


def test_its_ladder_is_not_compared():
    evidence = make_run(cells(new=1.2), others=others)  # four depths
    study = evidence.study.model_copy(
        update={"workloads": {"main": evidence.study.workloads["main"].model_copy(update={"slo": {"lat_mean": 10**4}})}}
    )
    compared = capacities(with_role(replace(evidence, study=study)).study, evidence.observations)
    assert {capacity.lane for capacity in compared} == {"new"}


def test_a_rule_may_name_it():
    """Whoever names it in a rule asks about it: then it is a lane as any other."""
    evidence = with_role(make_run(cells(new=1.03)))
    rules = ("local >= 100 % over base", "local >= 900 % over new", "new within 30 % of base")
    outcomes = decide([parse(rule) for rule in rules], evidence, lambda _: ())
    assert [outcome.word for outcome in outcomes] == ["met"] * 3 * CELLS
