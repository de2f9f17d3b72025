"""Workloads that check another one: which cells run how often, what is judged, what is refused."""

from collections import Counter

import pytest

from fairlane.errors import FairlaneError
from fairlane.stats.pilot import level
from fairlane.study.base import CHECK_BLOCKS
from fairlane.study.forecast import plan
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule

STUDY = """\
name: minutes
platform: {kind: fake}
lanes: {a: {transport: iscsi}, b: {transport: iscsi}}
baseline: a
workloads:
  main: {kind: fio, iodepth: [1, 16], ramp: 1s, runtime: 1s}
  minutes: {kind: fio, check_of: main, iodepth: [16], ramp: 5s, runtime: 60s}
design: {looks: [6, 10]}
"""
LONG = "minutes.4k-randread-qd16"


def test_long_cells_run_in_the_first_blocks_and_are_not_judged():
    study = parse_study(STUDY, "s.yaml")
    assert [cell.key for cell in study.judged] == ["main.4k-randread-qd1", "main.4k-randread-qd16"]
    blocks = Counter(block.cell.key for block in schedule(study, 10))
    assert blocks == {"main.4k-randread-qd1": 10, "main.4k-randread-qd16": 10, LONG: CHECK_BLOCKS}
    assert {b.index for b in schedule(study, 10) if b.cell.key == LONG} == set(range(CHECK_BLOCKS))
    assert schedule(study, 10)[: len(schedule(study, 6))] == schedule(study, 6)
    assert level(study) == 0.05 / 2


def test_the_plan_counts_their_time():
    first, last = plan(parse_study(STUDY, "s.yaml"), 1).looks
    check = CHECK_BLOCKS * 2 * 65
    assert (first.load_seconds, last.load_seconds) == (6 * 2 * 2 * 2 + check, 10 * 2 * 2 * 2 + check)
    assert (first.trials, last.trials) == (6 * 4 + 2 * CHECK_BLOCKS, 10 * 4 + 2 * CHECK_BLOCKS)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("check_of: main", "check_of: other", "workload-unknown"),
        ("check_of: main", "check_of: minutes", "workload-unknown"),
        ("iodepth: [16]", "iodepth: [16, 32]", "check-differs"),
        ("runtime: 60s", "runtime: 60s, primary: lat_p99", "check-differs"),
    ],
)
def test_what_cannot_be_checked(old, new, kind):
    with pytest.raises(FairlaneError) as error:
        parse_study(STUDY.replace(old, new), "s.yaml")
    assert error.value.kind == kind
