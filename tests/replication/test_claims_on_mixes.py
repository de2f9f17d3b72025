"""Claims about reads or writes of a mix."""

import pytest

from fairlane.stats.judge import judge
from fairlane_replication.judge import UNKNOWN, Ran, answer
from tests.replication.fakes import claim, lab_claim
from tests.stats.mixes import MS, Way, mix, run


@pytest.fixture(scope="module")
def ran() -> Ran:
    """Reads rise by a quarter, writes fall by as much."""
    lanes = {
        "base": mix(Way(10_000, 1 * MS), Way(10_000, 1 * MS)),
        "up": mix(Way(12_500, 0.8 * MS), Way(7_500, 1.3 * MS)),
    }
    evidence = run(lanes, noise=0.01)
    return Ran(evidence, judge(evidence, ()), ())


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ("up faster than base in bw_read", "agree"),
        ("up slower than base in bw_write", "agree"),
        ("up ties base in bw_write", "disagree"),
        ("up faster than base in read_p99", "agree"),
        ("up faster than base in write_p95", "disagree"),
        ("up faster than base in bw", "disagree"),
        ("up faster than base in nopm", UNKNOWN),
    ],
)
def test_the_direction_decides(ran: Ran, rule: str, word: str) -> None:
    assert answer(claim(lab_claim(rule)), ran).word == word
