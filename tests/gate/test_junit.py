"""JUnit XML: well-formed whatever the texts hold."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from fairlane.gate.decide import Outcome
from fairlane.gate.grammar import parse
from fairlane.gate.junit import document

RULE = parse("a ties b")


@given(st.text(), st.text(), st.text(), st.sampled_from(["met", "not met", "not proven", "refused"]))
def test_any_text_makes_a_document_that_parses(cell: str, seen: str, reason: str, word: str) -> None:
    outcome = Outcome(RULE, cell, word, seen, reason)  # type: ignore[arg-type]
    (suite,) = ElementTree.fromstring(document([outcome], cell, seen))  # noqa: S314 - our own text
    kinds = {"met": (0, 0), "not met": (1, 0), "not proven": (1, 0), "refused": (0, 1)}
    assert (int(suite.get("failures", "")), int(suite.get("errors", ""))) == kinds[word]


def test_a_refused_rule_is_an_error_and_nothing_is_skipped() -> None:
    (suite,) = ElementTree.fromstring(document([Outcome(RULE, "4k", "refused", "+2 %", "ramp differs")], "s", "r"))  # noqa: S314
    (case,) = suite
    (error,) = case
    assert (error.tag, error.get("type"), error.get("message"), error.text) == (
        "error",
        "refused",
        "ramp differs",
        "refused: +2 %",
    )
    assert suite.get("skipped") == "0"
