"""Slots held against the rest of their trials: planted biases, in noise within trials and between them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairlane.stats.slots import SHARE, SLOTS, Slot
from fairlane.stats.slots import slots as answered

LIMIT = SHARE * math.log(1.05)


def slots(evidence):
    result = answered(evidence)
    assert result is not None
    return result


def noisy(rng, seconds, sd=0.02, keep=0.5):
    """Factors of a trial's seconds: correlated, and a level of the trial's own."""
    x = rng.normal(0, sd)
    factors = []
    for _ in range(seconds):
        factors.append(math.exp(x))
        x = keep * x + rng.normal(0, sd * math.sqrt(1 - keep**2))
    return np.array(factors) * math.exp(rng.normal(0, 0.01))


def course(bias, seconds=60, until=3):
    """Lane b is this much faster (on the log scale) in its first seconds."""
    return np.array([math.exp(bias) if t < until else 1.0 for t in range(seconds)])


def made(run, rng, courses, *, blocks=8, primary="iops", level=1000.0, interval_ms=1000, **noise):
    """A run whose cells have these courses of lane b; lane a has none."""
    cells = [{"a": [level] * blocks, "b": [1.2 * level] * blocks} for _ in courses]
    evidence = run(cells, looks=(blocks,), primary=primary, others=lambda *_: {"iops": level})
    by_key = {cell.key: steps for cell, steps in zip(evidence.cells(), courses, strict=True)}
    observations = []
    for trial in evidence.observations:
        steps = by_key[trial.cell]
        rates = level * noisy(rng, len(steps), **noise) * (1.2 * steps if trial.lane == "b" else 1)
        series = {"interval_ms": interval_ms, "iops": [float(r) for r in rates]}
        observations.append(replace(trial, context={"load": {"series": series}}))
    return replace(evidence, observations=tuple(observations))


def words(result, slot):
    return [a.word for tried in result.tried if tried.slot == slot for a in tried.agreements]


def test_without_a_bias_the_shortest_slot_will_do(run):
    result = slots(made(run, np.random.default_rng(1), [course(0)] * 2, sd=0.005))
    assert result.answer.slot == Slot(1, 1)
    assert [tried.slot for tried in result.tried] == [s for s in SLOTS if s.seconds <= 30]
    assert result.load == pytest.approx(2 * 4 * 2 * 1)  # the study says trials of 1 s: cells, blocks, lanes
    assert result.answer.load == pytest.approx(2 * 4 * 2 * 2)
    assert 0.2 < result.autocorrelation < 0.6


def test_a_cache_that_fades_forbids_the_slots_that_it_reaches(run):
    result = slots(made(run, np.random.default_rng(2), [course(0), course(math.log(1.2))], sd=0.005))
    assert words(result, Slot(1, 1)) == ["agrees", "differs"]
    assert words(result, Slot(2, 3)) == ["agrees", "differs"]
    worst = result.tried[0].worst
    assert worst.cell.params["iodepth"] == 2
    assert worst.bias == pytest.approx(math.log(1.2), abs=0.02)
    assert result.answer.slot == Slot(5, 5)


def test_a_bias_that_passes_through_zero_makes_no_slot_a_good_one(run):
    """Second 1 is right by chance, between a burst and a dip."""
    steps = np.array([1.3, 1.0, *[0.8] * 8, *[1.0] * 50])
    result = slots(made(run, np.random.default_rng(3), [steps], sd=0.003))
    assert words(result, Slot(1, 1)) == ["agrees"]
    assert words(result, Slot(5, 5)) == ["differs"]
    assert result.answer.slot == Slot(10, 20)


def test_a_bias_that_never_ends_leaves_no_answer(run):
    drifting = np.exp(np.linspace(0.3, 0, 60))
    result = slots(made(run, np.random.default_rng(4), [drifting]))
    assert result.answer is None
    assert result.tried[-1].worst.word == "differs"


def test_noise_leaves_it_open_and_says_how_many_blocks_are_missing(run):
    result = slots(made(run, np.random.default_rng(5), [course(0)], blocks=4, sd=0.1))
    first = result.tried[0].worst
    assert first.word == "open"
    assert first.more is None or first.more > 4
    assert result.answer is None or result.answer.slot > Slot(1, 1)
    enough = slots(made(run, np.random.default_rng(5), [course(0)], blocks=120, sd=0.02))
    assert enough.tried[0].worst.word == "agrees"


def test_a_bias_at_the_limit_passes_in_one_of_twenty(run):
    rng = np.random.default_rng(6)
    biased, without = ([course(bias, seconds=4, until=2)] * 16 for bias in (LIMIT, 0.0))

    def agreeing(courses):
        return [a.word == "agrees" for a in slots(made(run, rng, courses, sd=0.005)).tried[0].agreements]

    passed = [word for _ in range(25) for word in agreeing(biased)]
    assert np.mean(passed) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)
    assert np.mean(passed) > 0.01  # not by never deciding
    assert np.mean([word for _ in range(5) for word in agreeing(without)]) >= 0.8


@pytest.mark.parametrize(("level", "word"), [(500.0, "few-ios"), (5000.0, "agrees")])
def test_a_percentile_needs_its_ios_within_the_slot(run, level, word):
    """p99 needs ten beyond it: 1,000 I/Os in a second."""
    result = slots(made(run, np.random.default_rng(7), [course(0)], primary="lat_p99", level=level, sd=0.003))
    assert words(result, Slot(1, 1)) == [word]


def test_finer_series_are_cut_at_the_same_seconds(run):
    steps = np.repeat(course(math.log(1.2)), 4)
    result = slots(made(run, np.random.default_rng(8), [steps], sd=0.005, interval_ms=250))
    assert result.answer.slot == Slot(5, 5)


def test_a_window_without_io_counts_for_nothing(run):
    evidence = made(run, np.random.default_rng(9), [course(0)], blocks=3, sd=0.003)
    stopped = [
        replace(trial, context={"load": {"series": {"interval_ms": 1000, "iops": [0.0] * 5 + [1000.0] * 55}}})
        if trial.block and trial.lane == "b"
        else trial
        for trial in evidence.observations
    ]
    result = slots(replace(evidence, observations=tuple(stopped)))
    assert (result.tried[0].worst.word, result.tried[0].worst.blocks, result.tried[0].load) == ("open", 1, None)


def test_a_run_without_series_has_no_answer(run):
    assert answered(run([{"a": [1.0] * 6, "b": [1.0] * 6}])) is None


def test_trials_that_are_too_short_try_nothing(run):
    result = slots(made(run, np.random.default_rng(10), [course(0, seconds=3)]))
    assert (result.tried, result.answer) == ((), None)
