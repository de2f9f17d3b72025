import math

import numpy as np
import pytest
from rich.console import Console

from fairlane.cli._progress import Lines
from fairlane.records import Observation
from fairlane.stats import anytime
from fairlane.stats.judge import judge
from fairlane.stats.live import Live
from tests.words import note, noted


def lanes(rng, *speeds, blocks=20, sd=0.01):
    return {
        name: list(1000 * speed * np.exp(rng.normal(0, sd, blocks)))
        for name, speed in zip("abcdef", speeds, strict=False)
    }


def fed(evidence):
    live = Live(evidence.study)
    for seen in evidence.observations:
        live.add(seen)
    return live


def test_differences_and_ties_are_decided_and_noise_is_not(run):
    rng = np.random.default_rng(1)
    cells = [lanes(rng, 1, 1.2), lanes(rng, 1, 1.0), lanes(rng, 1, 1.05, sd=0.3)]
    live = fed(run(cells))
    assert (live.decided, live.cells, live.comparisons) == (2, 3, 3)


def test_a_cell_is_decided_when_all_its_lanes_are(run):
    rng = np.random.default_rng(2)
    one = lanes(rng, 1, 1.3, 1.0)
    one["c"] = list(1000 * np.exp(rng.normal(0.03, 0.3, 20)))
    assert fed(run([one])).decided == 0
    assert fed(run([lanes(rng, 1, 1.3, 1.0)])).decided == 1


def test_the_interval_is_that_of_the_blocks_of_both(run):
    rng = np.random.default_rng(3)
    figures = lanes(rng, 1, 1.1)
    figures["b"][4] = None
    evidence = run([figures])
    live = Live(evidence.study)
    backwards = sorted(evidence.observations, key=lambda o: -o.block)
    *_, last = (standing for seen in backwards for standing in live.add(seen))
    pairs = zip(figures["a"], figures["b"], strict=True)
    d = np.array([math.log(b) - math.log(a) for a, b in pairs if b is not None])
    half = anytime.multiplier(19, 0.05, anytime.mixture(0.05, 20)) * d.std(ddof=1) / 19**0.5
    assert last.blocks == 19
    assert (last.low, last.high) == pytest.approx((d.mean() - half, d.mean() + half))


def test_what_is_no_trial_of_the_study_changes_nothing(run):
    evidence = run([lanes(np.random.default_rng(4), 1, 1.1)])
    live = Live(evidence.study)
    assert live.add(Observation("elsewhere", 0, "a", 0, metrics={"iops": 5.0})) == ()
    assert live.add(evidence.observations[0]) == ()
    assert live.add(Observation(evidence.cells()[0].key, 0, "b", 1, failed="no figures")) == ()


def test_the_primaries_share_the_error(run):
    rng = np.random.default_rng(5)
    four = run([lanes(rng, 1, 1.1) for _ in range(4)])
    assert anytime.spent(four.study)[0] == pytest.approx(0.05 / 4)


def test_the_progress_line_tells_a_single_comparison_and_counts_several(run):
    rng = np.random.default_rng(6)

    def line(evidence):
        watch = Lines(Console(quiet=True), evidence.study)
        watch.resumed(evidence.observations)
        return watch.status()

    assert "b so far +1" in line(run([lanes(rng, 1, 1.2)]))
    assert line(run([lanes(rng, 1, 1.2), lanes(rng, 1, 1.0)])).endswith("2 of 2 cells decided so far")
    assert "so far" not in line(run([lanes(rng, 1, 1.2, blocks=2)]))


def test_it_never_calls_what_the_verdict_at_the_same_blocks_does_not(run):
    """Wider than the looks' intervals at every look but where those hardly spend anything."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        evidence = run([lanes(rng, 1, 1.02, sd=0.03)])
        (verdict,) = (v for v in judge(evidence, ()) if v.primary)
        if fed(evidence).decided:
            assert verdict.verdict != "inconclusive"


def test_an_unfinished_run_says_what_holds_so_far_and_a_finished_one_does_not(run):
    rng = np.random.default_rng(8)
    nine = [lanes(rng, 1, 1.2, blocks=9)]
    (early,) = (v for v in judge(run(nine, complete=False), ()) if v.primary)
    told = note(early.notes, "so-far")
    assert "9" in told.split()
    assert " +1" in told
    assert early.blocks == 6  # the verdict itself waits for its look
    (done,) = (v for v in judge(run(nine), ()) if v.primary)
    assert "so-far" not in noted(done.notes)
    (first,) = (v for v in judge(run([lanes(rng, 1, 1.2, blocks=3)], complete=False), ()) if v.primary)
    assert "so-far" not in noted(first.notes)


def test_a_copy_of_a_lane_is_not_watched(run):
    evidence = run([lanes(np.random.default_rng(9), 1, 1.2)])
    copied = evidence.study.lanes["a"].model_copy(update={"copy_of": "a"})
    study = evidence.study.model_copy(update={"lanes": {**evidence.study.lanes, "again": copied}})
    assert Live(study).comparisons == 1
