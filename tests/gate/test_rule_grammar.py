"""Rules: what is written is what is meant, and whatever is written is a rule or one clear error."""

from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import FairlaneError
from fairlane.gate.grammar import FORMS, LONGEST, parse, parse_file
from fairlane.gate.rules import (
    BANDWIDTHS,
    COUNTS,
    DURATIONS,
    Absolute,
    Clean,
    Directed,
    Quantity,
    Relative,
    Rule,
    Sign,
    Within,
)
from fairlane.metrics import METRICS
from tests.words import kind

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,30}", fullmatch=True).filter(lambda name: name not in ("no", "in", "on"))
WORDS = st.from_regex(r"[a-zA-Z0-9*?/.%+-]{1,12}", fullmatch=True).filter(
    lambda word: word.lower() not in ("in", "on", "and")
)
CELLS = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), max_size=3).map(" and ".join)
NUMBERS = st.decimals(0, 10**6, places=3, allow_nan=False, allow_infinity=False).map(lambda d: d.normalize())
SMALL = st.decimals(0, 100, places=2, allow_nan=False, allow_infinity=False).map(lambda d: d.normalize())
SIGNS: st.SearchStrategy[Sign] = st.sampled_from([">=", "<=", ">", "<"])
METRIC = st.sampled_from(sorted(METRICS))


@st.composite
def absolutes(draw: st.DrawFn) -> Absolute:
    metric = draw(METRIC)
    units = st.sampled_from(sorted({"ns": DURATIONS, "B/s": BANDWIDTHS}.get(METRICS[metric].unit, COUNTS)))
    amounts = st.builds(Quantity, NUMBERS, units)
    return Absolute(metric, draw(NAMES), draw(SIGNS), draw(amounts), draw(CELLS), draw(st.none() | amounts))


@st.composite
def compared(draw: st.DrawFn) -> Rule:
    lane, baseline = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    metric, cells = draw(st.just("") | METRIC), draw(CELLS)
    if draw(st.booleans()):
        return Within(lane, baseline, draw(st.none() | SMALL.filter(bool)), metric, cells)
    if draw(st.booleans()):
        way: Literal["faster", "slower"] = draw(st.sampled_from(["faster", "slower"]))
        return Directed(lane, way, baseline, draw(st.booleans()), metric, cells)
    side: Literal["over", "under"] = draw(st.sampled_from(["over", "under"]))
    return Relative(lane, draw(SIGNS), draw(SMALL), side, baseline, metric, cells, draw(st.none() | SMALL))


CLEAN = st.builds(Clean, st.sampled_from(["critical", "warning", "info"]), CELLS)
RULES = st.one_of(absolutes(), compared(), CLEAN)


@given(RULES)
def test_a_printed_rule_parses_back_to_itself(rule: Rule) -> None:
    assert parse(str(rule)) == rule


@given(st.text(max_size=700))
def test_any_text_is_a_rule_or_one_error(text: str) -> None:
    said, rule = "", None
    try:
        rule = parse(text)
    except FairlaneError as error:
        said = f"{error}{error.hint}"
    assert said.isprintable()
    assert rule is None or parse(str(rule)) == rule


@given(RULES, st.data())
def test_a_damaged_rule_is_a_rule_or_one_error(rule: Rule, data: st.DataObject) -> None:
    """Texts that are nearly rules reach deeper than any text."""
    text = str(rule)
    at = data.draw(st.integers(0, len(text)))
    other = data.draw(
        st.sampled_from(
            ["", " ", "%", ",", ">=", " on ", " in ", " and ", " not ", "\x1b[31m", "\u202e", "9" * 40, "-1"]
        )
    )
    damaged = text[:at] + other + text[at + data.draw(st.integers(0, 3)) :]
    try:
        again = parse(damaged)
    except FairlaneError:
        return
    assert parse(str(again)) == again


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "nvme-tcp >= 20 % over iscsi on 4k randread, no block below 10 %",
            Relative("nvme-tcp", ">=", Decimal(20), "over", "iscsi", "", "4k randread", Decimal(10)),
        ),
        ("a at least 20% over b in P99.9", Relative("a", ">=", Decimal(20), "over", "b", "lat_p999")),
        ("a ≤ 5% over b", Relative("a", "<=", Decimal(5), "over", "b")),
        ("p99 of a <= 2ms on 4k qd16", Absolute("lat_p99", "a", "<=", Quantity(Decimal(2), "ms"), "4k qd16")),
        ("iops of x>=50K", Absolute("iops", "x", ">=", Quantity(Decimal(50), "k"))),
        ("bw of x >= 1.5 GiB/s", Absolute("bw", "x", ">=", Quantity(Decimal("1.5"), "GiB/s"))),
        ("a ties b", Within("a", "b")),
        ("a within 3 % of b on main/4k *", Within("a", "b", Decimal(3), "", "main/4k *")),
        ("a faster than b", Directed("a", "faster", "b")),
        (
            "a NOT Slower than b in p99 on mixes/4k 75/25 AND  mixes/4k 50/50",
            Directed("a", "slower", "b", negated=True, metric="lat_p99", cells="mixes/4k 75/25 and mixes/4k 50/50"),
        ),
        ("no critical findings", Clean("critical")),
        ("no warning on 4k*", Clean("warning", "4k*")),
    ],
)  # fmt: skip
def test_what_is_written_is_what_is_meant(text: str, rule: Rule) -> None:
    assert parse(text) == rule


def test_quantities_have_the_registry_s_unit() -> None:
    assert Quantity(Decimal(2), "ms").value == 2e6
    assert Quantity(Decimal(50), "k").value == 50_000
    assert Quantity(Decimal(1), "MiB/s").value == 2**20
    assert Quantity(Decimal(1), "MB/s").value == 1e6


WRONG = {
    "a >= 20 over b": ("rule-invalid", FORMS[0]),
    "a within b": ("rule-invalid", FORMS[1]),
    "a faster b": ("rule-invalid", FORMS[3]),
    "a slower than a": ("rule-itself a", ""),
    "a faster than b on 4k and": ("cell-unknown and", "and 8k"),
    "a faster than b on 4k and and 8k": ("cell-unknown and", "and 8k"),
    "no trouble": ("rule-invalid", FORMS[5]),
    "": ("rule-invalid", FORMS[4]),
    "ipos of a >= 5": ("metric-unknown 'ipos'", "iops"),
    "a >= 5 % over b in p98": ("metric-unknown 'p98'", "p99"),
    "p99 of a <= 5": ("rule-unit 5", "ns, us, ms, s"),
    "iops of a >= 5 MB/s": ("rule-unit MB/s", "k, M"),
    "iops of a >= 5m": ("rule-unit 5m", "k, M"),
    "bw of a >= 5 mb/s": ("rule-unit mb/s", "MB/s"),
    "a >= 5 % over b, no block above 3 %": ("rule-edge above >=", "no block below"),
    "p99 of a <= 5ms, no block below 3ms": ("rule-edge below <=", "no block above"),
    "a >= 5 % over a": ("rule-itself a", ""),
    "a >= 101 % under b": ("rule-limit 100", ""),
    "a within 0 % of b": ("rule-limit 0", "5 %"),
    "a >= 5 % over b on 4k in p99": ("cell-unknown p99", "in p99 on"),
    "a >= 5 % over b\nno critical finding": ("rule-lines", ""),
    "a" * (LONGEST + 1): ("rule-too-long 500", ""),
}
"""Text -> kind of the error with names and figures of its message, and what the hint has."""


@pytest.mark.parametrize(("text", "error", "hint"), [(text, *told) for text, told in WRONG.items()])
def test_what_is_wrong_is_told_with_what_was_meant(text: str, error: str, hint: str) -> None:
    """``error``: its kind, then names and figures of its message."""
    expected, *tokens = error.split()
    with pytest.raises(FairlaneError) as raised:
        parse(text)
    assert raised.value.kind == expected
    assert [token for token in tokens if token not in raised.value.message] == []
    assert hint in raised.value.hint


def test_a_file_has_a_rule_a_line_and_names_the_line_that_is_none() -> None:
    text = "# what we accept\n\na ties b   # always\n  no critical finding\n"
    assert parse_file(text, "rules.txt") == (Within("a", "b"), Clean("critical"))
    with pytest.raises(FairlaneError) as raised:
        parse_file(text + "a tis b\n", "rules.txt")
    assert raised.value.where == "rules.txt:5"
    with pytest.raises(FairlaneError, check=kind("rules-none", where="rules.txt")):
        parse_file("# none\n", "rules.txt")
