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


def test_alone_is_the_t_interval_of_the_blocks_so_far(run):
    figures = {"a": [1000.0, 1000.0, 1000.0], "b": [1100.0, 1120.0, 1090.0]}
    evidence = run([figures])
    first, second, third = standings(evidence, sorted(evidence.observations, key=lambda o: o.block))
    assert first.alone == (-math.inf, math.inf)
    logs = [math.log(1.1), math.log(1.12)]
    half = 12.7062 * abs(logs[1] - logs[0]) / 2  # t of one degree of freedom; s / sqrt(2) is half the distance
    assert (second.blocks, third.blocks) == (2, 3)
    assert second.alone == pytest.approx((sum(logs) / 2 - half, sum(logs) / 2 + half), rel=1e-4)
    assert third.alone[1] - third.alone[0] < second.alone[1] - second.alone[0]


def standings(evidence, observations):
    """The changed standings, trial by trial."""
    live = Live(evidence.study)
    return [standing for observation in observations for standing in live.add(observation)]


def test_the_first_interval_is_printed_once_when_a_cell_has_two_blocks(run):
    rng = np.random.default_rng(8)
    evidence = run([lanes(rng, 1, 1.2, blocks=4), lanes(rng, 1, 1.1, blocks=4)])
    console = Console(record=True, width=200)
    lines = Lines(console, evidence.study)
    ordered = sorted(evidence.observations, key=lambda o: (o.block, o.cell))
    lines.resumed([])
    for observation in ordered:
        lines._stand(observation)
    (line,) = console.export_text().splitlines()
    at = next(standing for standing in standings(evidence, ordered) if standing.blocks == 2)
    low, high = (anytime.percent(end) for end in at.alone)
    assert line == f"first interval, after 2 blocks: {at.lane} {low} to {high} at {at.cell} (by itself)"
    again = Console(record=True, width=200)
    Lines(again, evidence.study).resumed(evidence.observations)  # it was printed when these trials came in
    assert again.export_text() == ""


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
    assert line(run([lanes(rng, 1, 1.2), lanes(rng, 1, 1.0)])).endswith("interim results in 2 of 2 cells")
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
