"""``fairlane replicate``: test the claims of published studies in the lab."""

import os
from pathlib import Path

import click

from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify, print_json, print_rows

OUT = Path("runs/replicate")
"""Default folder of its runs; the quick form's are in ``runs/replicate-quick``."""


@click.command(
    cls=Command,
    examples="""
        fairlane replicate --quick --dry-run        what would run, and for how long
        fairlane replicate --quick                  all five studies, under 20 minutes on two idle cores
        fairlane replicate --quick --study 000      one of them
        fairlane replicate --quick --resume         go on after an interruption
        fairlane replicate --quick --resume --format md > answers.md
    """,
)
@click.option("--quick", is_flag=True, help="The quick form of every lab study; those without one are left out.")
@click.option("--study", "studies", multiple=True, metavar="NNN", help="Only claims of this study; may be repeated.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the runs, one for each lab study.  [default: runs/replicate, runs/replicate-quick]",
)
@click.option("--resume", is_flag=True, help="Take finished runs in the folder as they are, and finish the others.")
@click.option("--dry-run", is_flag=True, help="Print what would run and how long it takes at most; create nothing.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Blocks that run at one moment, where harmless.  [default: CPUs]"
)
@format_option
def command(
    *, quick: bool, studies: tuple[str, ...], out: Path | None, resume: bool, dry_run: bool, jobs: int | None,
    output: Format,
) -> None:  # fmt: skip
    """Test the claims of five published studies in the lab.

    Each gets an answer: agree, disagree, true by construction, or cannot tell here. Direction and published size have
    an answer each. `agree` and `disagree` need proof: verdicts in the claim's cells, a capability that was tried, or
    findings on the study's own tables. An outcome that the lab's settings force is `true by construction`, and confirms
    nothing. docs/replication.md has the rules. Each lab study is a run of its own with a report. Exit code 0, whatever
    the answers are.
    """
    from fairlane.cli._progress import watching
    from fairlane.study.forecast import about
    from fairlane_replication import render
    from fairlane_replication.claims import catalogue
    from fairlane_replication.published import STUDY, overview
    from fairlane_replication.runner import plan, replicate

    chosen = catalogue().of(studies)
    folder = out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT)
    workers = jobs or len(os.sched_getaffinity(0))
    if dry_run:
        steps = plan(chosen, folder, quick=quick, jobs=workers)
        print_rows(render.plan_rows(steps), output)
        if output != "json":
            total = sum(step.seconds for step in steps)
            click.echo(
                f"\n{len(chosen.claims)} claims; about {about(total)} at most, set-up included; runs in {folder}"
            )
        return
    notify(f"runs: {folder}")
    answers = replicate(chosen, folder, quick=quick, jobs=workers, resume=resume, watching=watching, notify=notify)
    versions = overview() if STUDY in chosen.sources else ()
    if output == "json":
        print_json(render.data(chosen, answers, versions))
    else:
        click.echo((render.page if output == "md" else render.table)(chosen, answers, versions))
