"""docs/replication.md: its table has every claim, and answers with the words of the judge alone."""

import re
from pathlib import Path

from fairlane.report.text import DASH
from fairlane_replication.claims import catalogue, size_text
from fairlane_replication.judge import BUILT, UNKNOWN, WORDS

PAGE = (Path(__file__).parents[2] / "docs" / "replication.md").read_text("utf-8")
BEGIN, END = "<!-- answers: begin -->", "<!-- answers: end -->"


def rows() -> list[list[str]]:
    """The cells of every row that is a claim's."""
    told = PAGE.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in told.splitlines() if re.match(r"\| \d{3}-", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_table_has_every_claim_once_and_no_other() -> None:
    assert [row[0] for row in rows()] == [c.id for c in catalogue().claims]


def test_the_answers_are_the_words() -> None:
    assert {row[4] for row in rows()} <= set(WORDS)
    assert {row[5] for row in rows()} <= {*WORDS, DASH} - {BUILT}


def test_what_is_published_is_what_the_claims_have() -> None:
    assert [row[2] for row in rows()] == [size_text(c) or DASH for c in catalogue().claims]


def test_what_gave_a_size_has_an_answer_on_it() -> None:
    assert [row[0] for row in rows() if row[5] != DASH] == [c.id for c in catalogue().claims if size_text(c)]


def test_what_is_decided_tells_what_was_found_and_what_is_not_tells_why() -> None:
    for name, _, _, here, word, _, why in rows():
        assert (why if word == UNKNOWN else here) != DASH, name


def test_claims_that_nothing_here_can_decide_are_answered_so() -> None:
    open_ = {c.id for c in catalogue().claims if c.asks.by == "nothing" or bool(getattr(c.asks, "limit", ""))}
    assert {word for row in rows() if row[0] in open_ for word in row[4:6]} <= {UNKNOWN, DASH}


def test_what_the_lab_forces_is_no_confirmation() -> None:
    forced = {c.id for c in catalogue().claims if getattr(c.asks, "constructed", "")}
    assert forced
    for row in rows():
        assert (row[4] == BUILT) <= (row[0] in forced)
        assert (row[0] in forced) <= (row[4] != "agree")


def test_the_count_is_that_of_the_table() -> None:
    for column, name, words in ((4, "Direction", WORDS), (5, "Size", tuple(w for w in WORDS if w != BUILT))):
        (line,) = re.findall(rf"\*\*{name}[^:]*: (.+)\.\*\*", PAGE)
        counts = {part.split(" ", 1)[1]: int(part.split(" ", 1)[0]) for part in line.split(", ")}
        assert counts == {word: sum(row[column] == word for row in rows()) for word in words}


def test_the_readme_has_the_same_counts() -> None:
    text = " ".join((Path(__file__).parents[2] / "README.md").read_text("utf-8").split())
    table = rows()
    sizes = [row[5] for row in table if row[5] != DASH]
    assert f"to {len(table)} claims:" in text
    for column, name in (([row[4] for row in table], "directions"), (sizes, f"{len(sizes)} published sizes")):
        confirmed, contradicted = (column.count(word) or "none" for word in ("agree", "disagree"))
        assert re.search(rf"\b{name} {confirmed} confirmed|\b{confirmed} {name} confirmed", text)
        assert f"confirmed and {contradicted} contradicted" in text


def test_the_words_of_the_table_are_explained_in_the_text() -> None:
    text = PAGE.partition(BEGIN)[0]
    for word in WORDS:
        assert f"`{word}`" in text
