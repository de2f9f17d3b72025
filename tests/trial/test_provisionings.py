"""Runs whose volumes and machines are made anew, carried out on the fake platform, killed and resumed anywhere."""

import asyncio
import json
import math
import os
import signal
import statistics
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlane import registry
from fairlane.errors import Exit, RunFailed
from fairlane.platforms.base import Notify, Opened, RawTrial
from fairlane.platforms.fake import Fake
from fairlane.records import Block, Evidence
from fairlane.runs import journal
from fairlane.runs import plan as plans
from fairlane.runs.read import load_run, read_json
from fairlane.stats.variance import splits
from fairlane.study.load import parse_study

NewRun = Callable[..., Any]
"""Makes a run directory: conftest.py."""


def anew(new_run: NewRun, name: str, design: str = "provisionings: 3, looks: [4, 6]", platform: str = "") -> Any:
    """A run of two cells and three lanes that is made anew."""
    run = new_run(name, platform=platform or "noise: {placement: 3%}")
    text = run.plan.text.replace("looks: [3]", design).replace("iodepth: [1, 16], ", "")
    plan = plans.make(parse_study(text, "study.yaml"), text)
    folder = run.folder.with_name(f"{name}-anew")
    plans.create(folder, plan)
    run.folder, run.plan = folder, plan
    return run


class Traced(Fake):
    """Writes down what is done with every object of it."""

    trace: list[tuple[Any, ...]]
    """("open", number), ("block", number of its provisioning), ("close", number)."""
    objects: set[int]

    async def open(self, notify: Notify) -> Opened:
        opened = await super().open(notify)
        self.trace.append(("open", self.provisioning))
        self.objects.add(id(self))
        return Opened({**opened.description, "platform": {"number": self.provisioning}}, opened.fingerprint)

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        self.trace.append(("block", self.study.design.provisioning_of(block), self.provisioning))
        async for trial in super().run_block(block):
            yield trial

    async def close(self) -> None:
        self.trace.append(("close", self.provisioning))
        await super().close()


@pytest.fixture
def traced() -> type[Traced]:
    Traced.trace, Traced.objects = [], set()
    return Traced


def events(folder: Path, *types: str) -> list[dict[str, Any]]:
    return [dict(e) for e in journal.read(folder) if e["type"] in types]


def finding(evidence: Evidence, kind: str) -> Any:
    (one,) = [f for f in registry.load("checks", "provisionings").check(evidence) if f.kind == kind] or [None]
    return one


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_platform_is_opened_for_each_provisioning_and_closed_before_the_next(
    new_run: NewRun, traced: type[Traced], jobs: int
) -> None:
    run = anew(new_run, "run")
    run.go(traced, jobs)
    ends = [step for step in traced.trace if step[0] != "block"]
    assert ends == [(what, number) for number in range(3) for what in ("open", "close")]
    assert len(traced.objects) == 3  # nothing of one is in the next
    at = [number for what, number, *_ in traced.trace if what == "block"]
    assert at == sorted(at)
    assert all(step[1] == step[2] for step in traced.trace if step[0] == "block")
    kinds = [e["type"] for e in events(run.folder, "start", "provision", "look", "end")]
    assert kinds == ["start", "provision", "look", "provision", "look", "end"]


def test_one_provisioning_is_opened_once_whatever_the_looks(new_run: NewRun, traced: type[Traced]) -> None:
    run = anew(new_run, "run", "looks: [2, 4]")
    run.go(traced)
    assert [step for step in traced.trace if step[0] != "block"] == [("open", 0), ("close", 0)]
    assert not (run.folder / "descriptions").exists()


def test_what_was_built_is_kept_of_every_provisioning(new_run: NewRun, traced: type[Traced]) -> None:
    run = anew(new_run, "run")
    run.go(traced)
    opened = events(run.folder, "start", "provision")
    assert [e["provisioning"] for e in opened] == [0, 1, 2]
    assert [read_json(run.folder / e["description"])["platform"] for e in opened] == [{"number": n} for n in range(3)]
    assert opened[0]["description"] == "description.json"
    assert all(e["fingerprint"] == opened[0]["fingerprint"] for e in opened)


class Moves(Fake):
    """Another kernel from the second provisioning on."""

    async def open(self, notify: Notify) -> Opened:
        opened = await super().open(notify)
        return Opened(opened.description, {**opened.fingerprint, "kernel": "6.1" if self.provisioning == 0 else "6.2"})


def test_a_fingerprint_that_changes_is_treated_as_that_of_a_resume(new_run: NewRun) -> None:
    run = anew(new_run, "run")
    told = run.go(Moves)
    assert [e.get("changed") for e in events(run.folder, "start", "provision")] == [
        None, {"kernel": ["6.1", "6.2"]}, {"kernel": ["6.1", "6.2"]},
    ]  # fmt: skip
    assert any("6.2" in note for note in told.notes)
    (mixed,) = registry.load("checks", "mixed_versions").check(load_run(run.folder))
    assert mixed.kind == "programs"
    assert mixed.evidence == {"kernel": ["6.1", "6.2"]}


def test_cells_that_are_decided_are_not_run_in_later_provisionings(new_run: NewRun, traced: type[Traced]) -> None:
    """Reads are three times as fast, and writes 2 % faster with a spread of 5 %: nothing to decide on."""
    effects = "effects: {" + ", ".join(
        f'{lane}: {{speed: 3, cells: {{"* randwrite *": 1.02}}}}' for lane in ("nvme-tcp", "local")
    )
    run = anew(new_run, "run", "provisionings: 8, looks: [12, 16]", f"{effects}}}, noise: {{sd: 5%}}")
    told = run.go(traced)
    cells = {cell.name: cell.key for cell in run.plan.study.cells()}
    assert told.looks[0] == {cells["4k randwrite qd1"]}
    late = {e["cell"] for e in events(run.folder, "trial") if e["block"] >= 12}
    assert late == told.looks[0]
    assert [step[1] for step in traced.trace if step[0] == "open"] == list(range(8))


def test_with_every_cell_decided_no_further_provisioning_is_made(new_run: NewRun, traced: type[Traced]) -> None:
    effects = "effects: {nvme-tcp: {speed: 3}, local: {speed: 2}}"
    run = anew(new_run, "run", "provisionings: 8, looks: [12, 16]", f"{effects}, noise: {{sd: 1%}}")
    assert run.go(traced).looks[0] == frozenset()
    assert [step[1] for step in traced.trace if step[0] == "open"] == list(range(6))


def test_journal_cut_anywhere_is_finished_to_the_same_result(new_run: NewRun) -> None:
    whole = anew(new_run, "whole")
    whole.go()
    result, complete = whole.result(), whole.journal.read_bytes()
    lines = [i + 1 for i, byte in enumerate(complete) if byte == 10]
    for end in [0, *lines[::6]]:  # at starts, looks, between and within provisionings, blocks, trials
        whole.journal.write_bytes(complete[:end])
        whole.go(jobs=2)
        trials = [(e["cell"], e["block"], e["lane"]) for e in events(whole.folder, "trial")]
        assert len(trials) == len(set(trials)) == 2 * 6 * 3
        assert events(whole.folder, "mismatch") == []
        assert whole.result() == result
        # resumed within a provisioning, its volumes were made once more, and the run says so
        kept = [json.loads(line) for line in complete[:end].splitlines()]
        of = whole.plan.study.design.provisioning_of
        within = [
            n for n in range(3) if 0 < sum(e["type"] == "trial" and of(e["block"]) == n for e in kept) < 2 * 2 * 3
        ]
        twice = finding(load_run(whole.folder), "made-twice")
        assert (twice and twice.evidence) == ({"again": {str(n): 1 for n in within}} if within else None)


class WallClock(Traced):
    repeats_exactly = False


class Dies(WallClock):
    """The guest dies in the first block of the second provisioning."""

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        async for trial in super().run_block(block):
            if self.provisioning == 1 and block.index == 2 and block.cell.name.startswith("4k randread"):
                raise RunFailed("invented", "the guest died")
            yield trial


def test_a_block_that_failed_is_run_in_its_own_provisioning_opened_again(new_run: NewRun, traced: type[Traced]) -> None:
    run = anew(new_run, "run")
    assert run.fail(Dies).kind == "blocks-missing"
    assert events(run.folder, "look") == []
    traced.trace.clear()
    run.go(WallClock)
    assert [step[:2] for step in traced.trace[:3]] == [("open", 1), ("block", 1), ("close", 1)]
    (resumed,) = events(run.folder, "resume")
    assert (resumed["provisioning"], resumed["trials"]) == (1, 3 * 3)
    assert finding(load_run(run.folder), "made-twice").evidence == {"again": {"1": 1}}


class NeverOpensAgain(Traced):
    async def open(self, notify: Notify) -> Opened:
        if self.provisioning == 1:
            raise RunFailed("invented", "no array", hint="plug it in")
        return await super().open(notify)


def test_a_platform_that_does_not_open_again_is_closed_and_leaves_a_run_that_resumes(
    new_run: NewRun, traced: type[Traced]
) -> None:
    whole, run = anew(new_run, "whole"), anew(new_run, "run")
    whole.go()
    assert run.fail(NeverOpensAgain).hint == "plug it in"
    assert [step for step in traced.trace if step[0] != "block"] == [("open", 0), ("close", 0), ("close", 1)]
    run.go()
    assert run.result() == whole.result()
    assert finding(load_run(run.folder), "made-twice") is None


class InterruptedBetween(Traced):
    """Somebody presses Ctrl-C while the first provisioning is taken down."""

    async def close(self) -> None:
        if self.provisioning == 0:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
        await super().close()


def test_interrupted_between_two_provisionings_nothing_is_left_open_or_made_twice(
    new_run: NewRun, traced: type[Traced]
) -> None:
    whole, run = anew(new_run, "whole"), anew(new_run, "run")
    whole.go()
    assert run.fail(InterruptedBetween).code == Exit.INTERRUPTED
    assert [step for step in traced.trace if step[0] != "block"] == [("open", 0), ("close", 0)]
    run.go()
    assert run.result() == whole.result()
    assert finding(load_run(run.folder), "made-twice") is None


class Rebuilds(Fake):
    """Loses a machine in the second provisioning."""

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        async for trial in super().run_block(block):
            yield trial
        self.rebuilds = int(self.provisioning == 1)


def test_machines_that_were_lost_and_made_again_are_told(new_run: NewRun) -> None:
    run = anew(new_run, "run")
    run.go(Rebuilds)
    assert [e["provisioning"] for e in events(run.folder, "rebuilt")] == [1]
    assert finding(load_run(run.folder), "made-twice").evidence == {"again": {"1": 1}}


@pytest.mark.parametrize(
    ("design", "platform", "said"),
    [
        ("looks: [6]", "noise: {placement: 3%}", "provisioned once"),
        ("looks: [6]", "noise: {placement: 0%}", ""),  # nothing lies anywhere
        ("provisionings: 4", "noise: {placement: 3%}", "only 4 times"),
        ("provisionings: 5", "noise: {placement: 3%}", ""),
    ],
)
def test_with_fewer_than_five_provisionings_the_verdicts_hold_for_these_volumes(
    new_run: NewRun, design: str, platform: str, said: str
) -> None:
    run = anew(new_run, "run", design, platform)
    run.go()
    found = finding(load_run(run.folder), "few-provisionings")
    assert bool(found) == bool(said)
    assert found is None or (found.severity == "info" and said in found.message)


def test_an_existing_device_is_named(new_run: NewRun) -> None:
    run = new_run("run", platform="noise: {placement: 3%}")
    text = run.plan.text.replace("local: {transport: local}", "local: {transport: device, identity: 'serial:S1'}")
    plan = plans.make(parse_study(text, "study.yaml"), text)
    run.folder, run.plan = run.folder.with_name("device"), plan
    plans.create(run.folder, plan)
    run.go()
    found = finding(load_run(run.folder), "few-provisionings")
    assert found.lanes == ("local",)
    assert list(found.evidence["existing"]) == ["local"]


# --- the fake platform's placement ------------------------------------------------------------------------------------


def logs(run: Any) -> dict[tuple[str, str], list[float]]:
    """(cell, lane) -> ln(IOPS) by block."""
    out: dict[tuple[str, str], list[float]] = {}
    for o in sorted(load_run(run.folder).observations, key=lambda o: o.block):
        out.setdefault((o.cell, o.lane), []).append(math.log(o.metrics["iops"]))
    return out


def test_placement_is_a_factor_per_lane_cell_and_provisioning(new_run: NewRun) -> None:
    run = anew(new_run, "run", "provisionings: 20, looks: [40]", "noise: {sd: 0.1%, placement: 3%}")
    run.go()
    places = []
    for values in logs(run).values():
        each = [values[n : n + 2] for n in range(0, 40, 2)]
        assert all(abs(one - two) < 0.01 for one, two in each)
        places.append([one for one, _ in each])
    spread = [statistics.stdev(place) for place in places]
    assert statistics.mean(spread) == pytest.approx(0.03, rel=0.2)
    assert len({round(place[0], 6) for place in places}) == len(places)
    split = splits(load_run(run.folder))["main"]
    assert math.sqrt(split.lane_provision or 0) == pytest.approx(0.03, rel=0.25)


def test_without_placement_figures_are_what_they_were(new_run: NewRun) -> None:
    bare, zero = new_run("bare"), new_run("zero", platform="noise: {placement: 0%}")
    bare.go()
    zero.go()
    assert bare.result() == zero.result()
