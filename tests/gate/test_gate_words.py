"""The words of rules: what is wrong with one, and what came of each."""

from typing import TYPE_CHECKING

import pytest

from fairlane.errors import FairlaneError
from fairlane.gate.decide import decide
from fairlane.gate.grammar import parse
from fairlane.records import Evidence, Finding
from tests.gate.test_decide import carried_out, told
from tests.gate.test_rule_grammar import WRONG

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

RULES = (
    "fast >= 20 % over slow on main/4k, no block below 10 %",
    "fast >= 20 % over slow on main/4k, no block below 29.5 %",
    "fast >= 45 % over slow on main/4k",
    "fast within 60 % of slow on main/4k",
    "fast ties slow on main/4k",
    "same within 0.01 % of slow on main/4k",
    "iops of fast <= 50k on main/4k",
    "no finding",
)
MISMATCHED = ("fats ties slow", "fast ties slow on 8k", "fast >= 10 % over slow on tail/")


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return carried_out(tmp_path_factory.mktemp("runs"))


def complaint(error: FairlaneError) -> str:
    return f"{error.labelled()}\n  hint: {error.hint or '-'}"


def test_what_is_no_rule(snapshot: "SnapshotAssertion") -> None:
    words = []
    for text in WRONG:
        with pytest.raises(FairlaneError) as raised:
            parse(text)
        words.append(complaint(raised.value))
    assert "\n".join(words) == snapshot


@pytest.mark.slow
def test_what_came_of_rules(evidence: Evidence, snapshot: "SnapshotAssertion") -> None:
    grave = Finding("odd", "critical", "the link was full", (), ("fast",))
    outcomes = [o for rule in RULES for o in told(evidence, rule)]
    outcomes += decide([parse("fast >= 1 % over slow on main/4k"), parse("no finding")], evidence, lambda _: [grave])
    texts = (f"{o.rule}: {o.word}\n  seen: {o.observed}\n  reason: {o.reason or '-'}" for o in outcomes)
    assert "\n".join(texts) == snapshot


def test_what_does_not_fit_the_run(evidence: Evidence, snapshot: "SnapshotAssertion") -> None:
    words = []
    for rule in MISMATCHED:
        with pytest.raises(FairlaneError) as raised:
            told(evidence, rule)
        words.append(complaint(raised.value))
    assert "\n".join(words) == snapshot
