"""``fairlane import``: make a run from other tools' results."""

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
        fairlane import results --out runs/imported        each folder in results is a lane
        fairlane import a.json b.json --out runs/imported  each file is a lane
        fairlane import results --map import.yaml --out runs/imported
        fairlane import results --dry-run                  what would become which lane, cell and block
        fairlane import --list                             the tools, and what is read of each
    """,
)
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The run's directory, to be made.")
@click.option("--map", "mapping", metavar="FILE", help="Import map (YAML): lanes, conditions, caps, columns.")
@click.option("--tool", default="", help="The importer, by its name in --list.  [default: recognised, file by file]")
@click.option("--lane", "lanes", metavar="NAME=GLOB", multiple=True, callback=_lanes, help="Files of one lane.")
@click.option("--baseline", default="", help="The lane that the others are compared with.  [default: the first]")
@click.option("--name", default="", help="Short name of the study.  [default: the last part of --out]")
@click.option("--originals/--no-originals", default=True, help="Keep the files in the run, compressed.  [default: yes]")
@click.option("--dry-run", is_flag=True, help="Read everything and print the places; write nothing.")
@click.option("--list", "listed", is_flag=True, help="Print the tools and what is read of each.")
@format_option
def command(
    paths: tuple[Path, ...],
    *,
    out: Path | None,
    mapping: str | None,
    tool: str,
    lanes: dict[str, tuple[str, ...]],
    baseline: str,
    name: str,
    originals: bool,
    dry_run: bool,
    listed: bool,
    output: Format,
) -> None:
    """Make a run of files that other tools wrote: PATH is a file, or a folder with everything in it.

    Each file goes to the importer that recognises it. Lanes are the folders, unless --lane, the map or the files
    themselves say otherwise; cells are the loads; the k-th trial of each lane and cell is block k. What cannot be read
    is told, left out and counted in the report.
    """
    if listed:
        print_rows(list(_tools()), output)
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    if out is None and not dry_run:
        raise click.UsageError("Missing option '--out' (or '--dry-run').")
    from fairlane.importers._map import load_map
    from fairlane.importers._run import import_files

    with _progress() as progress:
        summary = import_files(
            paths,
            None if dry_run else out,
            load_map(mapping) if mapping else None,
            tool=tool,
            lanes=lanes,
            baseline=baseline,
            name=name,
            originals=originals,
            progress=progress,
        )
    _warn(summary)
    print_rows(list(_places(summary)), output)


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
