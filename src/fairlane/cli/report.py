"""``fairlane report``: the answer as a page that opens offline, and as Markdown."""

from pathlib import Path

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option
from fairlane.cli._runs import chosen, run_argument
from fairlane.errors import FairlaneError


@click.command(
    cls=Command,
    examples="""
        fairlane report runs/demo                      writes report.html and report.md into the run
        fairlane report --open                         the newest run, in a browser
        fairlane report runs/demo --out /tmp/answer    leaves the run as it is
        fairlane report runs/demo --redact             for sharing: runs/demo-redacted, without names of hosts
        fairlane report runs/demo --hide pool7         replaces a further name, too
        fairlane report runs/demo --format json        prints where they are, for scripts
    """,
)
@run_argument
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the two files; the run directory itself if not given. Links to raw files work only there.",
)
@click.option("--redact", is_flag=True, help="Replace names of hosts, addresses, serials and users; for sharing.")
@click.option(
    "--hide", multiple=True, metavar="NAME", help="With --redact, which it implies: a further name. Repeatable."
)
@click.option("--open", "opened", is_flag=True, help="Open the page in a browser.")
@accept_option
@format_option
def command(
    run: Path | None,
    *,
    out: Path | None,
    redact: bool,
    hide: tuple[str, ...],
    opened: bool,
    accepts: dict[str, str],
    output: Format,
) -> None:
    """Write the report of a run, as HTML and Markdown.

    They are report.html and report.md. Without RUN, the newest run in runs/ is read. Everything is rebuilt from the
    run's raw files; the report of an incomplete run says so. --redact writes into RUN-redacted and changes
    nothing in the run; docs/report.md lists its limits.
    """
    from fairlane.cli._output import print_json, print_rows
    from fairlane.report.bundle import write_reports
    from fairlane.report.redact import Redaction
    from fairlane.runs.judged import read_judged

    run = chosen(run)
    redact = redact or bool(hide)
    if redact and out and out.resolve() == run.resolve():
        raise FairlaneError(
            "redact-out", "a redacted report would replace that of the run", where=str(out),
            hint="give --out another folder",
        )  # fmt: skip
    judged = read_judged(run, accepts)
    folder = out or (run.resolve().with_name(f"{run.resolve().name}-redacted") if redact else run)
    redaction = Redaction(judged.evidence, hide) if redact else None
    html, md = write_reports(*judged, folder, redaction=redaction)
    paths = [{"file": path.name, "path": str(path)} for path in (html, md)]
    if output == "table":
        click.echo("\n".join(entry["path"] for entry in paths))
    elif output == "json":
        print_json({"html": str(html), "md": str(md)})
    else:
        print_rows(paths, output)
    if opened:
        _open(html)


def _open(page: Path) -> None:
    """Shows ``page`` in the user's browser. Raises FairlaneError where there is none: on a server."""
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        raise FairlaneError(
            "browser-none",
            "no browser on this machine",
            where=str(page),
            hint="copy the page to your own, or set BROWSER; fairlane serve shows runs over ssh -L",
        )
