"""``fairlane run``: run a study, or resume a run, and print the verdicts."""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli._click import Command
from fairlane.cli._output import Format, notify, print_json, rows_option
from fairlane.errors import Exit, FairlaneError
from fairlane.runs.choose import RUNS, existing

if TYPE_CHECKING:
    from fairlane.records import Evidence
    from fairlane.runs.plan import Plan
    from fairlane.trial.runner import Undecided


@click.command(
    cls=Command,
    examples="""
        fairlane run demo                           a preset
        fairlane run protocols --quick              its short form, of some minutes
        fairlane run study.yaml --dry-run           the plan, and what this machine lacks
        fairlane run study.yaml --out runs/tuesday
        fairlane run study.yaml --explain | less    with footnotes and findings
        fairlane run study.yaml --gate rules.txt    until the rules are decided; exit code 4 unless all are met
        fairlane run --resume runs/tuesday          go on after an interruption
        fairlane run study.yaml --resume            go on with the newest unfinished run of the study
    """,
)
@click.argument("study", metavar="STUDY")
@click.option("--out", type=click.Path(path_type=Path), help="The run's directory.  [default: runs/NAME-TIME]")
@click.option("--resume", is_flag=True, help="Finish an interrupted run; completed trials are kept.")
@click.option("--dry-run", is_flag=True, help="Print the plan and what this machine lacks; create nothing.")
@click.option("--quick", is_flag=True, help="The study's quick form: minutes, for a first try.")
@click.option(
    "--blocks", type=click.IntRange(2, 10_000), help="Fixed number of blocks per cell, without interim analyses."
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of everything random.  [default: the study's]")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Blocks that run at one moment, where harmless.  [default: CPUs]"
)
@click.option("--unjudged", is_flag=True, help="Run even if no comparison can get a verdict.")
@click.option("--gate", metavar="FILE", help="File of rules (fairlane gate --help): cells run until they are decided.")
@click.option("--explain", is_flag=True, help="Also print footnotes, how sure the verdicts are, and findings.")
@rows_option
def command(
    study: str,
    *,
    out: Path | None,
    resume: bool,
    dry_run: bool,
    quick: bool,
    blocks: int | None,
    seed: int | None,
    jobs: int | None,
    unjudged: bool,
    gate: str | None,
    explain: bool,
    output: Format,
) -> int:
    """Run a study and print its verdicts.

    STUDY is a study file, the name of a preset, or, with --resume, the directory of a run. Everything is kept in the
    run's directory; killed at any moment, the run is finished by --resume, with the same result.

    Before the first trial a warning names the lanes that differ in what must match. If no lane is left to compare with
    the baseline, nothing runs and the exit code is 4: the message has the lines that would allow it, and --unjudged
    runs the study anyway.
    """
    from fairlane import registry
    from fairlane.cli._answer import next_steps, print_verdicts, show
    from fairlane.cli._before import consider
    from fairlane.cli._conclude import conclude, known
    from fairlane.cli._progress import watching
    from fairlane.runs import plan as plans
    from fairlane.trial.runner import carry_out

    options = _Options(quick, blocks, seed, unjudged, _rules(gate))
    workers = jobs or len(os.sched_getaffinity(0))
    folder, plan = _resumed(study, out, options) if resume else _fresh(study, out, options)
    platform = registry.load("platforms", plan.study.platform.kind).of(plan.study)
    if dry_run:
        from fairlane.cli.study import _print, describe

        report = describe(plan.study, workers)
        print_json(report) if output == "json" else _print(report, output)
    if dry_run or not _ended(folder):
        for line in platform.announcement():
            notify(line)
        consider(plan.study, study, platform.problems(), unjudged=unjudged or plan.unjudged)
    if dry_run:
        return Exit.OK
    if not plans.is_run(folder):
        plans.create(folder, plan)
    notify(f"run directory: {folder}")
    with watching(plan.study) as watch, known(folder) as missing:
        carry_out(folder, plan, platform, watch, workers, undecided=_undecided(plan))
    outcome = conclude(folder)
    judged = outcome.judged
    if output == "json":
        print_json(outcome.rows)
    elif output == "tsv":
        print_verdicts(judged.evidence, [v for v in judged.verdicts if v.primary], output)
    elif output == "md":
        click.echo(outcome.markdown.read_text(encoding="utf-8"), nl=False)
    else:
        show(*judged, explain=explain)
    click.echo(f"report: {outcome.html}", err=output != "table")
    outcome.check(folder)
    missing.check()
    for line in next_steps(folder, judged.verdicts, explain=explain):
        notify(line)
    return _gate(judged.evidence, folder, plan) if plan.rules else Exit.OK


def _rules(file: str | None) -> tuple[str, ...]:
    """The rules of a file, as their own texts. Raises FairlaneError for one that is none."""
    from fairlane.gate.grammar import parse_file
    from fairlane.study.load import read_text

    if file is None:
        return ()
    text = read_text(file, FairlaneError("file-missing", "no such file", where=file))
    return tuple(str(rule) for rule in parse_file(text, file))


def _undecided(plan: "Plan") -> "Undecided | None":
    from fairlane.checks.base import run_all
    from fairlane.gate.decide import undecided
    from fairlane.gate.grammar import parse

    rules = [parse(rule) for rule in plan.rules]
    return (lambda evidence: undecided(rules, evidence, run_all)) if rules else None


def _gate(evidence: "Evidence", folder: Path, plan: "Plan") -> int:
    """Prints what came of the rules to stderr; the exit code of ``fairlane gate``."""
    from fairlane.checks.base import run_all
    from fairlane.gate.decide import decide
    from fairlane.gate.grammar import parse

    outcomes = decide([parse(rule) for rule in plan.rules], evidence, run_all)
    short = [o for o in outcomes if o.word != "met"]
    for o in short:
        notify(f"gate: {o.word}: {o.rule}" + "".join(f" · {part}" for part in (o.cell, o.observed, o.reason) if part))
    notify(f"gate: {len(outcomes) - len(short)} of {len(outcomes)} met; cell by cell: fairlane gate {folder}")
    return Exit.NOT_DECIDED if short else Exit.OK


@dataclass(frozen=True)
class _Options:
    """Options of the command line that are part of the plan."""

    quick: bool
    blocks: int | None
    seed: int | None
    unjudged: bool
    rules: tuple[str, ...]

    def plan(self, ref: str) -> "Plan":
        from fairlane.gate.decide import cells_of
        from fairlane.gate.grammar import parse
        from fairlane.runs import plan as plans
        from fairlane.study.load import load_study

        study, text = load_study(ref, quick=self.quick)
        for rule in map(parse, self.rules):
            cells_of(rule, study)
        return plans.make(study, text, seed=self.seed, blocks=self.blocks, unjudged=self.unjudged, rules=self.rules)

    def same(self, plan: "Plan", folder: Path) -> None:
        """Raises FairlaneError if the run of ``plan`` was begun with other options."""
        if self.quick and not plan.quick:
            raise FairlaneError(
                "run-options", "--quick: the run began with the whole study", where=str(folder), hint=_AS_BEGUN
            )
        if self.blocks is not None and plan.looks != (self.blocks,):
            message = f"--blocks {self.blocks}: the run began with {plan.looks}"
            raise FairlaneError("run-options", message, where=str(folder), hint=_AS_BEGUN)
        if self.rules and plan.rules != self.rules:
            message = "--gate: the run began with other rules" if plan.rules else "--gate: the run began without rules"
            raise FairlaneError("run-options", message, where=str(folder), hint=_AS_BEGUN)
        if self.seed is not None and plan.study.design.seed != self.seed:
            seed = plan.study.design.seed
            raise FairlaneError(
                "run-options", f"--seed {self.seed}: the run began with {seed}", where=str(folder), hint=_AS_BEGUN
            )


def _fresh(ref: str, out: Path | None, options: _Options) -> tuple[Path, "Plan"]:
    """A new run: its folder, not created yet, and its plan."""
    from fairlane.runs import plan as plans
    from fairlane.study.load import presets

    if plans.is_run(Path(ref)) and ref not in presets():
        raise FairlaneError(
            "run-not-study", "this is a run, not a study", where=ref, hint="to continue it: add --resume"
        )
    plan = options.plan(ref)
    if out is not None and plans.is_run(out):
        raise FairlaneError(
            "run-exists",
            "the directory already holds a run",
            where=str(out),
            hint="add --resume, or choose another --out",
        )
    return out or new_folder(plan.study.name), plan


def new_folder(name: str) -> Path:
    """A folder in ``RUNS`` that is not there yet."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    taken = [RUNS / f"{name}-{stamp}", *(RUNS / f"{name}-{stamp}-{n}" for n in range(2, 100))]
    return next(folder for folder in taken if not folder.exists())


def _resumed(ref: str, out: Path | None, options: _Options) -> tuple[Path, "Plan"]:
    """The run to resume: its folder and plan. A run that was killed before its directory was complete starts again."""
    from fairlane.runs import plan as plans

    if plans.is_run(Path(ref)):
        folder = Path(ref)
        if out is not None and out.resolve() != folder.resolve():
            raise FairlaneError("run-ambiguous", f"two runs to resume: {ref} and {out}", hint="name one of them")
        plan = plans.read(folder)
    else:
        if "/" in ref and not Path(ref).is_file():
            existing(Path(ref))  # raises, with the runs that exist
        wanted = options.plan(ref)
        folder = out or _newest_unfinished(wanted, ref)
        if not plans.is_run(folder):
            return folder, wanted
        plan = plans.read(folder)
        if plan.sha256 != wanted.sha256:
            raise FairlaneError(
                "run-other-study",
                f"run {folder} began with another study",
                where=ref,
                hint=f"the run's study is {folder / 'study.yaml'}; to run a changed study, choose another --out",
            )
    options.same(plan, folder)
    return folder, plan


_AS_BEGUN = "a run keeps the options it began with: remove the option, or start a new run"


def _newest_unfinished(wanted: "Plan", ref: str) -> Path:
    from fairlane.runs import plan as plans

    of_study = []
    for folder in sorted(RUNS.glob("*/")) if RUNS.is_dir() else ():
        try:
            if plans.is_run(folder) and _same_study(plans.read(folder), wanted):
                of_study.append((plans.created(folder), folder, _ended(folder)))
        except FairlaneError as error:
            notify(f"passed over: {error}")
    open_runs = [(begun, folder) for begun, folder, ended in of_study if not ended]
    if not open_runs:
        finished = f"{len(of_study)} finished" if of_study else "none at all"
        raise FairlaneError(
            "run-none",
            f"no unfinished run of this study in {RUNS}/ ({finished})",
            where=ref,
            hint="name the run: fairlane run --resume DIRECTORY",
        )
    return max(open_runs)[1]


def _same_study(plan: "Plan", wanted: "Plan") -> bool:
    return (plan.sha256, plan.quick) == (wanted.sha256, wanted.quick)


def _ended(folder: Path) -> bool:
    """Whether the run has ended: only reports are left, which need nothing of this machine."""
    from fairlane.runs import journal

    return any(event["type"] == "end" for event in journal.read(folder))
