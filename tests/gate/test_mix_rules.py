"""Rules on reads and writes of a mix."""

import pytest

from fairlane.gate.decide import decide
from fairlane.gate.grammar import parse
from fairlane.gate.rules import Absolute, Relative
from fairlane.records import Evidence
from tests.stats.mixes import MS, Way, mix, run


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Reads of 3 ms beside writes of 350 ms; the new lane reads in 2.4 ms."""
    slow = Way(8_000, 350 * MS)
    return run({"old": mix(Way(19_000, 3 * MS), slow), "new": mix(Way(19_000, 2.4 * MS), slow)})


@pytest.mark.parametrize("word", ["read_p99", "lat_read_p99", "READ_P99"])
def test_a_rule_names_a_direction(word: str) -> None:
    relative, absolute = parse(f"new >= 5 % under old in {word}"), parse(f"{word} of new <= 12ms")
    assert isinstance(relative, Relative)
    assert isinstance(absolute, Absolute)
    assert relative.metric == absolute.metric == "lat_read_p99"


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ("new >= 10 % under old in read_p99", "met"),
        ("new >= 10 % under old in write_p99", "not met"),
        ("new within 10 % of old in write_p99", "met"),
        ("new within 10 % of old in read_p99", "not met"),
        ("new ties old in bw_write", "met"),
        ("lat_read_p99 of new <= 20ms, no block above 25ms", "met"),
        ("lat_write_p99 of new <= 20ms", "not met"),
    ],
)
def test_rules_are_decided(evidence: Evidence, rule: str, word: str) -> None:
    (outcome,) = decide([parse(rule)], evidence, lambda _: ())
    assert outcome.word == word


def test_what_is_no_mix_has_no_such_figure() -> None:
    lane = mix(Way(19_000, 3 * MS), Way(0, 0.0))
    reads = run({"old": lane, "new": lane}, load="rw: [randread]", blocks=4)
    (outcome,) = decide([parse("new ties old in bw_read")], reads, lambda _: ())
    assert outcome.word == "refused"
