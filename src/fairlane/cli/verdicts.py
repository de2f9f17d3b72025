"""``fairlane verdicts``: the verdicts of a run as data."""

from pathlib import Path

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, print_rows, rows_option
from fairlane.cli._runs import chosen, run_argument
from fairlane.errors import FairlaneError, nearest


@click.command(
    cls=Command,
    examples="""
        fairlane verdicts runs/demo                    the primary metric of each workload
        fairlane verdicts runs/demo --all              every metric
        fairlane verdicts runs/demo --metric lat_p99   one metric
        fairlane verdicts --explain                    the newest run, with its notes and findings
        fairlane verdicts runs/demo --format json | jq '.[] | select(.headline)'
    """,
)
@run_argument
@click.option("--metric", help="Only this metric, by its name in the registry: iops, lat_p99, ...")
@click.option(
    "--primary/--all",
    "primary",
    default=None,
    help="Only primary metrics, or all. Default: all for json and with --metric, primary for table and md.",
)
@accept_option
@click.option("--explain", is_flag=True, help="Also print footnotes, how sure the verdicts are, and findings.")
@rows_option
def command(
    run: Path | None,
    *,
    metric: str | None,
    primary: bool | None,
    explain: bool,
    accepts: dict[str, str],
    output: Format,
) -> None:
    """Print the verdicts of a run, as a table or as data.

    Without RUN, the newest run in runs/ is read. A verdict is of a lane against the baseline, per cell and metric.
    Ratios are lane / baseline of the metric itself (1.12: 12 % more); low and high are the ends of the adjusted
    interval. json has every field of a verdict. A verdict is withheld where a critical finding stands against it
    (fairlane check RUN), or where its blocks are too few, or too alike, for a headline: field held.
    """
    from fairlane.cli._answer import print_notes, print_verdicts
    from fairlane.runs.judged import read_judged

    run = chosen(run)
    if primary is None:
        primary = output != "json" and metric is None
    judged = read_judged(run, accepts, primary_only=primary and metric is None and not explain)
    verdicts = judged.verdicts
    known = list(dict.fromkeys(v.metric for v in verdicts))
    if metric is not None and metric not in known:
        near = nearest(metric, known)
        hint = f"did you mean {near}?" if near else f"this run has: {', '.join(known) or 'none'}"
        raise FairlaneError("metric-unknown", f"no verdict on the metric {metric!r}", hint=hint, where=str(run))
    rows = [v for v in verdicts if metric in (None, v.metric) and (v.primary or not primary)]
    if output == "json":
        from fairlane.report.model import as_json  # with all that a report draws: a third of a second

        print_rows([as_json(v) for v in rows], output)
        return
    print_verdicts(judged.evidence, rows, output)
    if explain and output == "table":
        from fairlane.report import model  # as above

        click.echo()
        print_notes(model.build(*judged), verdicts)
