import asyncio
import json
import math
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlane.platforms.base import RawTrial
from fairlane.platforms.fake import Fake
from fairlane.records import Observation
from fairlane.runs.observe import observe
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from fairlane.study.spec import Study
from fairlane.workloads._fio_text import edges
from fairlane.workloads.fio import PLUGIN, FioSpec


def study(platform: str = "", workload: str = "rw: [randread], runtime: 10s", seed: int = 1) -> Study:
    return parse_study(
        f"""
name: fake
baseline: iscsi
platform: {{kind: fake, {platform}}}
lanes: {{iscsi: {{transport: iscsi}}, nvme-tcp: {{transport: nvme_tcp}}}}
workloads: {{main: {{kind: fio, {workload}}}}}
design: {{seed: {seed}}}
""",
        "test",
    )


def raw(asked: Study, blocks: int) -> list[list[RawTrial]]:
    platform = Fake(asked)

    async def all_of_them() -> list[list[RawTrial]]:
        return [[trial async for trial in platform.run_block(block)] for block in schedule(asked, blocks)]

    return asyncio.run(all_of_them())


def seen(asked: Study, blocks: int) -> list[dict[str, Observation]]:
    pairs = zip(schedule(asked, blocks), raw(asked, blocks), strict=True)
    return [{t.lane: observe(block, t.lane, t.outputs) for t in trials} for block, trials in pairs]


def ratio(asked: Study, metric: str) -> float:
    """Of the first block."""
    (block,) = seen(asked, 1)
    return block["nvme-tcp"].metrics[metric] / block["iscsi"].metrics[metric]


def test_true_effects_are_in_the_figures() -> None:
    quiet = "noise: {sd: 0%}, effects: {nvme-tcp: {speed: 1.25}}"
    assert ratio(study(quiet), "iops") == pytest.approx(1.25, rel=1e-4)
    assert ratio(study(quiet), "lat_mean") == pytest.approx(0.8, rel=1e-4)
    assert ratio(study(quiet), "lat_p99") == pytest.approx(0.8, rel=0.02)
    by_cell = "noise: {sd: 0%}, effects: {nvme-tcp: {cells: {'64k *': 1.5, '*': 0.9}}}"
    assert ratio(study(by_cell), "iops") == pytest.approx(0.9, rel=1e-3)
    assert ratio(study(by_cell, "bs: [64k], runtime: 10s"), "iops") == pytest.approx(1.5, rel=1e-3)


def test_tail_effect_moves_the_tail_and_hardly_the_median() -> None:
    slow = study("noise: {sd: 0%}, effects: {nvme-tcp: {tail: 3}}")
    assert ratio(slow, "lat_p50") == pytest.approx(1, abs=0.03)
    assert ratio(slow, "lat_p999") > 2


def test_littles_law_holds() -> None:
    for trial in seen(study(workload="bs: [4k, 64k], iodepth: [1, 8], numjobs: [1, 3], runtime: 5s"), 1):
        for observation in trial.values():
            depth = int(observation.cell.split("qd")[1].split("-")[0]) * (3 if observation.cell.endswith("x3") else 1)
            in_flight = observation.metrics["iops"] * observation.metrics["lat_mean"] / 1e9
            assert in_flight == pytest.approx(depth, rel=0.01)


def test_rate_and_mix_are_kept() -> None:
    (block,) = seen(study(workload="rw: [randrw], rate_iops: [500], numjobs: [2], runtime: 10s"), 1)
    load = block["iscsi"].context["load"]
    assert load["iops"] == {"read": 700.0, "write": 300.0}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["normal", "t3", "stalls", "drift", "correlated"])
def test_noise_is_of_the_asked_size_and_pairs_are_unbiased(model: str) -> None:
    blocks = seen(study(f"noise: {{sd: 2%, model: {model}}}", "runtime: 100s"), 120)
    logs = {lane: [math.log(block[lane].metrics["iops"]) for block in blocks] for lane in ("iscsi", "nvme-tcp")}
    sd = statistics.stdev(logs["iscsi"])
    expected = {"stalls": 0.058, "drift": 0.073}.get(model, 0.02)
    assert expected / 1.6 < sd < expected * 1.6
    differences = [a - b for a, b in zip(*logs.values(), strict=True)]
    assert abs(statistics.mean(differences)) < 4 * statistics.stdev(differences) / math.sqrt(len(differences))
    if model == "drift":  # the lanes share it: pairing takes it away
        assert statistics.stdev(differences) < 0.6 * sd
    if model == "correlated":
        assert statistics.correlation(logs["iscsi"][1:], logs["iscsi"][:-1]) > 0.25


def test_same_seed_same_bytes_another_seed_others() -> None:
    assert raw(study(), 2) == raw(study(), 2)
    assert raw(study(), 2) != raw(study(seed=2), 2)


def test_figures_stay_the_same_from_version_to_version() -> None:
    """Pinned: docs and golden reports are made of them."""
    (block,) = seen(study(), 1)
    assert {lane: round(block[lane].metrics["iops"], 1) for lane in sorted(block)} == PINNED


PINNED = {"iscsi": 11652.2, "nvme-tcp": 12178.4}


def test_unknown_lane_is_told_before_anything_runs() -> None:
    (problem,) = Fake(study("effects: {nvme: {speed: 2}}")).problems()
    assert "nvme" in problem.message
    assert "nvme-tcp" in problem.hint
    assert Fake(study()).problems() == []


def shape(value: Any) -> Any:
    """Keys in their order and types of values; bins and what names the run are left out."""
    if isinstance(value, dict):
        keys = {key: item for key, item in value.items() if key not in ("job options", "global options")}
        return {key: "bins" if key == "bins" else shape(item) for key, item in keys.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_text_has_the_shape_that_the_installed_fio_writes(tmp_path: Path) -> None:
    spec = FioSpec.model_validate(
        {"kind": "fio", "rw": ["randrw"], "engine": "libaio", "runtime": "300ms", "size": "4m", "iodepth": [2]}
    )
    (cell,) = spec.cells("main")
    (tmp_path / "disk").write_bytes(bytes(4 * 2**20))
    script = PLUGIN.script(cell, (str(tmp_path / "disk"),), 1)
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, timeout=60)
    text = (tmp_path / "fio.json").read_text()
    real = json.loads(text[text.index("{\n") :])
    if real["fio version"] != "fio-3.33":
        pytest.skip(f"{real['fio version']} is installed; the shape is that of 3.33")
    asked = study(workload="rw: [randrw], engine: libaio, runtime: 300ms, size: 4m, iodepth: [2]")
    fake = raw(asked, 1)[0][0].outputs["fio.json"].decode()
    for report in (real, invented := json.loads(fake)):
        report["disk_util"] = []
    assert shape(invented) == shape(real)
    assert list(invented["jobs"][0]) == list(real["jobs"][0])
    # not only the same values: the same way of writing them
    assert [line.split(":")[0] for line in fake.splitlines()[:5]] == [
        line.split(":")[0] for line in text[text.index("{\n") :].splitlines()[:5]
    ]
    midpoints = {str(midpoint) for midpoint, _ in edges()}
    for way in ("read", "write"):
        assert set(real["jobs"][0][way]["lat_ns"]["bins"]) <= midpoints
        assert set(invented["jobs"][0][way]["lat_ns"]["bins"]) <= midpoints


@pytest.mark.slow
def test_failures_and_deaths_come_as_often_as_asked() -> None:
    trials = [o for block in seen(study("failures: 20%"), 150) for o in block.values()]
    assert 0.12 < sum(bool(o.failed) for o in trials) / len(trials) < 0.28


def test_a_series_has_the_noise_and_the_start_that_the_figure_has() -> None:
    asked = study(
        "noise: {sd: 0%, seconds: 2%}, effects: {nvme-tcp: {warm: {speed: 1.5, time: 2s}}}",
        "rw: [randrw], numjobs: [2], ramp: 1s, runtime: 10s, series: 1s",
    )
    trials = seen(asked, 40)
    for trial in trials:
        for observation in trial.values():
            rates = observation.context["load"]["series"]["iops"]
            assert len(rates) == 10
            assert statistics.fmean(rates) == pytest.approx(observation.metrics["iops"], rel=1e-3)
    a, b = (
        [[math.log(x) for x in t[lane].context["load"]["series"]["iops"]] for t in trials]
        for lane in ("nvme-tcp", "iscsi")
    )
    assert statistics.fmean(x[0] for x in a) - statistics.fmean(x[0] for x in b) == pytest.approx(
        math.log(1.5), abs=0.02
    )  # the second second of the load, the first after the ramp
    assert statistics.fmean(x[1] for x in a) == pytest.approx(statistics.fmean(x[1] for x in b), abs=0.02)
    assert statistics.stdev(x for trial in b for x in trial) == pytest.approx(0.02, rel=0.25)
