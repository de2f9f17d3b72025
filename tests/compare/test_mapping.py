"""The mapping file: read with the names of the runs, wrong with its line; the one printed is a valid one."""

import pytest

from fairlane.compare.mapping import Lanes, by_name, parse_mapping, starter
from fairlane.errors import FairlaneError
from tests.words import kind

LANES: Lanes = {"roks": ("rep3", "rep2", "500"), "vcf": ("raid1", "raid5", "500")}
TEXT = """\
baseline: vcf
vary: [copies]
accept: {ramp: both are steady}
pairs:
  best: {title: Best, roks: rep3, vcf: raid1, rationale: both are replicated}
  other: {roks: rep2, vcf: raid1}
"""


def test_it_is_read() -> None:
    found = parse_mapping(TEXT, "m.yaml", LANES)
    assert found.baseline == "vcf"
    assert [(p.name, p.title, dict(p.lanes), p.rationale) for p in found.pairs] == [
        ("best", "Best", {"roks": "rep3", "vcf": "raid1"}, "both are replicated"),
        ("other", "other", {"roks": "rep2", "vcf": "raid1"}, ""),
    ]
    assert (found.vary, dict(found.accept), found.text) == (("copies",), {"ramp": "both are steady"}, TEXT)


def test_the_command_line_s_baseline_wins_and_the_first_run_is_the_default() -> None:
    assert parse_mapping(TEXT, "m.yaml", LANES, "roks").baseline == "roks"
    assert parse_mapping(TEXT.replace("baseline: vcf\n", ""), "m.yaml", LANES).baseline == "roks"


WRONG = [
    ("roks: rep3", "roks: rep4", 5, 'value pairs.best.roks: 500 rep2 rep3 "rep4"', "'rep3'"),
    ("roks: rep3", "rosk: rep3", 5, "key-unknown pairs.best.rosk:", "'roks'"),
    ("baseline: vcf", "baseline: vfc", 1, 'value baseline: roks vcf "vfc"', "'vcf'"),
    ("{roks: rep2, vcf: raid1}", "{roks: rep2}", 6, "value pairs.other:", ""),
    ("vary: [copies]", "vary: [copy]", 2, "value vary.0: 'copy'", ""),
    ("baseline: vcf", "baseline: vcf\nbase: 1", 2, "key-unknown base:", ""),
]
"""What is replaced by what, line, kind with path and names, and what the hint has."""


@pytest.mark.parametrize(("old", "new", "line", "told", "hint"), WRONG)
def test_what_is_wrong_has_its_line(old: str, new: str, line: int, told: str, hint: str) -> None:
    """``told``: kind and path, then names of the message."""
    assert old in TEXT
    expected, path, *names = told.split()
    with pytest.raises(FairlaneError) as raised:
        parse_mapping(TEXT.replace(old, new), "m.yaml", LANES)
    assert (raised.value.kind, raised.value.where) == (expected, f"m.yaml:{line}")
    assert raised.value.message.startswith(path)
    assert [name for name in names if name not in raised.value.message] == []
    assert hint in raised.value.hint


def test_every_pair_has_a_lane_of_the_baseline() -> None:
    lanes = {**LANES, "third": ("x",)}
    with pytest.raises(FairlaneError, check=kind("lane-unknown", where="m.yaml")) as raised:
        parse_mapping(TEXT, "m.yaml", lanes, "third")
    assert raised.value.message.startswith("pairs.best: ")
    assert "third" in raised.value.message


def test_equal_names_are_pairs() -> None:
    found = by_name(LANES, "roks", {"500": "500 IOPS"})
    assert [(p.title, dict(p.lanes)) for p in found.pairs] == [("500 IOPS", {"roks": "500", "vcf": "500"})]


def test_without_a_namesake_all_lanes_are_told() -> None:
    with pytest.raises(FairlaneError, check=kind("lanes-unpaired")) as raised:
        by_name({"a": ("x", "y"), "b": ("z",)}, "a", {})
    assert all(names in raised.value.message for names in ("x, y", "z"))
    assert "--print-map" in raised.value.hint


@pytest.mark.parametrize("lanes", [LANES, {"a": ("x", "y"), "b": ("z", "w"), "c": ("y", "no")}])
def test_the_starter_is_a_mapping_as_it_is(lanes: Lanes) -> None:
    first = next(iter(lanes))
    found = parse_mapping(starter(lanes, first), "m.yaml", lanes)
    assert [pair.lanes[first] for pair in found.pairs] == list(lanes[first])
