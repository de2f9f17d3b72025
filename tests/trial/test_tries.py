"""A block whose machine died, or that was cut, is done again whole; what it gave before is kept and not judged."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.errors import Exit, Incomplete, MachineLost
from fairlane.platforms.base import RawTrial
from fairlane.records import Block
from fairlane.runs import journal, raw
from fairlane.runs.read import load_run
from fairlane.web.reading import Reader
from fairlane.web.updates import Tracker
from tests.trial.test_runner import BLOCKS, Counting, NewRun, cut, kinds

LANES = 3


class WallClock(Counting):
    """Each block on a wall clock: other figures each time. ``deadly``: which of the blocks that are begun lose a
    machine, before the trial of their last lane."""

    repeats_exactly = False
    deadly: frozenset[int] = frozenset()
    begun = 0

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        type(self).begun += 1
        dies = self.begun in self.deadly
        async for trial in super().run_block(block):
            if dies and trial.lane == block.order[-1]:
                raise MachineLost("guest0 ended: QEMU was killed by signal 9 (SIGKILL)\n  its console")
            yield RawTrial(trial.lane, {**trial.outputs, "try": str(self.begun).encode()})


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns the platform on which the machines of these blocks die; they are counted from 1, as they are begun."""

    def make(*blocks: int) -> type[WallClock]:
        monkeypatch.setattr(WallClock, "deadly", frozenset(blocks))
        monkeypatch.setattr(WallClock, "begun", 0)
        return WallClock

    return make


def events(run: Any, kind: str) -> list[Any]:
    return [event for event in journal.read(run.folder) if event["type"] == kind]


def test_a_lost_machine_costs_one_block_which_is_done_again(new_run: NewRun, deadly: Any) -> None:
    run = new_run()
    told = run.go(deadly(3))
    third = run.plan.blocks[2]
    *first, last = third.order
    assert [event["lane"] for event in events(run, "block-failed")] == [last]
    [again] = events(run, "retry")
    assert (again["cell"], again["block"], again["lane"]) == (third.cell.key, third.index, last)
    assert sorted(again["unjudged"]) == sorted(first)
    assert again["reason"] == "guest0 ended: QEMU was killed by signal 9 (SIGKILL)"
    assert told.retries == [(third.key, sorted(first))]
    assert kinds(run.folder).count("trial") == LANES * BLOCKS + len(first), "the first try stays in the journal"

    evidence = load_run(run.folder)
    assert evidence.complete
    assert {o.trial: o.lost for o in evidence.observations if o.lost} == {third.trial_id(last): 1}
    for lane in third.order:
        trial = third.trial_id(lane)
        assert evidence.raw_file(trial) == f"raw/{trial}.try2.tar.gz"
        assert (run.folder / evidence.raw_file(trial)).exists()
        assert (run.folder / f"raw/{trial}.tar.gz").exists() == (lane in first)
    for reader in (Reader(run.folder), Reader(run.folder, trusted=True)):
        list(reader.news())
        assert reader.evidence() == evidence


def test_the_blocks_of_a_finished_run_are_all_of_one_try(new_run: NewRun, deadly: Any) -> None:
    """A resumed run would otherwise compare a lane on the first machines with one on the second."""
    run = new_run()
    run.go(deadly())
    cut(run.journal, 4)
    run.go(deadly())
    second = run.plan.blocks[1]
    [again] = events(run, "retry")
    assert again["unjudged"] == [second.order[0]]
    assert "lane" not in again
    assert WallClock.asked == [block.trial_id(lane) for block in run.plan.blocks[1:] for lane in block.order]
    evidence = load_run(run.folder)
    assert evidence.complete
    assert not any(o.lost for o in evidence.observations), "an interruption is nobody's failure"
    of = {event["raw"]: event["sha256"] for event in events(run, "trial")}
    for block in run.plan.blocks:
        names = [evidence.raw_file(block.trial_id(lane)).removeprefix("raw/") for lane in block.order]
        assert len({raw.fetch(run.folder, name, of[name])["try"] for name in names}) == 1


def test_a_block_is_tried_three_times_and_the_others_go_on(new_run: NewRun, deadly: Any) -> None:
    run = new_run()
    error = run.fail(deadly(3, 4, 5))
    assert isinstance(error, Incomplete)
    assert error.kind == "blocks-missing"
    assert error.code == Exit.RUN_FAILED
    third = run.plan.blocks[2]
    assert {event["block"] for event in events(run, "block-failed")} == {third.index}
    assert [len(events(run, kind)) for kind in ("block-failed", "retry")] == [3, 2]
    evidence = load_run(run.folder)
    there = {o.trial for o in evidence.observations}
    assert there >= {b.trial_id(lane) for b in run.plan.blocks if b is not third for lane in b.order}
    run.go(deadly())
    assert load_run(run.folder).complete


def test_a_tenth_of_the_study_may_be_done_again(new_run: NewRun, deadly: Any) -> None:
    run = new_run()
    error = run.fail(deadly(1, 3, 6, 9))  # blocks 1, 2 (each done again), 4 and 7
    assert error.kind == "blocks-missing"
    assert [len(events(run, kind)) for kind in ("block-failed", "retry")] == [4, 2]
    run.fail(deadly(1))
    assert len(events(run, "retry")) == 2 + 2, "begun anew because they were cut, and not because of the next death"
    assert sum("lane" in event for event in events(run, "retry")) == 2


def test_deaths_are_counted_by_lane_and_take_the_words_that_they_flatter(new_run: NewRun, deadly: Any) -> None:
    run = new_run()
    run.go(deadly(3))
    cell, lane = run.plan.blocks[2].cell.key, run.plan.blocks[2].order[-1]
    found = {f.kind: f for f in run_all(load_run(run.folder)) if f.check == "lost_machines"}
    assert set(found) == {"lost", "lopsided-losses"}
    assert found["lost"].cells == (cell,)
    assert found["lost"].lanes == (lane,)
    assert found["lost"].evidence["deaths"] == {lane: 1}


def test_the_live_page_counts_a_block_that_is_begun_anew_once(new_run: NewRun, deadly: Any) -> None:
    run = new_run()
    run.go(deadly(3))
    whole = run.journal.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(whole) if '"type": "retry"' in line)

    def done(lines: int) -> int:
        run.journal.write_text("".join(whole[:lines]))
        reader, tracker = Reader(run.folder), Tracker(run.plan)
        for piece in reader.news():
            for event, trial, observation in piece:
                tracker.add(event, trial, observation)
        return tracker.state("running").done

    assert [done(n) for n in (at, at + 1, at + 2, len(whole))] == [8, 6, 7, LANES * BLOCKS]


def test_what_follows_a_journal_reads_a_retry_as_it_comes(new_run: NewRun, deadly: Any) -> None:
    run = new_run()
    run.go(deadly(3))
    whole = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"")
    reader = Reader(run.folder)
    for line in whole:
        with run.journal.open("ab") as file:
            file.write(line)
        list(reader.news())
    assert reader.evidence() == load_run(run.folder)


class Slow(WallClock):
    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        async for trial in super().run_block(block):
            await asyncio.sleep(0)
            yield trial


def test_several_workers_share_the_tries(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slow, "deadly", frozenset(range(1, 100)))
    monkeypatch.setattr(Slow, "begun", 0)
    run = new_run()
    assert run.fail(Slow, jobs=3).kind == "blocks-failed"
    assert len(events(run, "retry")) == 2
