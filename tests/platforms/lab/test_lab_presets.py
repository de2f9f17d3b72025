"""What the presets promise, in small: one cell of the demonstration, and the stall with and without its cause."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_process import carried_out

from fairlane.runs.read import load_run
from fairlane.study.load import load_study

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("here"), pytest.mark.timeout(1800)]


def derived(preset: str, *, blocks: int, main: dict[str, Any] | None = None, **platform: Any) -> str:
    """A study file made from ``preset``: its two networked lanes, other keys in workload and platform, and one look."""
    study = yaml.safe_load(load_study(preset)[1])
    study["lanes"].pop("local", None)
    study["workloads"]["main"] |= main or {}
    study["platform"] |= platform
    study["design"]["looks"] = [blocks]
    Path("derived.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    return "derived.yaml"


@pytest.mark.slow
def test_the_demo_finds_nvme_tcp_faster_for_small_reads() -> None:
    study = derived("demo", blocks=3, main={"rw": ["randread"], "bs": ["4k"], "iodepth": [16]})
    carried_out("run", study, "--out", "out")
    verdicts = json.loads(carried_out("verdicts", "out", "--format", "json")[0])
    (found,) = (v for v in verdicts if (v["lane"], v["metric"]) == ("nvme-tcp", "iops"))
    assert (found["baseline"], found["cell"], found["blocks"]) == ("iscsi", "4k randread qd16", 3)
    assert (found["verdict"], found["headline"]) == ("faster", True)
    assert 1 < found["low"] < found["ratio"] < found["high"]


def worst_share(study: str) -> float:
    """The lowest IOPS of nvme-tcp as a share of iscsi's in the same block."""
    carried_out("run", study, "--out", "out")
    observations = load_run(Path("out")).observations
    iops = {(o.block, o.lane): o.metrics["iops"] for o in observations}
    return min(iops[block, "nvme-tcp"] / iops[block, "iscsi"] for block, _ in iops)


@pytest.mark.slow
def test_full_preemption_stalls_nvme_tcp() -> None:
    assert worst_share(derived("nvme-tcp-stall", blocks=8)) < 0.25


@pytest.mark.slow
def test_without_preemption_nothing_stalls() -> None:
    assert worst_share(derived("nvme-tcp-stall", blocks=3, preempt="none")) > 0.8
