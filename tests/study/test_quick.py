"""The quick form of a study: what it puts in place of the whole, and where its errors are."""

from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.runs import plan as plans
from fairlane.study.load import load_study, parse_study
from tests.words import kind

WHOLE = """\
name: both
platform: {kind: fake}
baseline: slow
lanes:
  slow: {transport: iscsi, sessions: 2}
  fast: {transport: nvme_tcp}
  third: {transport: local}
workloads:
  main: {kind: fio, rw: [randread, randwrite], bs: [4k], iodepth: [1, 8], runtime: 60s}
design: {looks: [6, 10], seed: 7}
quick:
  lanes:
    slow: {sessions: 1}
    third: null
  workloads:
    main: {rw: [randread], runtime: 1s}
  design: {looks: [4]}
"""


def test_the_whole_study_is_as_if_there_were_no_quick_form() -> None:
    assert parse_study(WHOLE, "s") == parse_study(WHOLE.partition("quick:")[0], "s")


def test_mappings_are_merged_lists_replaced_and_null_takes_away() -> None:
    study = parse_study(WHOLE, "s", quick=True)
    assert list(study.lanes) == ["slow", "fast"]
    assert study.lanes["slow"].sessions == 1  # type: ignore[attr-defined]
    assert [cell.name for cell in study.cells()] == ["4k randread qd1", "4k randread qd8"]
    assert study.workloads["main"].trial_seconds(study.cells()[0]) == 1
    assert (study.design.looks, study.design.seed) == ((4,), 7)


@pytest.mark.parametrize("quick", [False, True])
def test_an_error_in_the_quick_form_has_its_own_line_and_is_found_either_way(quick: bool) -> None:
    text = WHOLE.replace("main: {rw: [randread], runtime: 1s}", "main: {rw: [randread], runtime: 1}")
    with pytest.raises(FairlaneError) as caught:
        parse_study(text, "s.yaml", quick=quick)
    assert caught.value.where == "s.yaml:16"
    assert "workloads.main.runtime" in caught.value.message


def test_an_unknown_key_of_the_quick_form_is_told() -> None:
    with pytest.raises(FairlaneError) as caught:
        parse_study(WHOLE + "  questoin: x\n", "s.yaml")
    assert (caught.value.kind, caught.value.where) == ("key-unknown", "s.yaml:18")
    assert "'question'" in caught.value.hint


def test_a_study_without_quick_form_says_so(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(WHOLE.partition("quick:")[0])
    with pytest.raises(FairlaneError, check=kind("no-quick-form")):
        load_study(str(file), quick=True)


@pytest.mark.parametrize("quick", [False, True])
def test_a_run_remembers_which_form_it_is(tmp_path: Path, quick: bool) -> None:
    plans.create(tmp_path / "run", plans.make(parse_study(WHOLE, "s", quick=quick), WHOLE))
    again = plans.read(tmp_path / "run")
    assert again.quick is quick
    assert again.looks == ((4,) if quick else (6, 10))
    assert {lane for block in again.blocks for lane in block.order} == set(again.study.lanes)
