from collections.abc import Callable
from typing import Any

import pytest

from fairlane.platforms.fake import Fake
from fairlane.records import Block
from fairlane.runs.observe import observe
from fairlane.trial.progress import Estimate

NewRun = Callable[..., Any]
"""Makes a run directory: conftest.py."""


@pytest.fixture
def block(new_run: NewRun) -> Block:
    first: Block = new_run().plan.blocks[0]
    return first


@pytest.fixture
def outputs(new_run: NewRun, block: Block) -> dict[str, bytes]:
    return Fake(new_run("other").plan.study)._outputs(block, "iscsi")


def test_figures_of_a_good_trial(block: Block, outputs: dict[str, bytes]) -> None:
    seen = observe(block, "iscsi", outputs)
    assert (seen.cell, seen.block, seen.lane) == (block.cell.key, 0, "iscsi")
    assert seen.position == block.order.index("iscsi")
    assert not seen.failed
    assert {"iops", "bw", "lat_mean", "lat_p99"} <= seen.metrics.keys()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": b"5\n", "fio.err": b"x" * 1000 + b"no such device\n"}, "5 xxx device"),
        ({"status": b"1"}, "1"),
        ({"status": b""}, ""),
        ({"status": b"\xff\xfe"}, ""),
        ({"fio.json": b"{"}, "fio.json"),
    ],
)
def test_failed_trial_says_why_and_has_no_figures(
    block: Block, outputs: dict[str, bytes], change: dict[str, Any], reason: str
) -> None:
    seen = observe(block, "iscsi", outputs | change)
    assert seen.failed
    assert [token for token in reason.split() if token not in seen.failed] == []
    assert len(seen.failed) < 400
    assert not seen.metrics
    assert not seen.histograms


def test_probe_snapshots_are_read(block: Block, outputs: dict[str, bytes]) -> None:
    def snapshot(retransmits: int) -> bytes:
        return f"/proc/net/snmp:Tcp: InSegs RetransSegs\n/proc/net/snmp:Tcp: 100 {retransmits}\n".encode()

    seen = observe(block, "iscsi", outputs | {"probe.net.before": snapshot(5), "probe.net.after": snapshot(8)})
    assert seen.context["net"] == {"retransmits": 3}  # drops were not counted
    assert seen.context["fio"]
    alone = observe(block, "iscsi", outputs | {"probe.net.before": snapshot(5)})
    assert "net" not in alone.context


def test_time_left_follows_what_trials_took(new_run: NewRun) -> None:
    run = new_run()  # the fake platform expects 5 ms a trial
    estimate = Estimate(run.plan.study)
    estimate.due(run.plan.blocks, frozenset(), 1)
    assert estimate.seconds == pytest.approx(36 * 0.005)
    names = [b.trial_id(lane) for b in run.plan.blocks for lane in b.order]
    for name in names[:12]:
        estimate.trial(name, 2.0)
    assert estimate.seconds == pytest.approx(48)
    estimate.due(run.plan.blocks, frozenset(names[:30]), 2)
    assert estimate.seconds == pytest.approx(6)
    for name in names[30:]:
        estimate.trial(name, 2.0)
    assert estimate.seconds == 0


def test_a_late_machine_of_a_fleet_voids_the_trial(block: Block, outputs: dict[str, bytes]) -> None:
    fleet = {f"vm{number}/{name}": data for number in range(2) for name, data in outputs.items()}
    assert not observe(block, "iscsi", fleet | {"fleet.json": b'{"late": []}'}).failed
    seen = observe(block, "iscsi", fleet | {"fleet.json": b'{"late": ["beta began 3.00 s late"]}'})
    assert "beta began 3.00 s late" in seen.failed
    assert not seen.metrics
