"""``fairlane import``: make a run from other tools' results."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify, print_rows

if TYPE_CHECKING:
    from fairlane.importers._run import Progress, Summary

_SHOWN = 10
"""Skipped files that get a line; the others are counted."""
_EVERY = 5.0
"""Seconds between two lines of progress."""


def _lanes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    lanes: dict[str, tuple[str, ...]] = {}
    for value in values:
        name, equals, pattern = value.partition("=")
        if not (equals and name and pattern):
            raise click.BadParameter(f"{value!r}: expected NAME=GLOB, such as iscsi='iscsi/*.json'")
        lanes[name] = (*lanes.get(name, ()), pattern)
    return lanes


@click.command(
    cls=Command,
    plugins="importers",
    examples="""
        fairlane import results --out runs/imported        lanes by folders, names, or contents of the files
        fairlane import results --dry-run                  which file becomes which lane, cell and block
        fairlane import results --by folder2 --out runs/imported
        fairlane import results --lane iscsi='iscsi-*' --lane nvme='nvme-*' --out runs/imported
        fairlane import results --map import.yaml --out runs/imported
        fairlane import --list                             the tools, and the files read of each
    """,
)
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the new run.")
@click.option("--map", "mapping", metavar="FILE", help="Import map (YAML): lanes, conditions, caps, columns.")
@click.option("--tool", default="", help="The importer, by its name in --list.  [default: recognised, file by file]")
@click.option("--lane", "lanes", metavar="NAME=GLOB", multiple=True, callback=_lanes, help="Files of one lane.")
@click.option(
    "--by", metavar="KEY,...", default="", help="Keys that separate lanes: folder1, name, filename, host, ..."
)
@click.option("--yes", is_flag=True, help="Take the proposed lanes without asking.")
@click.option("--baseline", default="", help="The baseline lane.  [default: the first]")
@click.option("--name", default="", help="Short name of the study.  [default: the last part of --out]")
@click.option("--originals/--no-originals", default=True, help="Keep the files in the run, compressed.  [default: yes]")
@click.option("--dry-run", is_flag=True, help="Read everything and print the places; write nothing.")
@click.option("--list", "listed", is_flag=True, help="Print the tools and the files read of each.")
@format_option
def command(
    paths: tuple[Path, ...],
    *,
    out: Path | None,
    mapping: str | None,
    tool: str,
    lanes: dict[str, tuple[str, ...]],
    by: str,
    yes: bool,
    baseline: str,
    name: str,
    originals: bool,
    dry_run: bool,
    listed: bool,
    output: Format,
) -> None:
    """Make a run from the results of fio and other tools.

    PATH is a file, or a folder with everything in it. Each file goes to the importer that recognises it. Lanes come
    from --lane, the map or the results themselves; otherwise Fairlane proposes them by folders, file names or
    differences inside the files, and a terminal has to confirm. Cells are the loads; the k-th trial of
    each lane and cell is block k. Unreadable files are skipped, listed on stderr and counted in the report.
    """
    if listed:
        print_rows(list(_tools()), output)
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    if out is None and not dry_run:
        raise click.UsageError("Missing option '--out' (or '--dry-run').")
    from fairlane.cli._lanes import agree
    from fairlane.importers._map import load_map
    from fairlane.importers._run import import_files

    with _progress() as progress:
        summary = import_files(
            paths,
            None if dry_run else out,
            load_map(mapping) if mapping else None,
            tool=tool,
            lanes=lanes,
            by=[key for key in by.split(",") if key],
            baseline=baseline,
            name=name,
            originals=originals,
            progress=progress,
            agree=lambda layout: agree(layout, yes=yes, dry=dry_run),
        )
    _warn(summary)
    print_rows(list(_places(summary)), output)
    folder = summary.folder
    del summary  # the trials of a large import, before they are read as a run
    if folder and output != "json":
        _conclude(folder, output)


def _conclude(folder: Path, output: Format) -> None:
    """Print the verdicts, and on stderr the next step."""
    from fairlane.cli._answer import print_verdicts
    from fairlane.guard.summary import uncompared
    from fairlane.runs.judged import read_judged

    evidence, verdicts, findings = read_judged(folder, primary_only=True)
    click.echo()
    print_verdicts(evidence, [verdict for verdict in verdicts if verdict.primary], output)
    run = shlex.quote(str(folder))
    notify(f"next: fairlane report --open {run}  # the report in a browser")
    if uncompared(evidence):
        return
    refusing = [name for finding in findings if finding.refuses for name in finding.evidence]
    if refusing:
        notify(
            f'      fairlane report {run} --accept {refusing[0]}="REASON"  # compare all the same; the report prints it'
        )
    else:
        notify(f"      fairlane check {run}  # what must match, and every finding")


def _tools() -> Iterator[dict[str, str]]:
    from fairlane import registry

    for name, plugin in registry.every("importers"):
        yield {"tool": name, "reads": plugin.title, "found": "with --tool" if plugin.explicit else "by itself"}


@contextmanager
def _progress() -> "Iterator[Progress]":
    """Lines on stderr, for imports that take long."""
    last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            notify(f"{done} of {total} files")

    yield progress


def _warn(summary: "Summary") -> None:
    from fairlane.report.text import clean

    for skipped in summary.unreadable[:_SHOWN]:
        notify(clean(f"left out: {skipped.where}: {skipped.reason}"))
    if len(summary.unreadable) > _SHOWN:
        notify(f"and {len(summary.unreadable) - _SHOWN} more")
    unknown = [name for skipped in summary.left_out if not skipped.reason for name in skipped.files]
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        notify(clean(f"left out, because no importer knows them: {', '.join(unknown[:3])}{more}"))
    if summary.folder:
        notify(f"run directory: {summary.folder}")


def _places(summary: "Summary") -> Iterator[dict[str, Any]]:
    """One row per lane and cell."""
    from collections import Counter

    from fairlane.report.text import clean

    blocks = Counter((place.cell, place.lane) for place in summary.layout.placed)
    files: dict[tuple[str, str], str] = {}
    for place in summary.layout.placed:
        files.setdefault((place.cell, place.lane), place.trial.files[0])
    for point in summary.layout.points:
        for lane in summary.layout.lanes:
            if number := blocks[point.name, lane]:
                yield {
                    "cell": point.name,
                    "lane": lane + (" (baseline)" if lane == summary.baseline else ""),
                    "blocks": number,
                    "headline": point.primary,
                    "first file": clean(files[point.name, lane]).replace("\n", " "),
                }
