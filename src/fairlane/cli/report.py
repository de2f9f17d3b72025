"""``fairlane report``: the answer as a page that opens offline, and as Markdown."""

from pathlib import Path

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option


@click.command(
    cls=Command,
    examples="""
        fairlane report runs/demo                      writes report.html and report.md into the run
        fairlane report runs/demo --out /tmp/answer    leaves the run as it is
        fairlane report runs/demo --format json        prints where they are, for scripts
    """,
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the two files; the run directory itself if not given. Links to raw files work only there.",
)
@accept_option
@format_option
def command(run: Path, out: Path | None, accepts: dict[str, str], output: Format) -> None:
    """Write the report of RUN: report.html and report.md.

    Everything is rebuilt from the run's raw files; a run that is not complete gives a report that says so.
    """
    from fairlane.checks.base import run_all
    from fairlane.cli._output import print_json, print_rows
    from fairlane.guard.accept import accepting
    from fairlane.report.bundle import write_reports
    from fairlane.runs.read import load_run
    from fairlane.stats.judge import judge

    evidence = accepting(load_run(run), accepts)
    findings = run_all(evidence)
    html, md = write_reports(evidence, judge(evidence, findings), findings, out or run)
    paths = [{"file": path.name, "path": str(path)} for path in (html, md)]
    if output == "table":
        click.echo("\n".join(entry["path"] for entry in paths))
    elif output == "json":
        print_json({"html": str(html), "md": str(md)})
    else:
        print_rows(paths, output)
