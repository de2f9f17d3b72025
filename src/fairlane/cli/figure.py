"""``fairlane figure``: single figures of a report as files, for slides and papers."""

from pathlib import Path

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option
from fairlane.errors import FairlaneError


@click.command(
    cls=Command,
    examples="""
        fairlane figure runs/demo                        lists the figures of the report
        fairlane figure runs/demo lanes-1                writes lanes-1.svg
        fairlane figure runs/demo forest-1-1 -o fig.png  a bitmap, by the ending of the file
        fairlane figure runs/demo 'bars-*' -o slides/    all that match, into a folder
        fairlane figure runs/demo lanes-1 --dark --scale 4 -o fig.png
    """,
)
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="File (.svg or .png), or a folder for several; the figure's name with .svg here if not given.",
)
@click.option("--png", is_flag=True, help="Bitmaps where the file's ending does not say it.")
@click.option("--dark", is_flag=True, help="Colours for a dark page.")
@click.option(
    "--scale", type=click.FloatRange(0.5, 20), default=3.0, show_default=True, help="Of bitmaps: pixels per unit."
)
@accept_option
@format_option
def command(
    run: Path,
    names: tuple[str, ...],
    *,
    out: Path | None,
    png: bool,
    dark: bool,
    scale: float,
    accepts: dict[str, str],
    output: Format,
) -> None:
    """Write single figures of the report of RUN as SVG or PNG; without NAME, list them.

    A name may hold wildcards. The caption, and what a reader must know of the run (modelled, emulated), go into the
    picture: a figure that travels alone says what it is.
    """
    from fnmatch import fnmatchcase

    from fairlane.checks.base import run_all
    from fairlane.cli._output import print_json, print_rows
    from fairlane.guard.accept import accepting
    from fairlane.report import model, single
    from fairlane.report.pictures import pictures
    from fairlane.runs.files import write_atomic
    from fairlane.runs.read import load_run
    from fairlane.stats.judge import judge

    evidence = accepting(load_run(run), accepts)
    findings = run_all(evidence)
    report = model.build(evidence, judge(evidence, findings), findings)
    every = {figure.id: figure for figure in pictures(report).every()}
    if not names:
        print_rows([{"name": f.id, "title": f.title} for f in every.values()], output)
        return
    matches = {pattern: {name for name in every if fnmatchcase(name, pattern)} for pattern in names}
    for pattern, matching in matches.items():
        if not matching:
            raise FairlaneError(
                "figure-unknown",
                f"no figure {pattern!r} in the report of {run}",
                hint=f"one of: {', '.join(every)}" if every else "",
            )
    chosen = [f for name, f in every.items() if any(name in matching for matching in matches.values())]
    ending = out.suffix.lower() if out and not out.is_dir() else ""
    if ending not in ("", ".svg", ".png"):
        raise FairlaneError(
            "figure-type", f"{out}: figures are .svg or .png", hint="give the file one of these endings"
        )
    if ending and len(chosen) > 1:
        raise FairlaneError(
            "figures-many", f"{len(chosen)} figures do not fit one file", where=str(out), hint="give a folder"
        )
    folder = Path() if out is None or ending else out
    kind = ending.removeprefix(".") or ("png" if png else "svg")
    written = []
    for figure in chosen:
        alone = single.alone(figure, report, dark=dark)
        content = single.bitmap(alone, scale) if kind == "png" else str(alone).encode()
        path = out if out and ending else folder / f"{figure.id}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
        written.append({"name": figure.id, "path": str(path)})
    if output == "table":
        click.echo("\n".join(entry["path"] for entry in written))
    elif output == "json":
        print_json(written)
    else:
        print_rows(written, output)
