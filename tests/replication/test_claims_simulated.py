"""Error rates of the judge of claims: seeded studies of a known truth, judged by the product's own verdicts."""

from collections import Counter
from functools import cache

import numpy as np
import pytest

from fairlane.records import Evidence, Observation
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane_replication.judge import Ran, answer
from tests.replication.fakes import catalogue, lab_claim

STUDIES = 400
BLOCKS = 10
STUDY = f"""\
name: truth
platform: {{ kind: fake }}
lanes: {{ base: {{ transport: local }}, other: {{ transport: local }} }}
baseline: base
workloads: {{ main: {{ kind: fio, iodepth: [1], runtime: 1s }} }}
design: {{ looks: [{BLOCKS}] }}
"""
PARSED = parse_study(STUDY, "here")


@cache
def shares(truth: float, sd: float, rule: str, size: str = "") -> dict[str, float]:
    """Share of studies per answer, where ``other`` has ``truth`` times the IOPS and trials scatter by ``sd``.

    Keys are ``direction WORD`` and ``size WORD``."""
    rng = np.random.default_rng([17, round(truth * 1000), round(sd * 1000)])
    claim = catalogue(lab_claim(f"other {rule}", size=size), truth=STUDY).claims[0]
    (cell,) = PARSED.cells()
    count: Counter[str] = Counter()
    for _ in range(STUDIES):
        logs = rng.normal(0, sd, (BLOCKS, 2)) + np.array([0, np.log(truth)])
        trials = tuple(
            Observation(cell.key, block, lane, place, metrics={"iops": float(10_000 * np.exp(logs[block, place]))})
            for block in range(BLOCKS)
            for place, lane in enumerate(PARSED.lanes)
        )
        evidence = Evidence("made", PARSED, "", 1, (), trials, {}, {})
        given = answer(claim, Ran(evidence, judge(evidence, ()), ()))
        count[f"direction {given.word}"] += 1
        count[f"size {given.size}"] += 1
    return {name: n / STUDIES for name, n in count.items()}


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.01, 0.02])
@pytest.mark.parametrize(("rule", "truth"), [("ties", 1.03), ("ties", 0.975), ("not faster than", 1.03)])
def test_a_difference_within_the_margin_contradicts_no_claim_of_none(rule: str, truth: float, sd: float) -> None:
    """The margin is 5 %. What contradicts is an interval that lies wholly beyond it, not merely beyond zero."""
    assert shares(truth, sd, rule).get("direction disagree", 0) <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["ties", "not faster than"])
def test_at_the_margin_both_errors_are_kept(rule: str) -> None:
    """Two one-sided tests at 5 %, and one side of an interval of 95 %; two standard errors of the simulation more."""
    at = shares(1.05, 0.02, rule)
    assert at.get("direction agree", 0) <= 0.05 + 2 * (0.05 * 0.95 / STUDIES) ** 0.5
    assert at.get("direction disagree", 0) <= 0.025 + 2 * (0.025 * 0.975 / STUDIES) ** 0.5


@pytest.mark.slow
def test_claims_of_no_difference_are_decided_where_the_truth_is_clear() -> None:
    assert shares(1.0, 0.01, "ties")["direction agree"] >= 0.95
    assert shares(1.12, 0.01, "ties")["direction disagree"] >= 0.95
    assert shares(0.88, 0.01, "not faster than")["direction agree"] >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "edge", "word"),
    [
        ("faster than", 1.0, "agree"),
        ("slower than", 1.0, "agree"),
        ("not slower than", 1 / 1.05, "agree"),
        ("> 0 % over", 1.0, "agree"),
        ("faster than", 1.05, "disagree"),
        ("not faster than", 1.05, "disagree"),
    ],
)
def test_at_the_edge_of_a_rule_the_wrong_word_is_rare(rule: str, edge: float, word: str) -> None:
    """Met: one-sided at 5 %. Not met: one side of an interval of 95 %."""
    rate = 0.05 if word == "agree" else 0.025
    assert shares(edge, 0.02, rule).get(f"direction {word}", 0) <= rate + 2 * (rate * (1 - rate) / STUDIES) ** 0.5


@pytest.mark.slow
def test_directions_are_decided_where_the_truth_is_clear() -> None:
    assert shares(1.1, 0.02, "faster than")["direction agree"] >= 0.95
    assert shares(0.9, 0.02, "faster than")["direction disagree"] >= 0.95
    assert shares(1.0, 0.01, "faster than")["direction disagree"] >= 0.9
    assert shares(1.0, 0.01, "> 0 % over")["direction cannot tell here"] >= 0.9


PUBLISHED = "{ least: 1.27, most: 1.30 }"


@pytest.mark.slow
def test_a_size_is_confirmed_by_the_size_and_never_by_the_sign() -> None:
    assert shares(1.285, 0.01, "faster than", PUBLISHED)["size agree"] >= 0.95
    assert shares(1.285, 0.3, "faster than", PUBLISHED).get("size agree", 0) <= 0.01, "so wide that it fits anything"
    for truth in (1.1, 1.5):
        far = shares(truth, 0.01, "faster than", PUBLISHED)
        assert far["size disagree"] == 1
        assert far["direction agree"] >= 0.99, "where ten blocks by chance look like a lane that moves, it stays open"


@pytest.mark.parametrize("truth", [1.27 / 1.05, 1.30 * 1.05])
def test_at_the_ends_of_a_published_size_both_errors_are_kept(truth: float) -> None:
    at = shares(truth, 0.01, "faster than", PUBLISHED)
    assert at.get("size agree", 0) <= 0.05 + 2 * (0.05 * 0.95 / STUDIES) ** 0.5
    assert at.get("size disagree", 0) <= 0.025 + 2 * (0.025 * 0.975 / STUDIES) ** 0.5
