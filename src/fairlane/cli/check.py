"""``fairlane check``: the matched-parameter table of runs or lanes, and the findings of all checks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, notify, rows_option
from fairlane.cli._runs import chosen
from fairlane.errors import Exit, FairlaneError, nearest
from fairlane.runs.choose import existing

if TYPE_CHECKING:
    from fairlane.guard.matched import Table
    from fairlane.records import Evidence, Finding

_WIDEST = 44
"""Most characters of a value in a terminal; md and json have all of it."""


@click.command(
    cls=Command,
    examples="""
        fairlane check runs/demo                        the lanes of one run side by side
        fairlane check runs/roks runs/vcf               two runs, each as one column
        fairlane check runs/roks runs/vcf --lane rep3 --lane raid1 --differing
        fairlane check runs/demo --accept flush="nothing here syncs"
        fairlane check runs/roks runs/vcf --format json | jq '.parameters[] | select(.status == "differs")'
    """,
)
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--lane", "lanes", multiple=True, help="Only this lane, in its own column. Repeatable.")
@click.option("--differing", is_flag=True, help="Only parameters that do not match.")
@accept_option
@rows_option
def command(
    runs: tuple[Path, ...], lanes: tuple[str, ...], differing: bool, accepts: dict[str, str], output: Format
) -> int:
    """Print the parameters that must match, and all findings.

    Without RUN, the newest run in runs/ is read. With one RUN, each of its lanes is a
    column, the baseline first. With several, each run is a column and the first is the baseline; --lane shows single
    lanes instead. Exit code 4 if a finding refuses a comparison.
    """
    from fairlane.checks.base import run_all
    from fairlane.guard.accept import accepting
    from fairlane.guard.summary import uncompared
    from fairlane.report.text import clean
    from fairlane.runs.read import load_run

    runs = tuple(map(existing, runs)) or (chosen(None),)
    loaded = _named(runs, [load_run(run) for run in runs])
    _all_known(lanes, list(loaded.values()))
    accepted = {name: accepting(run, accepts) for name, run in loaded.items()}
    findings: list[tuple[str, Finding]]
    if len(loaded) == 1:
        table = _within(next(iter(accepted.values())), lanes)
        findings = [("", finding) for run in accepted.values() for finding in _about(run_all(run), lanes)]
    else:
        table, between = _between(accepted, lanes)
        findings = [("", finding) for finding in between]
        for name, run in loaded.items():  # a run's own lanes are not compared with each other here
            findings += [(name, finding) for finding in _about(run_all(run, between=False), lanes)]
    _print(table, findings, differing, output)
    if len(loaded) == 1 and output != "json" and (reason := uncompared(next(iter(accepted.values())))):
        click.echo(f"\n{clean(reason)}")
    refusing = sum(finding.refuses for _, finding in findings)
    if refusing:
        notify(
            f"{refusing} finding{' refuses' if refusing == 1 else 's refuse'} a comparison. Add missing values to the "
            'conditions of the study or import map, or accept the difference: --accept KEY="reason"'
        )
    return Exit.NOT_DECIDED if refusing else Exit.OK


def _about(findings: "Sequence[Finding]", lanes: Sequence[str]) -> "list[Finding]":
    """Findings that name one of ``lanes`` or no lane at all; all, if ``lanes`` is empty."""
    return [finding for finding in findings if not lanes or not finding.lanes or set(lanes) & set(finding.lanes)]


def _named(paths: Sequence[Path], runs: "Sequence[Evidence]") -> "dict[str, Evidence]":
    """The runs by name; by path, where names are not unique."""
    names = [run.name for run in runs]
    keys = [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]
    if len(set(keys)) < len(keys):
        raise FairlaneError("run-twice", "the same run is given twice", where=str(paths[-1]))
    return dict(zip(keys, runs, strict=True))


def _all_known(lanes: Sequence[str], runs: "Sequence[Evidence]") -> None:
    known = list(dict.fromkeys(lane for run in runs for lane in run.study.lanes))
    for lane in lanes:
        if lane not in known:
            near = nearest(lane, known)
            hint = f"did you mean {near}?" if near else f"lanes: {', '.join(known)}"
            raise FairlaneError("lane-unknown", f"no lane named {lane!r}", hint=hint)


def _within(run: "Evidence", lanes: Sequence[str]) -> "Table":
    """The lanes of one run; the chosen ones with the baseline, which they are compared with."""
    from fairlane.guard.matched import Rules, interleaved, primaries, sides, table, table_of

    if not lanes:
        return table_of(run)
    by_name = sides(run)
    chosen = [by_name[name] for name in dict.fromkeys([run.study.baseline, *lanes])]
    return table(chosen, Rules.of(run.study), primaries(run.study), interleaved=interleaved(run.study))


def _between(runs: "dict[str, Evidence]", lanes: Sequence[str]) -> "tuple[Table, list[Finding]]":
    """Several runs side by side, and the guard's findings on each against the first."""
    from dataclasses import replace

    from fairlane.checks.unmatched import PLUGIN
    from fairlane.guard.cases import Setting
    from fairlane.guard.matched import Rules, comparable, primaries, sides, table, together

    columns = []
    for name, run in runs.items():
        own = sides(run)
        if lanes:
            columns += [replace(own[lane], name=f"{name}:{lane}") for lane in lanes if lane in own]
        else:
            columns.append(together(name, own.values()))
    shown = comparable(columns)
    rules = Rules.of(*(run.study for run in runs.values()))
    primary = {key: metric for run in runs.values() for key, metric in primaries(run.study).items()}
    primary.setdefault("", next(iter(primary.values()), ""))
    names = {cell.key: cell.name for run in runs.values() for cell in run.cells()}
    setting = Setting(names, {side.name: side.name for side in shown}, primary, interleaved=False)
    findings = PLUGIN.guard(shown[0], shown[1:], rules, setting)
    return table(shown, rules, primary, interleaved=False), list(findings)


def _print(table: "Table", findings: "Sequence[tuple[str, Finding]]", differing: bool, output: Format) -> None:
    from fairlane.cli._output import print_json, print_rows
    from fairlane.report.text import clean, markdown, shorten

    rows = [row for row in table.rows if not differing or row.status not in ("match", "")]
    if output == "json":
        parameters = [vars(row) | {"values": dict(zip(table.columns, row.values, strict=True))} for row in rows]
        print_json(
            {
                "comparable": not any(finding.refuses for _, finding in findings),
                "columns": table.columns,
                "parameters": parameters,
                "findings": [{"run": run, **vars(finding)} for run, finding in findings],
            }
        )
        return

    def fit(text: str) -> str:
        return shorten(clean(text).replace("\n", " "), _WIDEST) if output == "table" else clean(text)

    heads = ["Group", "Parameter", *_apart([fit(column) for column in table.columns]), "Match"]
    last, lines = "", []
    for row in rows:
        group = "" if row.group == last and output != "tsv" else row.group
        cells = [group, row.title, *map(fit, row.values), row.status]
        lines.append(dict(zip(heads, cells, strict=True)))
        last = row.group
    print_rows(lines, output, columns=heads)
    if output == "tsv":  # one table; the findings: json
        return
    if findings:
        click.echo()
    for line in _lines(findings):
        click.echo(f"- {markdown(clean(line))}" if output == "md" else clean(line))


def _lines(findings: "Sequence[tuple[str, Finding]]") -> list[str]:
    """A line per message, with the lanes of its findings, which it does not name itself."""
    by_line: dict[str, list[str]] = {}
    for run, finding in findings:
        line = f"{finding.severity}: {f'{run}: ' if run else ''}{finding.message}"
        lanes = by_line.setdefault(line, [])
        lanes += [lane for lane in finding.lanes if finding.check != "unmatched" and lane not in lanes]
    return [line + (f" ({', '.join(lanes)})" if lanes else "") for line, lanes in by_line.items()]


def _apart(titles: Sequence[str]) -> list[str]:
    """Column titles that differ from each other and from the table's own."""
    taken = {"Group", "Parameter", "Match"}
    out = []
    for number, title in enumerate(titles, start=1):
        out.append(title if title not in taken else f"{title} ({number})")
        taken.add(out[-1])
    return out
