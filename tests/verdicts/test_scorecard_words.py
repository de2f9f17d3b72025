"""One outcome for each verdict, whoever asks."""

from dataclasses import replace
from typing import get_args

import pytest

from fairlane.records import Verdict, Word
from fairlane.stats.answers import DECIDED
from fairlane.verdicts.scorecard import SETTLED, SIGN, Outcome, outcome, outcome_of, tally, withheld

VERDICT = Verdict(
    workload="main", cell="4k randread qd1", key="main.4k-randread-qd1", lane="fast", baseline="slow", metric="iops",
    primary=True, verdict="faster", ratio=None, low=None, high=None, tie_low=None, tie_high=None, margin=0.05,
    level=0.05, blocks=6, voided=0, lane_value=None, baseline_value=None, headline=True,
)  # fmt: skip


def test_every_word_has_an_outcome_and_every_outcome_a_sign() -> None:
    assert {outcome_of(word) for word in get_args(Word)} | {"withheld"} == set(SIGN) == set(get_args(Outcome))
    assert len(set(SIGN.values())) == len(SIGN)
    assert {word for word in get_args(Word) if outcome_of(word) in SETTLED} == DECIDED


@pytest.mark.parametrize("word", get_args(Word))
def test_a_decided_primary_verdict_without_headline_is_withheld(word: Word) -> None:
    assert outcome(replace(VERDICT, verdict=word)) == outcome_of(word)
    held = replace(VERDICT, verdict=word, headline=False)
    assert withheld(held) == (word in DECIDED)
    assert outcome(held) == ("withheld" if word in DECIDED else outcome_of(word))
    assert outcome(replace(held, primary=False)) == outcome_of(word)


def test_outcomes_are_counted_in_one_order() -> None:
    assert list(tally(["refused", "even", "better", "even"]).items()) == [("better", 1), ("even", 2), ("refused", 1)]
