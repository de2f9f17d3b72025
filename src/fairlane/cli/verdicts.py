"""``fairlane verdicts``: the verdicts of a run as data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option
from fairlane.errors import FairlaneError, nearest

if TYPE_CHECKING:
    from fairlane.records import Verdict


@click.command(
    cls=Command,
    examples="""
        fairlane verdicts runs/demo                    the primary metric of each workload
        fairlane verdicts runs/demo --all              every metric
        fairlane verdicts runs/demo --metric lat_p99   one metric
        fairlane verdicts runs/demo --format json | jq '.[] | select(.headline)'
    """,
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--metric", help="Only this metric, by its name in the registry: iops, lat_p99, ...")
@click.option(
    "--primary/--all",
    "primary",
    default=None,
    help="Only primary metrics, or all. Default: all for json and with --metric, primary for table and md.",
)
@accept_option
@format_option
def command(run: Path, metric: str | None, primary: bool | None, accepts: dict[str, str], output: Format) -> None:
    """Print the verdicts of RUN: lane against baseline, per cell and metric.

    Ratios are lane / baseline of the metric itself (1.12: 12 % more); low and high are the ends of the adjusted
    interval. json has every field of a verdict. A verdict is withheld where a critical finding stands against it:
    fairlane check RUN.
    """
    from fairlane.checks.base import run_all
    from fairlane.cli._output import print_rows
    from fairlane.guard.accept import accepting
    from fairlane.report.model import as_json
    from fairlane.runs.read import load_run
    from fairlane.stats.judge import judge

    evidence = accepting(load_run(run), accepts)
    verdicts = judge(evidence, run_all(evidence))
    known = list(dict.fromkeys(v.metric for v in verdicts))
    if metric is not None and metric not in known:
        near = nearest(metric, known)
        hint = f"did you mean {near}?" if near else f"this run has: {', '.join(known) or 'none'}"
        raise FairlaneError("metric-unknown", f"no verdict on the metric {metric!r}", hint=hint, where=str(run))
    if primary is None:
        primary = output != "json" and metric is None
    rows = [v for v in verdicts if metric in (None, v.metric) and (v.primary or not primary)]
    if output == "json":
        print_rows([as_json(v) for v in rows], output)
        return
    shown = [_readable(v) for v in rows]
    print_rows(shown, output, columns=_varying(shown))


def _varying(rows: list[dict[str, Any]]) -> list[str]:
    """All columns but workload and metric where these are the same in every row."""
    return [
        key for key in (rows[0] if rows else ()) if key not in {"workload", "metric"} or len({r[key] for r in rows}) > 1
    ]


def _readable(v: "Verdict") -> dict[str, Any]:
    """A row for table and md: a metric's own units, changes in percent."""
    from fairlane.report import phrases
    from fairlane.report.text import DASH, clean
    from fairlane.verdicts.scorecard import withheld

    return {
        "workload": clean(v.workload),
        "cell": clean(v.cell),
        "lane": clean(v.lane),
        "metric": v.metric,
        clean(v.baseline): phrases.value(v.metric, v.baseline_value),
        "value": phrases.value(v.metric, v.lane_value),
        "change": DASH if v.ratio is None else phrases.change(v.ratio),
        "interval": f"{phrases.interval(v.tie_low, v.tie_high)} (tie test)"
        if v.verdict == "tie"
        else phrases.interval(v.low, v.high),
        "verdict": v.verdict + (" (withheld)" if withheld(v) else ""),
        "blocks": v.blocks,
    }
