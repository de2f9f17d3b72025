import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import FairlaneError
from fairlane.runs import plan as plans
from fairlane.runs.read import load_run
from tests.words import kind

NewRun = Callable[..., Any]
"""Makes a run directory: conftest.py."""


def test_plan_comes_back_as_it_was_written(new_run: NewRun) -> None:
    run = new_run(looks="[2, 4]", seed=9)
    plan = plans.read(run.folder)
    assert plan.blocks == run.plan.blocks
    assert plan.study == run.plan.study
    assert plan.study.design.seed == 9
    assert (run.folder / "study.yaml").read_text() == plan.text
    assert sorted(p.name for p in run.folder.iterdir()) == ["raw", "run.json", "schedule.jsonl", "study.yaml"]


def test_blocks_take_the_place_of_the_looks(new_run: NewRun) -> None:
    run = new_run(looks="[2, 4]")
    plan = plans.make(run.plan.study, run.plan.text, blocks=7)
    assert plan.looks == (7,)
    assert max(b.index for b in plan.blocks) == 6
    with pytest.raises(FairlaneError, check=kind("blocks-few")):
        plans.make(run.plan.study, run.plan.text, blocks=1)


def test_stages_hold_the_cells_that_were_left_open(new_run: NewRun) -> None:
    plan = new_run(looks="[2, 4, 6]").plan
    one = frozenset({plan.blocks[0].cell.key})
    assert {b.index for b in plan.due([])} == {0, 1}
    assert len(plan.due([])) == 8
    assert [(b.cell.key in one, b.index) for b in plan.stage(1, [one])] == [(True, 2), (True, 3)]
    assert len(plan.due([one])) == 10
    assert len(plan.due([one, one])) == 12
    assert len(plan.due([one, one, frozenset()])) == 12
    assert len(plan.due([frozenset()])) == 8


def test_folder_in_use_is_refused_and_an_empty_one_taken(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run()
    with pytest.raises(FairlaneError, check=kind("run-exists")):
        plans.create(run.folder, run.plan)
    (tmp_path / "empty").mkdir()
    plans.create(tmp_path / "empty", run.plan)
    plans.create(tmp_path / "new" / "below", run.plan)
    assert plans.is_run(tmp_path / "empty")
    (tmp_path / "file").touch()
    with pytest.raises(FairlaneError, check=kind("run-exists")):
        plans.create(tmp_path / "file", run.plan)
    with pytest.raises(FairlaneError, check=kind("unwritable", where=str(tmp_path / "file" / "below"))):
        plans.create(tmp_path / "file" / "below", run.plan)
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".new")]


def test_study_changed_in_the_run_is_refused(new_run: NewRun) -> None:
    run = new_run()
    path = run.folder / "study.yaml"
    path.write_text(path.read_text().replace("1s", "2s"))
    with pytest.raises(FairlaneError, check=kind("run-changed", where=str(path))):
        load_run(run.folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', "{broken", "[" * 100_000, "\ud800"])
def test_hostile_run_json(new_run: NewRun, text: str) -> None:
    run = new_run()
    (run.folder / "run.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(FairlaneError, match=r"run\.json"):
        load_run(run.folder)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "1",
        "{broken",
        '{"cell": "nobody", "block": 0, "order": [], "seed": 1}',
        '{"cell": "main.4k-randread-qd1", "block": 0, "order": ["../../x"], "seed": 1}',
        '{"cell": "main.4k-randread-qd1", "block": "x", "order": [], "seed": 1}',
        '{"cell": [], "block": 0, "order": [], "seed": 1}',
    ],
)
def test_hostile_schedule(new_run: NewRun, line: str) -> None:
    run = new_run()
    path = run.folder / "schedule.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(FairlaneError) as raised:
        load_run(run.folder)
    assert raised.value.where == f"{path}:{len(run.plan.blocks) + 1}"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "trial"},
        {"type": "trial", "cell": "nobody", "block": 0, "lane": "iscsi", "raw": "x", "sha256": "x"},
        {"type": "trial", "cell": "main.4k-randread-qd1", "block": 0, "lane": "x", "raw": "x", "sha256": "x"},
        {"type": "trial", "cell": [], "block": {}, "lane": "x", "raw": "x", "sha256": "x"},
        {"type": "look", "look": 1, "open": []},
        {"type": "look", "look": 0, "open": [[]]},
        {"type": "look"},
    ],
)
def test_event_that_does_not_fit_is_told_with_its_line(new_run: NewRun, event: dict[str, object]) -> None:
    run = new_run()
    run.journal.write_text(json.dumps({"type": "start"}) + "\n" + json.dumps(event) + "\n")
    with pytest.raises(FairlaneError, check=kind("journal-damaged", where=f"{run.journal}:2")):
        load_run(run.folder)


def test_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(FairlaneError, check=kind("not-a-run")):
        load_run(tmp_path)
    with pytest.raises(FairlaneError, check=kind("not-a-run")):
        load_run(tmp_path / "absent")
