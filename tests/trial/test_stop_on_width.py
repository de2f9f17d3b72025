"""A run that stops on width, carried out for real on the fake platform, killed and resumed."""

from collections.abc import Callable
from typing import Any

from fairlane.runs import journal
from fairlane.runs import plan as plans
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study

NewRun = Callable[..., Any]
"""Makes a run directory: conftest.py."""


def width_run(new_run: NewRun, name: str) -> Any:
    """The small study of the other tests, with ``stop`` in place of its looks; noise of 2.4 %."""
    run = new_run(name, platform="noise: {sd: 2.4%}")
    text = run.plan.text.replace("looks: [3]", "stop: {width: 2.5%, most: 16}").replace(
        "rw: [randread, randwrite], ", ""
    )
    text = text.replace("  local: {transport: local}\n", "")
    plan = plans.make(parse_study(text, "study.yaml"), text)
    folder = run.folder.with_name(f"{name}-width")
    plans.create(folder, plan)
    run.folder, run.plan = folder, plan
    return run


def test_cells_end_when_they_are_narrow_and_a_resumed_run_agrees(new_run: NewRun) -> None:
    whole = width_run(new_run, "whole")
    told = whole.go(jobs=3)
    evidence = load_run(whole.folder)
    assert evidence.complete
    ends = {
        cell.key: 1 + max(o.block for o in evidence.observations if o.cell == cell.key) for cell in evidence.cells()
    }
    assert min(ends.values()) >= 10
    assert len(set(ends.values())) > 1
    assert max(ends.values()) <= 16
    for v in judge(evidence, ()):
        if v.primary:
            assert v.blocks == ends[v.key]
            assert v.high is not None
            assert v.ratio is not None
            assert v.high / v.ratio <= 1.025 or v.blocks == 16
    assert told.looks[-1] == frozenset() or max(ends.values()) == 16

    again = width_run(new_run, "again")
    again.go()
    complete = again.journal.read_bytes()
    assert again.result() == whole.result()
    for end in (len(complete) // 3, len(complete) - 700):
        again.journal.write_bytes(complete[:end])
        partial = load_run(again.folder)
        assert not partial.complete
        again.go(jobs=2)
        assert again.result() == whole.result()
    looks = [e for e in journal.read(again.folder) if e["type"] == "look"]
    assert [e["blocks"] for e in looks] == list(range(10, max(ends.values()) + 1))


def test_a_fixed_number_of_blocks_takes_the_place_of_the_rule(new_run: NewRun) -> None:
    run = width_run(new_run, "fixed")
    plan = plans.make(run.plan.study, run.plan.text, blocks=7)
    assert (plan.looks, plan.study.design.stop) == ((7,), None)
    folder = run.folder.with_name("fixed-seven")
    plans.create(folder, plan)
    assert plans.read(folder).study == plan.study
    assert plans.read(run.folder).study == run.plan.study
