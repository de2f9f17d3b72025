"""Lanes with ``copy_of``: A/A controls in the study file."""

import pytest

from fairlane.errors import FairlaneError
from fairlane.runs import plan as plans
from fairlane.study.forecast import plan
from fairlane.study.load import parse_study
from fairlane.study.schedule import schedule
from tests.words import kind

STUDY = """\
name: copies
platform: {{kind: fake}}
baseline: a
lanes:
  a: {{transport: local, label: A}}
  b: {{transport: iscsi, sessions: 2, label: B, cap_iops: 500}}
  b2: {{{}}}
workloads: {{main: {{kind: fio, runtime: 1s}}}}
"""


def study(copy):
    return parse_study(STUDY.format(copy), "c.yaml")


@pytest.mark.parametrize("more", ["", ", sessions: 2"])
def test_a_copy_takes_what_it_does_not_say(more):
    lanes = study(f"transport: iscsi, copy_of: b, label: B again{more}").lanes
    own = {"label": "B again", "copy_of": "b"}
    assert lanes["b2"] == lanes["b"].model_copy(update=own)
    assert lanes["b"].copy_of == ""


@pytest.mark.parametrize(
    ("copy", "error", "key"),
    [
        ("transport: iscsi, copy_of: bb", "lane-unknown", "copy_of"),
        ("transport: iscsi, copy_of: b, sessions: 1", "copy-differs", "sessions"),
        ("transport: local, copy_of: b", "copy-differs", "transport"),
        ("transport: iscsi, copy_of: b2", "copy-of-copy", "copy_of"),
    ],
)
def test_what_is_no_copy_is_told(copy, error, key):
    with pytest.raises(FairlaneError, check=kind(error)) as told:
        study(copy)
    assert told.value.message.startswith(f"lanes.b2.{key}: ")
    assert error != "lane-unknown" or ("'bb'" in told.value.message and "a, b" in told.value.message)


def cells(more=""):
    """Two cells, and a copy in the first one alone."""
    text = STUDY.format("transport: iscsi, copy_of: b, cells: first").replace("kind: fio", "kind: fio, iodepth: [1, 4]")
    return parse_study(text + more, "c.yaml"), text + more


def test_a_copy_may_run_in_the_first_cell_alone():
    of, _ = cells("design: {looks: [4]}")
    first, second = of.cells()
    assert (of.lanes_of(first), of.lanes_of(second)) == (("a", "b", "b2"), ("a", "b"))
    orders = {block.cell.key: sorted(block.order) for block in schedule(of, 4)}
    assert orders == {first.key: ["a", "b", "b2"], second.key: ["a", "b"]}
    (look,) = plan(of, jobs=1).looks
    assert (look.trials, look.load_seconds) == (4 * 5, 4 * 5)


def test_a_run_of_it_reads_back_what_it_planned(tmp_path):
    of, text = cells("design: {provisionings: 2}")
    plans.create(tmp_path / "run", planned := plans.make(of, text))
    assert plans.read(tmp_path / "run").blocks == planned.blocks


def test_only_a_copy_may_leave_cells_out():
    with pytest.raises(FairlaneError, check=kind("cells-of-copy")) as raised:
        study("transport: iscsi, cells: first")
    assert raised.value.hint


def test_the_baseline_is_no_copy():
    with pytest.raises(FairlaneError, check=kind("copy-of-copy")):
        parse_study(STUDY.format("transport: local, copy_of: a").replace("baseline: a", "baseline: b2"), "c.yaml")
