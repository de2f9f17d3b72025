"""Run each lab study that a claim needs once; finished runs are reused."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fairlane import registry
from fairlane.checks._outlook import outlook
from fairlane.errors import Exit, FairlaneError
from fairlane.report.bundle import write_reports
from fairlane.runs import journal
from fairlane.runs import plan as plans
from fairlane.runs.judged import read_judged
from fairlane.study.forecast import plan as planned
from fairlane.study.spec import Study
from fairlane.trial.progress import Watch
from fairlane.trial.runner import carry_out
from fairlane_replication.claims import (
    AsksAbility,
    AsksLab,
    Catalogue,
    Claim,
    Lab,
)
from fairlane_replication.judge import WHOLE_ONLY, Answer, Ran, answer
from fairlane_replication.published import published, tables_of

Watching = Callable[[Study], AbstractContextManager[Watch]]
"""Makes the progress display of one study."""
Notify = Callable[[str], None]

_SET_UP = {"virtual": 45.0, "wall": 75.0}
"""Seconds until a lab study's first trial, by clock: measured on two cores. A cached saved state saves most of it."""


@dataclass(frozen=True)
class Planned:
    """A lab study before it runs."""

    name: str
    question: str
    claims: tuple[str, ...]
    """Ids of the claims that it tests."""
    trials: int
    """Largest number: cells may be decided at an earlier look."""
    seconds: float
    """Longest expected wall time, set-up included; 0: not run in this form, or finished."""
    finished: bool = False
    left_out: bool = False
    """Whether it lacks a quick form and is skipped."""


def plan(catalogue: Catalogue, out: Path, *, quick: bool, jobs: int) -> tuple[Planned, ...]:
    """The lab studies that ``replicate`` would run, in order. Changes nothing."""
    built: list[object] = []
    return tuple(_planned(catalogue, lab, out, built, quick=quick, jobs=jobs) for lab in catalogue.labs.values())


def _planned(catalogue: Catalogue, lab: Lab, out: Path, built: list[object], *, quick: bool, jobs: int) -> Planned:
    """``built``: set-ups of the studies before; under the virtual clock equal set-ups share a saved state."""
    asking = tuple(c.id for c in catalogue.claims if _lab_of(c) == lab.name)
    study = lab.form(quick=quick)
    if study is None:
        return Planned(lab.name, lab.whole.question, asking, 0, 0.0, left_out=True)
    last = planned(study, jobs).looks[-1]
    if _finished(out / lab.name):
        return Planned(lab.name, study.question, asking, last.trials, 0.0, finished=True)
    clock = getattr(study.platform, "clock", "")
    set_up = (study.platform, study.lanes)
    seconds = 0.0 if clock == "virtual" and set_up in built else _SET_UP.get(clock, 0.0)
    built.append(set_up)
    return Planned(lab.name, study.question, asking, last.trials, seconds + last.wall_seconds)


def _lab_of(claim: Claim) -> str:
    return claim.asks.study if isinstance(claim.asks, AsksLab | AsksAbility) else ""


def _finished(folder: Path) -> bool:
    """Whether the run has ended: reading it needs nothing of this machine."""
    return plans.is_run(folder) and any(event["type"] == "end" for event in journal.read(folder))


def replicate(
    catalogue: Catalogue, out: Path, *, quick: bool, jobs: int, resume: bool, watching: Watching, notify: Notify
) -> tuple[Answer, ...]:
    """Run the lab studies of ``catalogue`` into folders of ``out``, and judge every claim.

    A study that cannot run here leaves its claims open, with the reason; the others continue. Raises FairlaneError if
    ``out`` has runs without ``resume``, for a run of another form or version of a study, and with ``Exit.INTERRUPTED``
    after a signal; finished trials are kept.
    """
    _may_use(catalogue, out, quick=quick, resume=resume)
    ran: dict[str, Ran | str] = {}
    for number, lab in enumerate(catalogue.labs.values(), start=1):
        notify(f"[{number} of {len(catalogue.labs)}] {lab.name}: {lab.whole.question}")
        try:
            ran[lab.name] = _answered(lab, out / lab.name, quick=quick, jobs=jobs, watching=watching)
        except FairlaneError as error:
            if error.code == Exit.INTERRUPTED:
                hint = f"continue with: fairlane replicate --resume --out {out}" + " --quick" * quick
                raise FairlaneError("interrupted", "interrupted", hint=hint, code=Exit.INTERRUPTED) from None
            notify(f"cannot run {lab.name}: {error}")
            ran[lab.name] = f"the lab study did not run: {error}"
    return tuple(answer(c, _evidence(c, ran)) for c in catalogue.claims)


def _evidence(claim: Claim, ran: Mapping[str, Ran | str]) -> Ran | str:
    if version := tables_of(claim):
        return published(version)
    return ran.get(_lab_of(claim), "")


def _may_use(catalogue: Catalogue, out: Path, *, quick: bool, resume: bool) -> None:
    """Check before anything runs that no earlier run is overwritten or mixed in."""
    for lab in catalogue.labs.values():
        folder = out / lab.name
        if not plans.is_run(folder):
            continue
        if not resume:
            raise FairlaneError(
                "run-exists",
                "the folder has a run already",
                where=str(folder),
                hint="add --resume, or choose another --out",
            )
        begun = plans.read(folder)
        if begun.quick != quick:
            kind, problem, hint = (
                "run-form",
                f"the run began in the {'quick' if begun.quick else 'whole'} form",
                "use the same form, or ",
            )
        elif begun.text != lab.text:
            kind, problem, hint = "run-version", "the run is of another version of this lab study", ""
        else:
            continue
        raise FairlaneError(kind, problem, where=str(folder), hint=f"{hint}choose another --out")


def _answered(lab: Lab, folder: Path, *, quick: bool, jobs: int, watching: Watching) -> Ran | str:
    study = lab.form(quick=quick)
    if study is None:
        return f"{WHOLE_ONLY}: omit --quick"
    if not plans.is_run(folder):
        work = plans.make(study, lab.text)
        _refuse(study)
        plans.create(folder, work)
    work = plans.read(folder)
    finished = _finished(folder)
    if not finished:
        _refuse(work.study)
    platform = registry.load("platforms", work.study.platform.kind).of(work.study)
    with watching(work.study) as watch:
        carry_out(folder, work, platform, watch, jobs)
    judged = read_judged(folder)
    trials = judged.evidence.observations
    reasons = [o.failed for o in trials if o.failed]
    if reasons and len(reasons) == len(trials):
        raise FairlaneError("all-trials-failed", f"every trial failed: {reasons[0]}", where=str(folder))
    if not finished or not (folder / "report.html").is_file():
        write_reports(*judged, folder)
    return Ran(*judged)


def _refuse(study: Study) -> None:
    """Raise FairlaneError for problems of this machine, and for a study without any possible comparison."""
    problems = registry.load("platforms", study.platform.kind).of(study).problems()
    if problems:
        raise FairlaneError(
            "several-problems", "; ".join(str(problem) for problem in problems), hint="fairlane doctor shows all"
        )
    if vain := outlook(study).error():
        raise vain
