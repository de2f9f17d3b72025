import unicodedata
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.report.text import clean, fence, flatten, markdown, scrub, shorten


@given(st.text())
def test_nothing_invisible_survives_cleaning(text):
    for c in clean(text):
        assert c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "Zs"]), max_size=100))
def test_ordinary_text_of_any_language_is_left_as_it_is(text):
    assert clean(text) == text


def test_what_is_hidden_is_written_out():
    assert clean("rewols\u202efast") == "rewols\\u202efast"
    assert clean("\x1b[31mred\x07") == "\\x1b[31mred\\x07"
    assert clean("a\tb\r\nc") == "a    b\\x0d\nc"
    assert clean("\udc80") == "\\udc80"
    assert clean("\U000e0041") == "\\U000e0041"


def test_what_is_endless_is_cut_and_says_so():
    assert clean("x" * 10, longest=4) == "xxxx… [6 more characters]"


@dataclass(frozen=True)
class Inner:
    text: str
    numbers: tuple[float, ...]


@dataclass(frozen=True)
class Outer:
    items: tuple[Inner, ...]
    table: dict[str, Any]
    names: frozenset[str]


def test_scrub_reaches_every_string_at_any_depth():
    bad, good = "a\u202eb", "a\\u202eb"
    outer = Outer((Inner(bad, (1.5,)),), {bad: [bad, None, 3]}, frozenset({bad}))
    assert scrub(outer) == Outer((Inner(good, (1.5,)),), {good: [good, None, 3]}, frozenset({good}))


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("[x](javascript:1)", r"\[x\](javascript:1)"),
        ("![x](y)", r"!\[x\](y)"),
        ("**b** `c` ~d~", r"\*\*b\*\* \`c\` \~d\~"),
        ("_em_ nvme_tcp", r"\_em\_ nvme_tcp"),
        ("two\nlines", "two lines"),
        ("@all https://evil.example", "&#64;all https&#58;//evil.example"),
        ("back\\slash", r"back\\slash"),
    ],
)
def test_markdown_shows_text_as_text(text, escaped):
    assert markdown(text) == escaped


def test_a_fence_is_longer_than_what_it_holds():
    assert fence("a ```` b").startswith("`````\n")
    assert fence("plain") == "```\nplain\n```"


def test_flatten_keeps_the_order_and_names_the_path():
    tree = {"b": {"x": 1, "y": [True, None]}, "a": 2.5}
    assert list(flatten(tree).items()) == [("b.x", "1"), ("b.y", "yes, none"), ("a", "2.5")]


@given(st.text(), st.integers(1, 40))
def test_shorten_never_exceeds_the_width(text, width):
    assert len(shorten(text, width)) <= width
