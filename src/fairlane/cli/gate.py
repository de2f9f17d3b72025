"""``fairlane gate``: judge a run by rules, for acceptance tests and CI."""

from pathlib import Path
from typing import Any

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, rows_option
from fairlane.errors import Exit, FairlaneError
from fairlane.runs.choose import existing


@click.command(
    cls=Command,
    examples="""
        fairlane gate runs/demo --rule "nvme-tcp >= 20 % over iscsi on 4k randread, no block below 10 %"
        fairlane gate runs/array --rule "p99 of nvme-tcp <= 2ms on 4k randread qd16" --rule "no critical finding"
        fairlane gate runs/demo --rules rules.txt --junit gate.xml
        fairlane gate runs/nightly                   by the rules of fairlane run --gate
        fairlane gate runs/demo --rule "nvme-tcp faster than iscsi in lat_mean" --format json
    """,
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--rule", "texts", metavar="RULE", multiple=True, help="A rule; may be given several times.")
@click.option("--rules", "file", metavar="FILE", help="File of rules, one a line; # begins a comment.")
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Also write JUnit XML.")
@accept_option
@rows_option
def command(
    run: Path, *, texts: tuple[str, ...], file: str | None, junit: Path | None, accepts: dict[str, str], output: Format
) -> int:
    """Test a run against rules, for acceptance tests and CI.

    The exit code is 0 if every rule is met in every cell it names, 4 if not.

    \b
    LANE >= X % over BASELINE [in METRIC] [on CELLS] [, no block below Y %]
    LANE within X % of BASELINE, LANE ties BASELINE [in METRIC] [on CELLS]
    METRIC of LANE <= 2ms [on CELLS] [, no block above 3ms]
    no critical finding [on CELLS]

    A rule is met only if the interval proves it: the lower end is at least X %, not just the estimate. Any lane may be
    the baseline of a rule. Comparisons without proof, and refused ones, do not pass. Without rules, the rules of
    `fairlane run --gate` decide.
    """
    from fairlane.checks.base import run_all
    from fairlane.cli._output import print_rows
    from fairlane.gate.decide import decide, metrics_of
    from fairlane.gate.grammar import FORMS, parse, parse_file
    from fairlane.guard.accept import accepting
    from fairlane.report.prose import terms
    from fairlane.report.text import clean
    from fairlane.runs.read import load_run
    from fairlane.study.load import read_text

    existing(run)
    rules = [parse(text) for text in texts]
    if file is not None:
        rules += parse_file(read_text(file, FairlaneError("file-missing", "no such file", where=file)), file)
    if not rules:
        rules = [parse(text) for text in _own(run)]
    if not rules:
        raise FairlaneError("rules-none", "no rule to judge by", hint=f'--rule "{FORMS[0]}"')
    evidence = accepting(load_run(run), accepts)
    outcomes = decide(rules, evidence, run_all)
    if junit is not None:
        from fairlane.gate.junit import document

        junit.write_text(document(outcomes, evidence.study.name, evidence.name), encoding="utf-8")
    rows = [
        {
            "rule": str(o.rule),
            "cell": clean(o.cell),
            "outcome": o.word,
            "seen": clean(o.observed),
            "reason": clean(o.reason),
            "alpha": evidence.study.design.alpha,
            "margin": o.verdict.margin if o.verdict else None,
        }
        for o in outcomes
    ]
    if output == "table":
        _lines(rows)
        click.echo(terms(evidence.study, metrics_of(rules, evidence.study)))
    else:
        print_rows(rows, output, columns=("rule", "cell", "outcome", "seen", "reason", "alpha", "margin"))
    return Exit.OK if all(o.word == "met" for o in outcomes) else Exit.NOT_DECIDED


def _own(run: Path) -> tuple[str, ...]:
    """The rules that the run was begun with (``fairlane run --gate``)."""
    from fairlane.runs import plan

    return plan.read(run).rules


_SIGN = {"met": "✓", "not met": "✗", "not proven": "?", "refused": "✕"}


def _lines(rows: list[dict[str, Any]]) -> None:
    """Each rule, and under it a line or two per cell: a table of whole rules would fit no terminal."""
    rule = None
    for row in rows:
        if row["rule"] != rule:
            rule = row["rule"]
            click.echo(rule)
        head = f"  {_SIGN[row['outcome']]} {row['outcome']}"
        click.echo("  ".join(x for x in (head, row["cell"], row["seen"]) if x))
        if row["reason"]:
            click.echo(f"      {row['reason']}")
