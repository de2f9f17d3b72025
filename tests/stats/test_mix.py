"""Reads and writes of a mix, judged by themselves: figures of the kind that published studies have."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairlane.importers._map import parse_map
from fairlane.importers._run import import_files
from fairlane.metrics import METRICS
from fairlane.records import Block, Cell, Evidence, Observation
from fairlane.runs.observe import observe
from fairlane.runs.read import load_run
from fairlane.stats.capacity import capacities
from fairlane.stats.histogram import percentile
from fairlane.stats.judge import judge
from fairlane.stats.pairs import reading, shelve, too_few_beyond, typical
from fairlane.study.load import parse_study
from fairlane.workloads.fio import PLUGIN as FIO
from tests.stats.mixes import MS, Lane, Way, mix, run, words

OWN = {name for name, metric in METRICS.items() if metric.way}


def test_fast_reads_beside_slow_writes_have_a_tail_of_their_own():
    """As in study 003: reads of 3 ms beside writes of 350 ms. The tail of all I/Os is that of the writes."""
    slow = Way(8_000, 350 * MS)
    evidence = run({"old": mix(Way(19_000, 3 * MS), slow), "new": mix(Way(19_000, 2.4 * MS), slow)})
    verdicts = judge(evidence, ())
    by_word = words(verdicts)
    assert by_word["lat_p99"] == by_word["lat_write_p99"] == "tie"
    assert by_word["lat_read_p99"] == by_word["lat_read_mean"] == by_word["lat_read_p999"] == "faster"
    reads = next(v for v in verdicts if v.metric == "lat_read_p99")
    assert reads.ratio == pytest.approx(0.8, rel=0.05)
    assert not reads.primary
    assert not reads.headline
    assert reads.baseline_value is not None
    assert 3 * MS < reads.baseline_value < 40 * MS, "of the reads alone"


def test_a_direction_can_be_the_primary():
    """The same, as the one metric that the study may headline."""
    slow = Way(8_000, 350 * MS)
    evidence = run(
        {"old": mix(Way(19_000, 3 * MS), slow), "new": mix(Way(19_000, 2.4 * MS), slow)},
        load="rw: [randrw], primary: lat_read_p99",
    )
    first = judge(evidence, ())[0]
    assert (first.metric, first.primary, first.verdict, first.headline) == ("lat_read_p99", True, "faster", True)


def test_bandwidths_that_move_against_each_other():
    """As in study 004: one device reads more and writes less, and their sum hides both."""
    evidence = run(
        {
            "scsi": mix(Way(10_000, 1 * MS), Way(10_000, 1 * MS)),
            "blk": mix(Way(12_500, 0.8 * MS), Way(7_500, 1.3 * MS)),
        },
        noise=0.01,
    )
    by_word = words(judge(evidence, ()))
    assert {name: by_word[name] for name in ("bw", "bw_read", "bw_write")} == {
        "bw": "tie", "bw_read": "faster", "bw_write": "slower",
    }  # fmt: skip
    assert by_word["iops_read"] == "faster"
    assert by_word["iops_write"] == "slower"


HEAD = "FILE|SESSIONS|ELAPSED|EXECUTES|PREADS|PWRITES|DFSR_LAT|"


def test_halved_writes_of_a_database(tmp_path: Path):
    """As in study 002: SLOB writes half as much over one path, reads as much, and total IOPS moves by a sixth."""
    for lane, writes in (("fc", 9600), ("iscsi", 4800)):
        (tmp_path / lane).mkdir()
        rows = [
            f"awr.txt.32|32|300|2100|{reads}|{round(writes * reads / 19200)}|{wait}|"
            for reads, wait in ((19200, 610), (19300, 620), (19100, 605), (19250, 612), (19150, 615), (19220, 608))
        ]
        (tmp_path / lane / "awr_info.txt").write_text("\n".join([HEAD, *rows]) + "\n")
    out = tmp_path / "out"
    import_files([tmp_path], out, parse_map("tool: slob\nbaseline: fc\n", "map.yaml"))
    by_metric = {v.metric: v for v in judge(load_run(out), ())}
    assert (by_metric["iops_write"].verdict, by_metric["iops_read"].verdict) == ("slower", "tie")
    assert by_metric["iops_write"].ratio == pytest.approx(0.5, rel=0.01)
    assert by_metric["iops"].ratio == pytest.approx(24 / 28.8, rel=0.01)


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_real_fio(tmp_path: Path):
    """Two lanes on one file: the second may write half as often. fio's own figures are the truth, at any speed."""
    text = (
        "name: real\nplatform: {kind: fake}\nbaseline: whole\nlanes: {whole: {transport: iscsi}, half: "
        "{transport: iscsi}}\nworkloads:\n  main: {kind: fio, rw: [randrw], rwmixread: [50], rate_iops: [400], "
        "engine: psync, size: 4m, runtime: 400ms}\ndesign: {looks: [4]}\n"
    )
    study = parse_study(text, "real.yaml")
    (cell,) = study.cells()
    (tmp_path / "disk").write_bytes(bytes(4 << 20))
    seen: list[Observation] = []
    blocks = [Block(cell, n, ("whole", "half") if n % 2 else ("half", "whole"), 1 + n) for n in range(4)]
    for block in blocks:
        for lane in block.order:
            script = FIO.script(cell, (str(tmp_path / "disk"),), block.seed)
            script = script.replace("rate_iops=200,200", "rate_iops=200,100") if lane == "half" else script
            status = subprocess.run(["sh", "-eu", "-c", script], cwd=tmp_path, check=False, timeout=60).returncode
            outputs = {"status": str(status).encode(), "fio.json": (tmp_path / "fio.json").read_bytes()}
            seen.append(observe(block, lane, outputs))
    evidence = Evidence("real", study, text, 1, tuple(blocks), tuple(seen), {}, {})
    assert not [o.failed for o in seen if o.failed]
    for o in seen:
        assert o.metrics["iops_read"] + o.metrics["iops_write"] == pytest.approx(o.metrics["iops"])
        assert o.metrics["bw_write"] == pytest.approx(4096 * o.metrics["iops_write"])
        if "lat_write_p50" in o.metrics:  # a busy disk may complete too few writes for it
            assert o.metrics["lat_write_p50"] == percentile(o.histograms["write.lat"], 0.5)
        weights = [o.context["load"]["ios"][way] for way in ("read", "write")]
        means = [o.metrics[f"lat_{way}_mean"] * n for way, n in zip(("read", "write"), weights, strict=True)]
        assert sum(means) / sum(weights) == pytest.approx(o.metrics["lat_mean"])
    by_metric = {v.metric: v for v in judge(evidence, ())}
    for name in ("iops_write", "bw_write", "iops_read", "iops"):
        lanes = [[o.metrics[name] for o in seen if o.lane == lane] for lane in ("half", "whole")]
        assert by_metric[name].ratio == pytest.approx(np.exp(np.mean(np.log(lanes[0]) - np.log(lanes[1]))))


@pytest.mark.parametrize("way", ["read", "write"])
def test_one_direction_has_no_second_copy_of_its_figures(way: str):
    def lane(_: Cell) -> dict[str, Way]:
        return {way: Way(20_000, 1 * MS)}

    evidence = run({"a": lane, "b": lane}, load=f"rw: [rand{way}]", blocks=4)
    assert not OWN & {v.metric for v in judge(evidence, ())}
    assert not OWN & {name for o in evidence.observations for name in o.metrics}
    assert not OWN & reading(evidence.observations[0]).figures.keys()


def test_ten_ios_lie_beyond_in_each_direction():
    """4,000 writes have a p99 and no p99.9, whatever the 40,000 reads beside them have."""
    lane = mix(Way(40_000, 1 * MS), Way(4_000, 2 * MS))
    evidence = run({"a": lane, "b": lane}, blocks=6)
    judged = {v.metric for v in judge(evidence, ())}
    assert {"lat_p999", "lat_read_p999", "lat_write_p99"} <= judged
    assert "lat_write_p999" not in judged
    shelf = shelve(evidence.observations)["main.8k-randrw-70-30-qd1"]
    assert too_few_beyond(shelf, ["a", "b"], "lat_write_p999") == 0
    assert too_few_beyond(shelf, ["a", "b"], "lat_read_p999") is None
    assert "lat_write_p999" not in evidence.observations[0].metrics


def test_typical_percentile_is_of_the_direction_over_all_blocks():
    evidence = run({"a": mix(Way(9_000, 1 * MS), Way(9_000, 9 * MS)), "b": mix(Way(9, MS), Way(9, MS))}, blocks=4)
    shelf = shelve(evidence.observations)["main.8k-randrw-70-30-qd1"]
    assert typical(shelf, "a", "lat_read_p50", range(4)) == pytest.approx(1 * MS, rel=0.1)
    assert typical(shelf, "a", "lat_write_p50", range(4)) == pytest.approx(9 * MS, rel=0.1)


def test_a_trial_without_one_direction_voids_its_block():
    """A lane that lost its writes in one trial: that block counts for reads and writes of neither lane."""
    evidence = run({"a": (lane := mix(Way(9_000, 1 * MS), Way(9_000, 2 * MS))), "b": lane}, blocks=6)
    first = evidence.observations[0]
    histograms = {name: bins for name, bins in first.histograms.items() if not name.startswith("write")}
    metrics = {name: value for name, value in first.metrics.items() if name not in OWN}
    lost = replace(first, metrics=metrics, histograms=histograms)
    by_metric = {v.metric: v for v in judge(replace(evidence, observations=(lost, *evidence.observations[1:])), ())}
    assert (by_metric["iops_write"].blocks, by_metric["iops_write"].voided) == (5, 1)
    assert by_metric["iops"].blocks == 6


def test_objective_for_the_reads_of_a_mix():
    """SLO capacity by the p99 of reads: the writes' 100 ms would keep every rung above it."""

    def lane(speed: float) -> Lane:
        def ways(cell: Cell) -> dict[str, Way]:
            depth = cell.params["iodepth"]
            return {"read": Way(9_000 * depth**0.5 * speed, depth * MS / speed), "write": Way(3_000, 100 * MS)}

        return ways

    evidence = run(
        {"old": lane(1.0), "new": lane(1.3)},
        load="rw: [randrw], iodepth: [1, 2, 4, 8], slo: {lat_read_p99: 8ms, lat_p99: 8ms}",
        blocks=6,
    )
    reads, every = capacities(evidence.study, evidence.observations)
    assert (reads.question.metric, reads.verdict, reads.lane_value.exact) == ("lat_read_p99", "faster", True)
    assert not every.lane_value.exact, "below the lowest rung"
