"""The plan counts what a study will do."""

import pytest

from fairlane.study.forecast import about, plan
from fairlane.study.load import load_study, parse_study
from fairlane.study.schedule import schedule


def test_demo() -> None:
    study, _ = load_study("demo")
    found = plan(study, jobs=2)
    assert [c.cell.name for c in found.cells[:2]] == ["4k randread qd1", "4k randread qd16"]
    assert len(found.cells) == 8
    (look,) = found.looks
    assert (look.blocks, look.trials) == (3, 3 * 8 * 3)
    assert look.trials == sum(len(block.order) for block in schedule(study, 3))
    assert look.load_seconds == pytest.approx(look.trials * 0.105)
    assert look.wall_seconds == pytest.approx(plan(study, jobs=1).looks[0].wall_seconds / 2)


def test_every_look_has_its_line() -> None:
    text = """\
name: a
platform: {kind: lab}
baseline: a
lanes: {a: {transport: local}, b: {transport: iscsi}}
workloads: {w: {kind: fio, runtime: 10s, ramp: 5s}, v: {kind: fio, runtime: 20s}}
design: {looks: [2, 4, 8]}
"""
    found = plan(parse_study(text, "a"), jobs=1)
    assert [(n.blocks, n.trials, n.load_seconds) for n in found.looks] == [(2, 8, 140), (4, 16, 280), (8, 32, 560)]


ANEW = """\
name: a
platform: {kind: kubevirt, image: "docker://i", disk_size: 10GiB, fleet: 2, disks: 3}
baseline: a
lanes: {a: {transport: storage_class, storage_class: a}, b: {transport: storage_class, storage_class: b}}
workloads:
  w: {kind: fio, rw: [randread, randwrite], runtime: 10s, prefill: true, steady: {round: 10s, limit: 5m}}
  v: {kind: fio, runtime: 20s, prefill: true, size: 1GiB}
design: {provisionings: 6}
"""


def test_what_provisionings_cost_stands_in_the_plan() -> None:
    made = plan(parse_study(ANEW, "a"), jobs=1).provisionings
    assert (made.count, made.blocks) == (6, 2)
    assert made.fill_bytes == 2 * 2 * 3 * (10 + 1) * 2**30  # lanes, machines, disks; a volume whole, and a part
    assert made.steady_seconds == 2 * 300


def test_a_study_without_prefill_fills_nothing() -> None:
    made = plan(load_study("demo")[0], jobs=1).provisionings
    assert (made.count, made.blocks, made.fill_bytes, made.steady_seconds) == (1, 3, 0, 0)


def test_more_workers_than_blocks_do_not_make_a_block_shorter() -> None:
    study, _ = load_study("nvme-tcp-stall")
    one_block = len(study.lanes) * study.platform.wall_seconds(0.18)
    assert plan(study, jobs=1000).looks[0].wall_seconds == pytest.approx(one_block)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.25 s"), (45.4, "45 s"), (89.9, "90 s"), (99.4, "99 s"), (720, "12 min"), (12600, "3.5 h")],
)
def test_about(seconds: float, text: str) -> None:
    assert about(seconds) == text
