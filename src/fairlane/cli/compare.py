"""``fairlane compare``: runs and imports side by side."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify
from fairlane.errors import Exit, FairlaneError

if TYPE_CHECKING:
    from fairlane.compare.comparison import Comparison
    from fairlane.compare.mapping import LaneMap
    from fairlane.records import Evidence, Observation


@click.command(
    cls=Command,
    examples="""
        fairlane compare runs/before runs/after                     lanes of equal name: did it change?
        fairlane compare old=runs/demo new=runs/demo-2 --baseline old
        fairlane compare roks=runs/roks vcf=runs/vcf --print-map > mapping.yaml
        fairlane compare roks=runs/roks vcf=runs/vcf --map mapping.yaml --out answer
        fairlane compare runs/a runs/b --strict                     exit code 4 unless everything is decided
    """,
)
@click.argument("runs", metavar="[ALIAS=]RUN...", nargs=-1, required=True)
@click.option("--map", "file", metavar="FILE", help="Which lane is compared with which (YAML).  [default: equal names]")
@click.option(
    "--print-map", is_flag=True, help="Print a mapping file for these runs to start from, and do nothing else."
)
@click.option(
    "--baseline", help="Alias of the run that the others are compared with.  [default: the map's, or the first]"
)
@click.option("--all", "every_metric", is_flag=True, help="Deltas of every metric, not of the primary ones alone.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write report.html and report.md to this folder.",
)
@click.option("--strict", is_flag=True, help="Exit code 4 if a primary comparison is not decided.")
@accept_option
@format_option
def command(
    runs: tuple[str, ...],
    *,
    file: str | None,
    print_map: bool,
    baseline: str | None,
    every_metric: bool,
    out: Path | None,
    strict: bool,
    accepts: dict[str, str],
    output: Format,
) -> int:
    """Compare RUNs with each other: own runs, and imports of what others measured.

    A lane of one run is held against a lane of another: lanes of the same name, or those that --map pairs. Cells match
    by their load (bs, rw, iodepth, numjobs, mix) or by name. Runs made at different times are independent samples; the
    guard refuses what does not match, and a single result gets no-spread. Exit code 0, whatever the answer is; with
    --strict 4 if a primary comparison is open, withheld or refused.
    """
    from fairlane.compare.comparison import compare
    from fairlane.compare.mapping import starter
    from fairlane.compare.scorecard import decided
    from fairlane.runs.read import load_run

    places = _places(runs)
    loaded = {alias: load_run(path) for alias, path in places.items()}
    lanes = {alias: tuple(run.study.lanes) for alias, run in loaded.items()}
    if baseline is not None and baseline not in loaded:
        raise FairlaneError("run-unknown", f"no run is called {baseline!r}", hint=f"runs: {', '.join(loaded)}")
    if print_map:
        click.echo(starter(lanes, baseline or next(iter(loaded))), nl=False)
        return Exit.OK
    comparison = compare(loaded, _mapping(file, loaded, lanes, baseline), accepts)
    _print(comparison, output, every_metric=every_metric)
    if out is not None:
        _report(comparison, places, out)
    open_ = [s for s in comparison.scores if s.primary and not decided(s)]
    return Exit.NOT_DECIDED if strict and open_ else Exit.OK


def _places(given: tuple[str, ...]) -> dict[str, Path]:
    """Alias -> run directory. Raises FairlaneError for fewer than two runs, and for invalid or equal aliases."""
    from fairlane.compare.mapping import ALIAS, RESERVED

    places: dict[str, Path] = {}
    for entry in given:
        alias, path = _split(entry)
        if not ALIAS.fullmatch(alias) or alias in RESERVED:
            raise FairlaneError(
                "name-invalid",
                f"{alias!r} cannot be the name of a run",
                hint=f"write NAME={path}: lower-case letters, digits and dashes; not {' or '.join(RESERVED)}",
            )
        if alias in places:
            raise FairlaneError(
                "name-twice", f"two runs are called {alias!r}", hint=f"write before={places[alias]} after={path}"
            )
        places[alias] = path
    if len(places) < 2:
        raise FairlaneError(
            "one-run", "one run alone cannot be compared", hint="fairlane report RUN tells what it says by itself"
        )
    return places


def _split(entry: str) -> tuple[str, Path]:
    """``ALIAS=PATH``, or a path whose last part becomes the alias."""
    alias, equals, path = entry.partition("=")
    if equals and "/" not in alias and path:
        return alias, Path(path)
    name = Path(entry).resolve().name.lower()
    return re.sub(r"[^a-z0-9-]+", "-", name).strip("-")[:31].rstrip("-"), Path(entry)


def _mapping(
    file: str | None, runs: "Mapping[str, Evidence]", lanes: Mapping[str, tuple[str, ...]], baseline: str | None
) -> "LaneMap":
    from fairlane.compare.mapping import by_name, parse_mapping
    from fairlane.study.load import read_text

    if file is not None:
        text = read_text(
            file, FairlaneError("file-missing", "no such file", where=file, hint="--print-map prints one to start from")
        )
        return parse_mapping(text, file, lanes, baseline)
    first = baseline or next(iter(runs))
    return by_name(lanes, first, {name: lane.label or name for name, lane in runs[first].study.lanes.items()})


def _print(comparison: "Comparison", output: Format, *, every_metric: bool) -> None:
    from fairlane.compare.view import as_data, findings_part, parts

    if output == "json":
        from fairlane.cli._output import print_json

        print_json(as_data(comparison))
        return
    *before, takeaways = parts(comparison, every_metric=every_metric)
    shown = (*before, *findings_part(comparison), takeaways)
    if output == "md":
        from fairlane.report.parts import markdown

        click.echo("\n\n".join([f"# {comparison.question}", *markdown(shown)]))
    else:
        from rich.console import Console

        from fairlane.report.parts_console import show

        show(Console(soft_wrap=False), shown)


def _report(comparison: "Comparison", places: Mapping[str, Path], out: Path) -> None:
    from fairlane.compare.findings import kind_of_figures
    from fairlane.compare.view import page
    from fairlane.report.bundle import write_reports
    from fairlane.report.parts import Around
    from fairlane.report.prose import INVENTED

    def link(trial: "Observation") -> str:
        alias, source = comparison.joined.trials[trial.trial]
        return Path(os.path.relpath(places[alias] / "raw" / f"{source}.tar.gz", out)).as_posix()

    names = " ".join(shlex.quote(f"{alias}={path}") for alias, path in places.items())
    mapped = " --map mapping.yaml" if comparison.joined.mapping.text else ""
    around = Around(
        parts=page(comparison),
        banners=(INVENTED,) if any(kind_of_figures(r) == "invented" for r in comparison.joined.runs.values()) else (),
        commands=(f"fairlane compare {names}{mapped} --out repeat",),
        source="Save the mapping below as mapping.yaml, then:" if mapped else "From the same run directories:",
        link=link,
    )
    paths = write_reports(comparison.evidence, comparison.verdicts, comparison.findings, out, around)
    notify("\n".join(str(path) for path in paths))
