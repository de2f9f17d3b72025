import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import Exit, MachineLost, RunFailed
from fairlane.platforms.base import Notify, Opened, RawTrial
from fairlane.platforms.fake import Fake
from fairlane.records import Block, Evidence
from fairlane.runs import journal
from fairlane.runs.read import load_run
from fairlane.study.spec import Study
from fairlane.trial.progress import Watch
from fairlane.trial.runner import carry_out

NewRun = Callable[..., Any]
"""Makes a run directory: conftest.py."""

DEATH = "the guest died"
BLOCKS = 12
"""Of the default small run: 4 cells, 3 blocks each."""


class Counting(Fake):
    """Remembers which trials were asked for and whether it was closed."""

    asked: list[str]
    closed = 0

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        type(self).asked = []
        type(self).closed = 0

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        type(self).asked += [block.trial_id(lane) for lane in block.order]
        async for trial in super().run_block(block):
            yield trial

    async def close(self) -> None:
        await asyncio.sleep(0.01)
        type(self).closed += 1


def kinds(folder: Path) -> list[str]:
    return [event["type"] for event in journal.read(folder)]


def test_any_number_of_jobs_gives_the_same_bytes(new_run: NewRun) -> None:
    runs = [new_run("one"), new_run("four"), new_run("twelve")]
    for run, jobs in zip(runs, (1, 4, 12), strict=True):
        assert len(run.go(jobs=jobs).trials) == 3 * BLOCKS
    results = [run.result() for run in runs]
    assert results[0] == results[1] == results[2]
    assert runs[0].journal.read_text() != runs[1].journal.read_text()  # the order of completion differs
    first, second = ([p.read_bytes() for p in sorted((run.folder / "raw").iterdir())] for run in runs[:2])
    assert first == second


def test_another_seed_gives_other_figures(new_run: NewRun) -> None:
    one, two = new_run("one"), new_run("two", seed=2)
    one.go()
    two.go()
    assert one.result() != two.result()


def test_observations_hold_no_wall_clock(new_run: NewRun) -> None:
    run = new_run()
    run.go()
    line = json.loads(run.result().splitlines()[0])
    assert set(line) == {"cell", "block", "lane", "position", "failed", "metrics", "histograms", "context", "steps"}
    assert b"202" not in json.dumps(line["context"]).encode()


def test_finished_run_is_left_alone(new_run: NewRun) -> None:
    run = new_run()
    run.go()
    before = run.journal.read_bytes()
    told = run.go(Counting)
    assert not told.trials
    assert run.journal.read_bytes() == before


class DiesOnce(Counting):
    """The guest dies in the middle of the third block, the first time."""

    died = False

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        done = 0
        async for trial in super().run_block(block):
            if not type(self).died and len(self.asked) == 9 and done == 1:
                type(self).died = True
                raise RunFailed("invented", DEATH, hint="look at the console")
            done += 1
            yield trial


def test_dead_guest_costs_its_block_only_and_resume_brings_it_back(new_run: NewRun) -> None:
    whole, run = new_run("whole"), new_run()
    whole.go()
    DiesOnce.died = False
    error = run.fail(DiesOnce)
    assert error.code == Exit.RUN_FAILED
    assert error.kind == "blocks-missing"
    assert re.findall(r"\b\d+\b", error.message)[:3] == ["11", "12", "1"]
    assert DEATH in error.message
    assert str(run.folder) in error.hint
    assert DiesOnce.closed == 1
    assert kinds(run.folder).count("trial") == 3 * BLOCKS - 2  # the trial before the death is kept
    assert kinds(run.folder).count("block-failed") == 1
    assert "look" not in kinds(run.folder)  # no look at a part
    assert not load_run(run.folder).complete

    told = run.go(DiesOnce)
    assert len(DiesOnce.asked) == 3  # only that block, whole
    assert len(told.trials) == 2
    assert "mismatch" not in kinds(run.folder)
    assert kinds(run.folder)[-1] == "end"
    assert run.result() == whole.result()


class LosesMachines(Counting):
    """A machine dies in the second and the fourth block, at every try, each time for another reason."""

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        begun = [trial.rpartition(".")[0] for trial in self.asked[:: len(block.order)]]
        number = len(dict.fromkeys([*begun, block.key]))
        async for trial in super().run_block(block):
            if number in (2, 4):
                console = {f"guest{number}.console": b"panic %d" % number, f"guest{number}.stderr": b""}
                raise MachineLost(f"guest{number} ended\n  its console", files=console)
            yield trial


def test_lost_machines_leave_their_console_and_each_block_its_own_reason(new_run: NewRun) -> None:
    run = new_run()
    error = run.fail(LosesMachines)
    failed = [event for event in journal.read(run.folder) if event["type"] == "block-failed"]
    kept = [*(f"lost/00{n}-guest2.console" for n in range(3)), "lost/003-guest4.console"]  # no try is left for it
    assert [event["kept"] for event in failed] == [[name] for name in kept]
    assert [(run.folder / name).read_bytes() for name in kept] == [b"panic 2"] * 3 + [b"panic 4"]
    assert len([*(run.folder / "lost").iterdir()]) == len(kept), "empty files are not kept"
    second, fourth = (f"{event['cell']}.b{event['block']:03d}" for event in failed[2:])
    assert error.message.splitlines()[1:] == [f"  {second}: guest2 ended", f"  {fourth}: guest4 ended"]

    run.go(Counting)
    assert load_run(run.folder).complete


class NeverBoots(Counting):
    async def open(self, notify: Notify) -> Opened:
        raise MachineLost("guest0 ended while it booted", files={"guest0.console": b"panic"})


def test_a_machine_lost_before_the_first_block_leaves_its_console_too(new_run: NewRun) -> None:
    run = new_run()
    assert run.fail(NeverBoots).kind == "machine-lost"
    assert (run.folder / "lost/000-guest0.console").read_bytes() == b"panic"
    run.fail(NeverBoots)
    assert (run.folder / "lost/001-guest0.console").exists()


def test_three_failures_in_a_row_end_the_run(new_run: NewRun) -> None:
    run = new_run(platform="deaths: 100%")
    error = run.fail()
    assert error.kind == "blocks-failed"
    assert error.code == Exit.RUN_FAILED
    assert kinds(run.folder).count("block-failed") == 3 + kinds(run.folder).count("retry")


class NeverOpens(Counting):
    HINT = "plug it in"

    async def open(self, notify: Notify) -> Opened:
        raise RunFailed("invented", "no array", hint=self.HINT)


def test_platform_that_does_not_open_is_closed_and_leaves_a_run_that_resumes(new_run: NewRun) -> None:
    run = new_run()
    assert run.fail(NeverOpens).hint == NeverOpens.HINT
    assert NeverOpens.closed == 1
    assert kinds(run.folder) == []
    assert load_run(run.folder).observations == ()
    run.go()
    assert len(load_run(run.folder).observations) == 3 * BLOCKS


class Forgets(Fake):
    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        async for trial in super().run_block(block):
            if trial.lane != "iscsi":
                yield trial


class Invents(Fake):
    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        async for trial in super().run_block(block):
            yield RawTrial("nobody", trial.outputs)


@pytest.mark.parametrize(("platform", "lane"), [(Forgets, "'iscsi'"), (Invents, "'nobody'")])
def test_platform_that_breaks_its_contract_fails_the_block(new_run: NewRun, platform: type[Any], lane: str) -> None:
    error = new_run().fail(platform)
    assert error.kind == "blocks-failed"
    assert lane in error.message


class Breaks(Counting):
    """A bug, not a failure."""

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        yield RawTrial(block.order[0], {})
        raise KeyError("bug")


def test_bug_in_a_platform_is_not_swallowed_and_the_platform_is_closed(new_run: NewRun) -> None:
    run = new_run()
    with pytest.raises(ExceptionGroup) as raised:
        run.go(Breaks)
    assert isinstance(raised.value.exceptions[0], KeyError)
    assert Breaks.closed == 1
    assert kinds(run.folder).count("trial") == 1


# --- interrupted --------------------------------------------------------------------------------------------------


class Interrupted(Counting):
    """Somebody presses Ctrl-C in the middle of the fourth trial, and once more while the platform is closing."""

    number: signal.Signals = signal.SIGINT
    cleaned = 0

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        try:
            async for trial in super().run_block(block):
                if len(self.asked) == 6:
                    os.kill(os.getpid(), self.number)
                    await asyncio.sleep(20)
                yield trial
        finally:
            await asyncio.sleep(0.01)
            type(self).cleaned += 1

    async def close(self) -> None:
        os.kill(os.getpid(), self.number)
        await asyncio.sleep(0.05)
        await super().close()


class Terminated(Interrupted):
    number = signal.SIGTERM


@pytest.mark.parametrize("platform", [Interrupted, Terminated])
def test_signal_ends_in_order_and_nothing_is_lost(new_run: NewRun, platform: type[Any]) -> None:
    whole, run = new_run("whole"), new_run()
    whole.go()
    platform.cleaned = 0
    error = run.fail(platform)
    assert error.code == Exit.INTERRUPTED
    assert error.hint.endswith(f"fairlane run --resume {run.folder}")
    assert platform.closed == 1
    assert platform.cleaned == 2
    assert kinds(run.folder) == ["start"] + ["trial"] * 3
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # until the process has printed how to resume
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a new process
    run.go()
    assert "resume" in kinds(run.folder)
    assert run.result() == whole.result()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # handed back


# --- resumed --------------------------------------------------------------------------------------------------------


def cut(path: Path, trials: int) -> None:
    """The journal as it was after so many trials."""
    kept, seen = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        seen += b'"type": "trial"' in line
        if seen > trials or b'"end"' in line or b'"look"' in line:
            continue
        kept.append(line)
    path.write_bytes(b"".join(kept))


@pytest.mark.slow
def test_journal_cut_anywhere_is_finished_to_the_same_result(new_run: NewRun) -> None:
    whole = new_run("whole")
    whole.go()
    complete = whole.journal.read_bytes()
    for end in range(0, len(complete), 997):
        whole.journal.write_bytes(complete[:end])
        whole.go(jobs=2)
        lines = [e for e in journal.read(whole.folder) if e["type"] == "trial"]
        names = [(e["cell"], e["block"], e["lane"]) for e in lines]
        assert len(names) == len(set(names)) == 3 * BLOCKS  # none twice
        assert "mismatch" not in kinds(whole.folder)
    another = new_run("another")
    another.go()
    assert whole.result() == another.result()


def test_exact_platform_repeats_an_interrupted_block_whole(new_run: NewRun) -> None:
    run = new_run()
    run.go()
    cut(run.journal, 4)
    run.go(Counting)
    assert len(Counting.asked) == 3 * (BLOCKS - 1)  # the second block too, though one of its trials was there
    assert kinds(run.folder).count("trial") == 3 * BLOCKS


class Drifting(Fake):
    """Claims to repeat exactly, and does not."""

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        async for trial in super().run_block(block):
            yield RawTrial(trial.lane, {**trial.outputs, "fio.err": b"something new"})


def test_exact_platform_that_does_not_repeat_is_journaled(new_run: NewRun) -> None:
    run = new_run()
    run.go()
    cut(run.journal, 4)
    told = run.go(Drifting)
    (mismatch,) = [e for e in journal.read(run.folder) if e["type"] == "mismatch"]
    assert mismatch["files"] == ["fio.err"]
    assert mismatch["lane"] in run.plan.blocks[1].order
    assert any("fio.err" in note for note in told.notes)
    assert [e["type"] for e in load_run(run.folder).events].count("mismatch") == 1


def raw_file(folder: Path, number: int) -> Path:
    return sorted((folder / "raw").iterdir())[number]


@pytest.mark.parametrize("damage", ["gone", "changed", "empty"])
def test_damaged_raw_file_is_not_done(new_run: NewRun, damage: str) -> None:
    run = new_run()
    run.go()
    before = run.result()
    path = raw_file(run.folder, 7)
    trial = path.name.removesuffix(".tar.gz")
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "empty" else path.read_bytes()[:-1] + b"x")
    evidence = load_run(run.folder)
    assert not evidence.complete
    assert {"type": "damaged", "trial": trial} in evidence.events
    assert trial not in [o.trial for o in evidence.observations]
    told = run.go(Counting)
    assert trial in told.notes[0]
    assert told.trials == [trial]
    assert run.result() == before


def test_changed_machine_is_told_and_journaled(new_run: NewRun) -> None:
    class Newer(Fake):
        async def open(self, notify: Notify) -> Opened:
            opened = await super().open(notify)
            return Opened(opened.description, {**opened.fingerprint, "qemu": "9.0"})

    run = new_run()
    run.go()
    cut(run.journal, 4)
    told = run.go(Newer)
    assert any({"qemu", "None", "9.0"} <= set(note.replace(":", "").split()) for note in told.notes)
    (resumed,) = [e for e in journal.read(run.folder) if e["type"] == "resume"]
    assert resumed["changed"] == {"qemu": [None, "9.0"]}
    assert "qemu" not in load_run(run.folder).fingerprint  # of the machine that the run began on


# --- looks ------------------------------------------------------------------------------------------------------------

UNEVEN = "noise: {sd: 1%}, effects: {nvme-tcp: {cells: {'* randread *': 3}}, local: {cells: {'* randread *': 3}}}"


def test_only_undecided_cells_go_on_after_a_look(new_run: NewRun) -> None:
    run = new_run(platform=UNEVEN.replace("1%", "4%"), looks="[4, 6, 8]")
    told = run.go()
    assert len(told.looks) >= 2
    assert told.looks[0] == {b.cell.key for b in run.plan.blocks}, "four blocks of so few cells decide nothing"
    first = told.looks[1]
    assert first
    assert not any("randread" in cell for cell in first)  # a factor of 3 is plain at once; what is equal takes longer
    evidence = load_run(run.folder)
    later = {o.cell for o in evidence.observations if o.block >= 6}
    assert later == first
    assert {b.cell.key for b in evidence.blocks if b.index >= 6} == first
    assert evidence.complete


def test_a_look_judges_what_a_reader_of_the_files_sees(new_run: NewRun) -> None:
    run = new_run(platform="noise: {sd: 4%}", looks="[4, 6, 8]")
    seen: list[int] = []

    def undecided(evidence: Evidence) -> tuple[frozenset[str], frozenset[str]]:
        assert evidence == load_run(run.folder)
        seen.append(len(evidence.observations))
        return frozenset(), frozenset()

    carry_out(run.folder, run.plan, Fake(run.plan.study), Watch(), 1, undecided=undecided)
    assert seen


def test_looks_already_taken_are_not_taken_again(new_run: NewRun) -> None:
    run = new_run(platform=UNEVEN.replace("1%", "4%"), looks="[4, 6, 8]")
    run.go()
    complete = run.journal.read_bytes()
    end = complete.index(b'"type": "look"')
    end = complete.index(b"\n", end) + 1
    run.journal.write_bytes(complete[: end + 10])
    run.go(Counting)
    looks = [e["look"] for e in journal.read(run.folder) if e["type"] == "look"]
    assert looks == sorted(set(looks))
    assert all(".b004." in t or ".b005." in t or ".b006." in t or ".b007." in t for t in Counting.asked)


def test_failing_trials_are_observations_and_the_run_ends(new_run: NewRun) -> None:
    run = new_run(platform="failures: 20%")
    run.go()
    evidence = load_run(run.folder)
    failed = [o for o in evidence.observations if o.failed]
    assert 0 < len(failed) < len(evidence.observations)
    assert all("fio: io_u error" in o.failed and not o.metrics for o in failed)
    assert evidence.complete


def test_platform_is_not_opened_where_nothing_is_left_to_run(new_run: NewRun) -> None:
    run = new_run(looks="[3]")
    run.go()
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(b"".join(line for line in lines if b'"look"' not in line and b'"end"' not in line))
    run.go(NeverOpens)
    assert kinds(run.folder)[-2:] == ["look", "end"]
    assert load_run(run.folder).complete
