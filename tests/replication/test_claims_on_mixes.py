"""Claims about reads or writes of a mix."""

import pytest

from fairlane.stats.judge import judge
from fairlane_replication.claims import AsksLab
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
    ("metric", "expects", "word"),
    [
        ("bw_read", "faster", "agree"),
        ("bw_write", "slower", "agree"),
        ("bw_write", "same", "disagree"),
        ("lat_read_p99", "faster", "agree"),
        ("lat_write_p95", "faster", "disagree"),
        ("bw", "faster", "disagree"),
        ("nopm", "faster", UNKNOWN),
    ],
)
def test_the_direction_decides(ran: Ran, metric: str, expects: str, word: str) -> None:
    first = claim(lab_claim("up", expects))
    assert isinstance(first.asks, AsksLab)
    about = first.model_copy(update={"asks": first.asks.model_copy(update={"metric": metric})})
    assert answer(about, ran).word == word
