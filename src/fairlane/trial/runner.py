"""Run a plan: blocks on workers, each trial on disk before the next, look by look, until every cell is decided.

Resuming takes the same path: a new run is one with no finished trials. In a study of several provisionings the platform
is open for one at a time, and closed at every look.
"""

import asyncio
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from fairlane.errors import Exit, FairlaneError, Incomplete, MachineLost, RunFailed
from fairlane.platforms.base import Platform, RawTrial
from fairlane.records import Block, Evidence, Observation
from fairlane.runs import raw
from fairlane.runs.journal import Journal, stream
from fairlane.runs.observe import observe
from fairlane.runs.plan import Plan
from fairlane.runs.read import OF_FILES, Done, assemble, done, in_order, with_losses
from fairlane.stats.stopping import open_cells
from fairlane.trial import lost
from fairlane.trial.openings import Openings
from fairlane.trial.progress import Watch
from fairlane.trial.tries import Tries

_IN_A_ROW = 3
"""Blocks in a row that may fail, each after its last try, before the run stops: the platform is broken then."""
_LISTED = 10
"""Most missing blocks that an error lists."""


Undecided = Callable[[Evidence], tuple[frozenset[str], frozenset[str]]]
"""The run so far -> keys of the cells that a gate's rules name, and of those in which more blocks may decide one."""


def carry_out(
    folder: Path, plan: Plan, platform: Platform, watch: Watch, jobs: int, *, undecided: Undecided | None = None
) -> None:
    """Runs the unfinished blocks of the run in ``folder`` on at most ``jobs`` workers. Cells that ``undecided`` names
    run until their rules are decided, and not until their verdicts are.

    The platform is always closed. Raises Incomplete if blocks are missing at a look, RunFailed for a full disk,
    FairlaneError if another process runs this study, and FairlaneError with ``Exit.INTERRUPTED`` after SIGINT or
    SIGTERM, which are then ignored.
    Finished trials are kept.
    """
    with Journal(folder) as journal:
        runner = Runner(journal, plan, platform, watch, jobs)
        runner.undecided = undecided
        if not runner.finished:
            asyncio.run(_run_until_signal(runner, folder, watch))


async def _run_until_signal(runner: "Runner", folder: Path, watch: Watch) -> None:
    """Runs ``runner``; the first signal cancels it. Later ones only print a note: tearing down must finish."""
    loop, work = asyncio.get_running_loop(), asyncio.ensure_future(runner.run())
    signals: list[int] = []

    def stop(number: int) -> None:
        if signals:
            watch.note("still cleaning up; please wait")
        else:
            watch.note("stopping; finished trials are kept")
            work.cancel()
        signals.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # under nohup a lost terminal is no reason to stop
        numbers.append(signal.SIGHUP)
    # Not the loop's own handlers: to remove one is to set the default for a moment, and a signal in it kills.
    before = [signal.signal(n, lambda number, _: loop.call_soon_threadsafe(stop, number)) for n in numbers]
    try:
        await work
    except (asyncio.CancelledError, FairlaneError):
        if not signals:
            raise
    finally:
        unfinished = signals and not runner.finished  # the caller prints how to resume: no signal may cut that short
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, signal.SIG_IGN if unfinished else handler)
    if signals and not runner.finished:
        raise FairlaneError(
            "interrupted", "interrupted", hint=f"continue with: {resume_command(folder)}", code=Exit.INTERRUPTED
        )


def resume_command(folder: Path) -> str:
    """The command that resumes the run."""
    return f"fairlane run --resume {shlex.quote(str(folder))}"


class Runner:
    """The state of one run in progress."""

    undecided: Undecided | None = None

    def __init__(self, journal: Journal, plan: Plan, platform: Platform, watch: Watch, jobs: int) -> None:
        self.journal = journal
        self.folder = journal.folder
        self.plan = plan
        self.watch = watch
        self.workers = max(1, plan.study.platform.workers(jobs))
        self.openings = Openings(journal, platform, watch, self.workers)
        state = done(self.folder, plan, journal.events)
        self.tries = Tries(len(plan.blocks), state.events)
        self.files: dict[str, tuple[str, str]] = dict(state.files)
        self.observations: dict[str, Observation] = dict(state.observations)
        self.opened = list(state.opened)
        self.ended = state.ended
        self.failures: dict[str, str] = {}
        """Key of a block -> the first line of its last failure."""
        self._in_a_row = 0
        for trial in state.damaged:
            watch.note(f"{trial}: its raw file is damaged; the trial is run again")

    @property
    def platform(self) -> Platform:
        """The platform of the provisioning that is open."""
        return self.openings.platform

    @property
    def finished(self) -> bool:
        """Whether the end is journaled and every trial before it is undamaged."""
        return self.ended and not self._missing(self.plan.due(self.opened))

    def _missing(self, blocks: tuple[Block, ...]) -> list[Block]:
        return [b for b in blocks if any(b.trial_id(lane) not in self.observations for lane in b.order)]

    async def run(self) -> None:
        """Runs the due blocks look by look, with the platform open for their provisioning; closes it at the end."""
        design = self.plan.study.design
        self.watch.resumed(self.observations.values())
        try:
            while True:
                due = self.plan.due(self.opened)
                blocks = [(n, [*group]) for n, group in groupby(self._missing(due), design.provisioning_of)]
                if blocks:
                    await self._open(blocks[0][0])
                self.watch.due(due, frozenset(self.observations), self.workers)
                for provisioning, group in blocks:
                    await self._open(provisioning)
                    await self._carry_out(group)
                if design.provisionings > 1:
                    await self.openings.close()
                if missing := self._missing(due):
                    raise Incomplete(
                        "blocks-missing",
                        f"{len(due) - len(missing)} of {len(due)} blocks are done, {len(missing)} failed"
                        f"{self._reasons(missing)}",
                        hint=f"the others are kept; to try again: {resume_command(self.folder)}",
                    )
                if not self._undecided():
                    break
                self._look()
            if not self.ended:
                self.journal.append("end")
                self.ended = True
        finally:
            await self.openings.close()

    async def _open(self, provisioning: int) -> None:
        done = sum(self.plan.provisionings[trial] == provisioning for trial in self.observations)
        try:
            await self.openings.open(provisioning, done)
        except MachineLost as error:
            lost.note(self.watch, lost.keep(self.folder, error))
            raise

    def _undecided(self) -> bool:
        """Whether another look is to be taken: one is left, and the one before it left cells open."""
        return len(self.opened) < len(self.plan.looks) and (not self.opened or bool(self.opened[-1]))

    def _look(self) -> None:
        """Takes the next look. Its outcome is journaled: a resumed run does not decide again."""
        number = len(self.opened)
        observations = with_losses(in_order(self.observations.values()), self.tries.lost)
        opened = open_cells(self.plan.study, observations, number, modelled=self.platform.modelled)
        if self.undecided and number + 1 < len(self.plan.looks):
            ruled, waiting = self.undecided(self._evidence())
            before = self.opened[-1] if self.opened else frozenset(b.cell.key for b in self.plan.blocks)
            opened = opened - ruled | (waiting & before)
        self.journal.append("look", look=number, blocks=self.plan.looks[number], open=sorted(opened))
        self.opened.append(opened)
        self.watch.look(number, opened, len({b.cell.key for b in self.plan.blocks}))

    def _evidence(self) -> Evidence:
        """As ``load_run`` reads it, without a second look into the raw files."""
        others = tuple(event for event in stream(self.folder) if event["type"] not in OF_FILES)
        state = Done(self.observations, self.files, (), tuple(self.opened), self.ended, others)
        return assemble(self.folder, self.plan, state)

    async def _carry_out(self, blocks: list[Block]) -> None:
        """Runs ``blocks`` on the workers. Raises Incomplete for a broken platform, RunFailed for a full disk."""
        waiting = iter(blocks)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.workers, len(blocks))):
                    group.create_task(self._work(waiting))
        except* FairlaneError as failed:
            raise _first(failed) from None

    async def _work(self, waiting: Iterator[Block]) -> None:
        for block in waiting:
            await self._block(block)

    async def _block(self, block: Block) -> None:
        """Carries out a block, in several tries if its machines die. A block that was cut is begun anew."""
        if any(block.trial_id(lane) in self.observations for lane in block.order):
            self._begin_anew(block, "the block was interrupted")
        while (failure := await self._try(block)) is not None:
            lane, error = failure
            self._failed(block, lane, error)
            if not (isinstance(error, MachineLost) and self.tries.allowed(block)):
                self._count_failure(error)
                return
            self._begin_anew(block, str(error).partition("\n")[0], lane=lane)
        self._in_a_row = 0

    async def _try(self, block: Block) -> tuple[str, RunFailed] | None:
        """One try, all lanes of the block. Returns the lane that was due when it failed, and why; None: it is done."""
        missing = list(block.order)
        begun = time.monotonic()
        trials = self.platform.run_block(block)
        try:
            while True:
                try:
                    trial = await anext(trials, None)
                    if trial and trial.lane not in missing:
                        raise RunFailed(
                            "trial-unexpected", f"the platform returned an unexpected trial of lane {trial.lane!r}"
                        )
                    if not trial and missing:
                        raise RunFailed("trial-missing", f"the platform returned no trial of lane {missing[0]!r}")
                except RunFailed as error:
                    return (missing or block.order)[0], error
                if not trial:
                    return None
                missing.remove(trial.lane)
                self._keep(block, trial, time.monotonic() - begun)
                begun = time.monotonic()
        finally:
            await trials.aclose()  # its own clean-up is not left to the garbage collector
            self.openings.rebuilt()

    def _begin_anew(self, block: Block, reason: str, *, lane: str = "") -> None:
        """Journals another try of a block. ``lane``: whose machines died. Its trials so far are not judged, unless the
        platform repeats exactly."""
        trials = {lane: block.trial_id(lane) for lane in block.order}
        done = [] if self.platform.repeats_exactly else [name for name in trials if trials[name] in self.observations]
        if not (done or lane):
            return
        event = {
            "cell": block.cell.key, "block": block.index, "unjudged": done, "reason": reason,
            **({"lane": lane} if lane else {}),
        }  # fmt: skip
        self.journal.append("retry", **event)
        self.tries.add({"type": "retry", **event})
        for name in done:
            del self.files[trials[name]], self.observations[trials[name]]
        self.watch.retry(block, tuple(done), reason)

    def _keep(self, block: Block, trial: RawTrial, seconds: float) -> None:
        """Writes the raw file, then its journal line: a line never names a missing file."""
        name = block.trial_id(trial.lane)
        if name in self.files:
            self._compare(block, trial)
            return
        file, sha256 = raw.store(self.folder, self.tries.file(block, trial.lane), trial.outputs)
        position = block.order.index(trial.lane)
        loaded = trial.load_seconds
        self.journal.append(
            "trial",
            cell=block.cell.key,
            block=block.index,
            lane=trial.lane,
            position=position,
            raw=file,
            sha256=sha256,
            seconds=round(seconds, 3),
            **({"load_seconds": round(loaded, 3)} if loaded is not None else {}),
        )
        self.files[name] = file, sha256
        self.observations[name] = observe(block, trial.lane, trial.outputs)
        self.watch.trial(block, self.observations[name], seconds)

    def _compare(self, block: Block, trial: RawTrial) -> None:
        """A trial done before the interruption, run again: on an exact platform it must give the same bytes."""
        before = raw.fetch(self.folder, *self.files[block.trial_id(trial.lane)])
        names = before.keys() | trial.outputs.keys()
        differing = sorted(name for name in names if before.get(name) != trial.outputs.get(name))
        if differing:
            where = {"cell": block.cell.key, "block": block.index, "lane": trial.lane}
            self.journal.append("mismatch", **where, files=differing)
            self.watch.note(f"{block.trial_id(trial.lane)} did not repeat exactly ({', '.join(differing)} differ)")

    def _failed(self, block: Block, lane: str, error: RunFailed) -> None:
        kept = lost.keep(self.folder, error) if isinstance(error, MachineLost) else []
        self.journal.append(
            "block-failed",
            cell=block.cell.key,
            block=block.index,
            lane=lane,
            reason=str(error),
            error=error.kind,
            **({"kept": kept} if kept else {}),
        )
        self.failures[block.key] = str(error).partition("\n")[0]
        self.watch.failed(block, str(error))
        lost.note(self.watch, kept)

    def _count_failure(self, error: RunFailed) -> None:
        """Raises Incomplete after too many blocks in a row."""
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            raise Incomplete(
                "blocks-failed",
                f"{_IN_A_ROW} blocks in a row failed; the last one: {error}",
                hint=error.hint or f"finished trials are kept; continue with: {resume_command(self.folder)}",
            )

    def _reasons(self, missing: list[Block]) -> str:
        """Behind the number of failed blocks: each one with the first line of its own failure."""
        pairs = [f"{block.key}: {self.failures.get(block.key, 'reason unknown')}" for block in missing]
        if len(pairs) == 1:
            return f" ({pairs[0]})"
        further = [f"  and {len(pairs) - _LISTED} more"] if len(pairs) > _LISTED else []
        return "\n".join([":", *(f"  {pair}" for pair in pairs[:_LISTED]), *further])


def _first(group: BaseExceptionGroup[FairlaneError]) -> FairlaneError:
    """The first error of a (nested) group."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
