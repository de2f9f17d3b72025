"""``fairlane figure``: single figures of a report as files, for slides and papers."""

from pathlib import Path

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, rows_option
from fairlane.cli._runs import chosen
from fairlane.errors import FairlaneError


@click.command(
    cls=Command,
    examples="""
        fairlane figure runs/demo                        lists the figures of the report
        fairlane figure runs/demo lanes-1                writes lanes-1.svg
        fairlane figure runs/demo forest-1-1 -o fig.png  a bitmap, by the ending of the file
        fairlane figure runs/demo forest -o slides/      all forest plots, into a folder
        fairlane figure runs/demo lanes-1 --dark --scale 4 -o fig.png
    """,
)
@click.argument("given", nargs=-1, metavar="[RUN] [NAME]...")
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
@rows_option
def command(
    given: tuple[str, ...],
    *,
    out: Path | None,
    png: bool,
    dark: bool,
    scale: float,
    accepts: dict[str, str],
    output: Format,
) -> None:
    """Write figures of a report as SVG or PNG, or list them.

    Without RUN, the newest run in runs/ is read; without NAME, its figures are listed. A name may be the beginning of
    several, or hold wildcards. The caption and every caveat (modelled, emulated) are part of the image.
    """
    from fairlane.cli._output import print_json, print_rows
    from fairlane.report import model, single
    from fairlane.report.pictures import pictures
    from fairlane.runs.files import write_atomic
    from fairlane.runs.judged import read_judged

    run, names = _named(given)
    report = model.build(*read_judged(run, accepts))
    every = list(pictures(report).every())
    if not names:
        print_rows([{"name": f.id, "title": f.title} for f in every], output)
        return
    figures = single.picked(every, names, str(run))
    one_file = out is not None and bool(out.suffix) and not out.is_dir()
    kind = single.kind_of(out) if out and one_file else "png" if png else "svg"
    if one_file and len(figures) > 1:
        raise FairlaneError(
            "figures-many", f"{len(figures)} figures do not fit one file", where=str(out), hint="give a folder"
        )
    written = []
    for figure in figures:
        content = single.encoded(single.alone(figure, report, dark=dark), kind, scale)
        path = out if out and one_file else (out or Path()) / f"{figure.id}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
        written.append({"name": figure.id, "path": str(path)})
    if output == "table":
        click.echo("\n".join(entry["path"] for entry in written))
    elif output == "json":
        print_json(written)
    else:
        print_rows(written, output)


def _named(given: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
    """The run and the figures: the first word is a run if it is a path, and else a figure of the newest run."""
    if given and ("/" in given[0] or Path(given[0]).exists()):
        return chosen(Path(given[0])), given[1:]
    return chosen(None), given
