"""docs/replication.md: its table has every claim, and answers with the three words alone."""

import re
from pathlib import Path

from fairlane_replication.claims import catalogue
from fairlane_replication.judge import UNKNOWN, WORDS

PAGE = (Path(__file__).parents[2] / "docs" / "replication.md").read_text("utf-8")
BEGIN, END = "<!-- answers: begin -->", "<!-- answers: end -->"


def rows() -> list[list[str]]:
    """The cells of every row that is a claim's."""
    told = PAGE.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in told.splitlines() if re.match(r"\| \d{3}-", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_table_has_every_claim_once_and_no_other() -> None:
    assert [row[0] for row in rows()] == [c.id for c in catalogue().claims]


def test_the_answers_are_the_three_words() -> None:
    assert {row[4] for row in rows()} <= set(WORDS)


def test_what_is_decided_tells_what_was_found_and_what_is_not_tells_why() -> None:
    for name, _, _, here, word, why in rows():
        assert (why if word == UNKNOWN else here) != "\N{EN DASH}", name


def test_claims_that_nothing_here_can_decide_are_answered_so() -> None:
    open_ = {c.id for c in catalogue().claims if c.asks.by == "nothing" or bool(getattr(c.asks, "limit", ""))}
    assert {row[4] for row in rows() if row[0] in open_} == {UNKNOWN}


def test_the_count_is_that_of_the_table() -> None:
    counts = [int(n) for n in re.search(r"claims: (\d+) agree, (\d+) disagree, (\d+) cannot", PAGE).groups()]  # type: ignore[union-attr]
    assert counts == [sum(row[4] == word for row in rows()) for word in WORDS]


def test_the_words_of_the_table_are_explained_in_the_text() -> None:
    text = PAGE.partition(BEGIN)[0]
    for word in WORDS:
        assert f"`{word}`" in text
