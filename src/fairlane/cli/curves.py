"""``fairlane curves``: throughput against latency, and each lane's throughput within an objective."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option
from fairlane.cli._runs import chosen, run_argument
from fairlane.errors import FairlaneError, nearest

if TYPE_CHECKING:
    from fairlane.stats.capacity import Objective


def _objectives(slos: tuple[str, ...]) -> "list[Objective]":
    from fairlane.metrics import METRICS
    from fairlane.stats.capacity import Objective
    from fairlane.units import parse_duration

    objectives = []
    for text in slos:
        name, _, limit = text.partition("=")
        latencies = [n for n, m in METRICS.items() if n.startswith("lat_")]
        if name not in latencies:
            near = nearest(name, latencies)
            raise FairlaneError(
                "slo-metric",
                f"--slo: {name!r} is not a latency",
                hint=f"did you mean {near}?" if near else f"latencies: {', '.join(latencies)}",
            )
        try:
            ns = parse_duration(limit)
        except ValueError as error:
            raise FairlaneError("slo-invalid", f"--slo {name}: {error}", hint="such as --slo lat_p99=2ms") from None
        if not ns:
            raise FairlaneError("slo-zero", f"--slo {name}: the limit must be above 0")
        objectives.append(Objective(name, float(ns)))
    return objectives


@click.command(
    cls=Command,
    examples="""
        fairlane curves runs/ladder                      at the objectives of the study
        fairlane curves runs/ladder --slo lat_p99=2ms    at this one instead
        fairlane curves runs/ladder --format json        curves, capacities, lanes at equal latency
    """,
)
@run_argument
@click.option(
    "--slo", "slos", multiple=True, metavar="METRIC=LIMIT", help="A latency objective: lat_p99=2ms. Repeatable."
)
@accept_option
@format_option
def command(run: Path | None, slos: tuple[str, ...], accepts: dict[str, str], output: Format) -> None:
    """Print throughput against latency, load by load.

    Without RUN, the newest run in runs/ is read. A ladder is a group of cells that differ only in iodepth, numjobs or
    rate. At a latency objective (`slo` of the workload, or --slo) the lanes are compared by the throughput they carry
    within it. Beyond the highest or lowest load only a bound is given, never an extrapolation. The point of diminishing
    returns is named only where every further step is proven to gain less than the margin.
    """
    from fairlane.checks.base import run_all
    from fairlane.cli._output import print_json, print_rows
    from fairlane.guard.accept import accepting
    from fairlane.report import curves, lanes
    from fairlane.report.phrases import metric_of
    from fairlane.report.text import markdown, scrub
    from fairlane.runs.read import load_run

    run = chosen(run)
    evidence = accepting(load_run(run), accepts)
    views = scrub(curves.views(evidence, lanes.labels(evidence.study), run_all(evidence), _objectives(slos) or None))
    if not views:
        raise FairlaneError(
            "no-ladder",
            "no ladder in this run",
            where=str(run),
            hint="a ladder is three or more cells that differ only in iodepth, numjobs or rate_iops, "
            "with complete blocks of every lane",
        )
    if output == "json":
        print_json([_plain(view) for view in views])
        return
    escape = markdown if output == "md" else str
    for n, view in enumerate(views):
        figure = curves.figure(view, "curve").table
        head = f"{view.workload}: {view.name}, {metric_of(view.metric).title}"
        if n:
            click.echo()
        print_rows([dict(zip(figure.columns, row, strict=True)) for row in figure.rows], output, title=head)
        for curve in view.curves:
            for text in filter(None, (curve.returns, curve.law)):
                click.echo(escape(f"{curve.lane}: {text}"))
        for answer in view.answers:
            click.echo(f"- {escape(answer)}" if output == "md" else f"• {answer}")
        click.echo()
        rows = [dict(zip(view.equal.columns, row, strict=True)) for row in view.equal.rows]
        print_rows(rows, output, title="Lanes at equal latency and at equal throughput (exploratory)")


def _plain(view: Any) -> dict[str, Any]:
    from dataclasses import asdict

    tree = asdict(view)
    tree["equal"] = [dict(zip(view.equal.columns, row, strict=True)) for row in view.equal.rows]
    return tree
