"""``fairlane compare``: runs and imports side by side."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify
from fairlane.errors import Exit, FairlaneError
from fairlane.runs.choose import existing

if TYPE_CHECKING:
    from fairlane.compare.comparison import Comparison
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
@click.option("--print-map", is_flag=True, help="Print a mapping file for these runs, and stop.")
@click.option("--baseline", help="Alias of the baseline run.  [default: the map's, or the first]")
@click.option("--all", "every_metric", is_flag=True, help="Deltas of every metric, not only the primary ones.")
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
    """Compare runs and imports with each other.

    RUN is your own run, or an import of other people's results. A lane of one run is held against a lane of another:
    lanes of the same name, or those that --map pairs. Cells match by their load (bs, rw, iodepth, numjobs, mix) or by
    name. Runs made at different times are independent samples; the guard refuses what does not match, and a single
    result gets no-spread. Exit code 0, whatever the answer is; with --strict 4 if a primary comparison is open,
    withheld or refused.
    """
    from fairlane.compare.between import lane_map, lanes_of
    from fairlane.compare.comparison import compare
    from fairlane.compare.mapping import starter
    from fairlane.compare.scorecard import decided
    from fairlane.runs.plan import is_run
    from fairlane.runs.read import load_run

    places = _places(runs)
    if not any(is_run(path) for path in places.values()) and all(path.exists() for path in places.values()):
        paths = " ".join(shlex.quote(str(path)) for path in places.values())
        raise FairlaneError(
            "not-runs", "these are not run directories", hint=f"to measure these paths: fairlane versus {paths}"
        )
    loaded = {alias: load_run(existing(path)) for alias, path in places.items()}
    if baseline is not None and baseline not in loaded:
        raise FairlaneError("run-unknown", f"no run is called {baseline!r}", hint=f"runs: {', '.join(loaded)}")
    if print_map:
        click.echo(starter(lanes_of(loaded), baseline or next(iter(loaded))), nl=False)
        return Exit.OK
    comparison = compare(loaded, lane_map(file, loaded, baseline), accepts)
    _print(comparison, output, every_metric=every_metric)
    if out is not None:
        _report(comparison, loaded, places, out)
    open_ = [s for s in comparison.scores if s.primary and not decided(s)]
    return Exit.NOT_DECIDED if strict and open_ else Exit.OK


def _places(given: tuple[str, ...]) -> dict[str, Path]:
    """Alias -> run directory. Raises FairlaneError for fewer than two runs, and for invalid or equal aliases."""
    from fairlane.compare.between import alias_of, places

    def split(entry: str) -> tuple[str, Path]:
        alias, equals, path = entry.partition("=")
        whole = not equals or "/" in alias or not path
        return (alias_of(Path(entry)), Path(entry)) if whole else (alias, Path(path))

    def rename(path: Path, other: Path | None) -> str:
        return f"write before={path} after={other}" if other else f"write NAME={path}"

    found = places(map(split, given), rename)
    if len(found) < 2:
        raise FairlaneError(
            "one-run", "a comparison needs two runs", hint="for the verdicts within one run: fairlane report RUN"
        )
    return found


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
        from fairlane.cli._output import print_rich
        from fairlane.report.parts_console import show

        print_rich(lambda console, width: show(console, shown, width))


def _report(comparison: "Comparison", loaded: Mapping[str, "Evidence"], places: Mapping[str, Path], out: Path) -> None:
    from fairlane.compare.view import page
    from fairlane.report.bundle import write_reports
    from fairlane.report.parts import Around

    def link(trial: "Observation") -> str:
        alias, source = comparison.joined.trials[trial.trial]
        return Path(os.path.relpath(places[alias] / loaded[alias].raw_file(source), out)).as_posix()

    names = " ".join(shlex.quote(f"{alias}={path}") for alias, path in places.items())
    mapped = " --map mapping.yaml" if comparison.joined.mapping.text else ""
    around = Around(
        parts=page(comparison),
        invented=comparison.invented,
        commands=(f"fairlane compare {names}{mapped} --out repeat",),
        source="Save the mapping below as mapping.yaml, then:" if mapped else "From the same run directories:",
        link=link,
    )
    paths = write_reports(*comparison.judged, out, around)
    notify("\n".join(str(path) for path in paths))
