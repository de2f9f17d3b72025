"""Capacities where trials fail, or rounds are not independent: judged as verdicts are."""

import math
import random
from collections.abc import Callable

from fairlane.records import Observation
from fairlane.stats.capacity import Capacity, capacities
from tests.stats.test_curves import law, study
from tests.words import note, noted

ROUNDS = 20
Speed = Callable[[int, int], float | None]
"""Of a trial, by rung and round, as a multiple of the baseline's; None: it failed."""


def capacity(speed: Speed, *, modelled: bool = False) -> Capacity:
    """Lane b against a, whose noise has an sd of 1 %."""
    rng, asked, seen = random.Random(7), study(blocks=str(ROUNDS)), []  # noqa: S311
    for rung, cell in enumerate(asked.cells()):
        for block in range(ROUNDS):
            for place, (lane, own) in enumerate((("a", 1.0), ("b", speed(rung, block)))):
                trial = Observation(cell.key, block, lane, place, failed="" if own else "timeout")
                wobble = math.exp(rng.gauss(0, 0.01))
                if own:
                    iops, latency = law(cell.params["iodepth"], own * wobble)
                    trial.metrics.update(iops=iops, lat_mean=latency)  # type: ignore[attr-defined]
                seen.append(trial)
    (found,) = capacities(asked, seen, modelled=modelled)
    return found


def test_a_clear_difference_survives_a_failed_trial() -> None:
    clean, one = capacity(lambda *_: 1.3), capacity(lambda rung, block: None if (rung, block) == (3, 7) else 1.3)
    assert clean.verdict == one.verdict == "faster"
    assert (clean.blocks, one.blocks) == (ROUNDS, ROUNDS - 1)
    widths = [math.log(c.high / c.low) for c in (clean, one)]  # type: ignore[operator]
    assert widths[1] > widths[0], "it may have been as slow, or as fast, as any other"


def test_trials_over_the_objective_that_fail_do_not_make_a_lane_faster() -> None:
    """b is slow in two of five rounds on the upper rungs, and just these trials time out."""

    def slow(block: int) -> bool:
        return block % 5 in (1, 3)

    all_seen = capacity(lambda rung, block: 0.6 if rung > 2 and slow(block) else 1.15)
    failed = capacity(lambda rung, block: None if rung > 2 and slow(block) else 1.15)
    assert all_seen.verdict == "inconclusive"
    assert failed.verdict == "inconclusive"
    assert noted(failed.notes) == ["missing"]
    assert note(failed.notes, "missing").startswith("withheld")


def moving(last: float) -> Capacity:
    """Of a lane that begins twice as fast as the other and becomes ``last`` times as fast."""
    return capacity(lambda _, block: 2.0 + (last - 2.0) * block / (ROUNDS - 1))


def test_a_lane_that_still_moves_is_faster_where_the_move_does_not_matter() -> None:
    found = moving(1.9)
    assert (found.verdict, found.withheld) == ("faster", "")


def test_a_lane_that_would_lose_its_lead_bears_no_word() -> None:
    """Rounds that are so alike widen the interval, or the word is withheld."""
    found = moving(1.15)
    assert found.verdict == "inconclusive" or found.withheld.startswith("b is still moving")


def test_rounds_that_remember_and_those_of_the_virtual_clock() -> None:
    """Two states that last for five rounds, on every rung at once."""

    def speed(_: int, block: int) -> float:
        return 0.99 if block // 5 % 2 else 1.07

    found, modelled = capacity(speed), capacity(speed, modelled=True)
    assert (modelled.verdict, modelled.withheld) == ("faster", "")
    assert found.verdict == "inconclusive" or found.withheld.startswith("rounds remember")
