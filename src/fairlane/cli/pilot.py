"""``fairlane pilot``: plan the real study from the spread of a short one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify, print_json, print_rows
from fairlane.cli._runs import chosen, run_argument
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from fairlane.records import Evidence
    from fairlane.stats.pilot import Need


def _share(ctx: click.Context, param: click.Parameter, given: str | None) -> float | None:  # noqa: ARG001
    from fairlane.units import parse_share

    if given is None:
        return None
    try:
        value = parse_share(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 < value <= 1:
        raise click.BadParameter("expected a share above 0 and up to 100%, such as 2%")
    return value


@click.command(
    cls=Command,
    examples="""
        fairlane pilot runs/demo                       blocks for intervals as narrow as the margin
        fairlane pilot runs/demo --half-width 2%       ... for +-2 %
        fairlane pilot runs/demo --format json         for scripts: "looks" are the blocks at which to judge
    """,
)
@run_argument
@click.option(
    "--half-width",
    callback=_share,
    metavar="SHARE",
    help="Half width of the interval to reach.  [default: metric's margin]",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Blocks that run at one moment, where harmless.  [default: CPUs]"
)
@format_option
def command(run: Path | None, half_width: float | None, jobs: int | None, output: Format) -> None:
    """Estimate how many blocks a study needs.

    The estimate uses the spread of RUN; without RUN, that of the newest run in runs/. RUN may be finished or not; all
    its blocks count. For every primary comparison: the spread of the paired ratio between blocks, the blocks after
    which its interval is within the half width, and, because a short pilot knows its spread badly, the blocks at the
    upper 90 % limit of the spread. The last lines go into the next study's file.

    If RUN's trials have a series (series: 1s), it also finds the shortest ramp and runtime that give the same ratios.
    """
    from fairlane.cli import _slots
    from fairlane.runs.read import load_run
    from fairlane.stats.pilot import needs
    from fairlane.stats.slots import slots

    run = chosen(run)
    evidence = load_run(run)
    if not evidence.study.design.paired:
        raise FairlaneError(
            "not-paired",
            "the trials of this run are not paired: blocks cannot be planned",
            where=str(run),
            hint="run all lanes in one study for a few blocks, and use that run as the pilot",
        )
    _foresee(evidence.study)
    plan = _plan(evidence, needs(evidence, half_width), jobs or len(os.sched_getaffinity(0)))
    short = slots(evidence)
    if output == "json":
        print_json({**plan, "slots": _slots.as_data(short)})
        return
    print_rows([_readable(row) for row in plan["cells"]], output)
    if short and short.tried:
        click.echo()
        print_rows(_slots.rows(short), output)
    for line in _slots.advice(short) if short else [_slots.NO_SERIES]:
        click.echo(f"\n{line}")
    for line in _advice(plan):
        click.echo(f"\n{line}")


def _plan(evidence: "Evidence", needs: tuple["Need", ...], jobs: int) -> dict[str, Any]:
    """Everything as plain data; times in seconds, wall time without setting up."""
    from fairlane.stats.pilot import level
    from fairlane.study.base import FEW_BLOCKS

    study = evidence.study
    workers = max(1, study.platform.workers(jobs))

    def seconds(need: "Need", blocks: int | None) -> float | None:
        trial = study.platform.wall_seconds(study.workloads[need.cell.workload].trial_seconds(need.cell))
        return None if blocks is None else blocks * len(study.lanes) * trial / workers

    cells = [
        {
            "workload": n.cell.workload,
            "cell": n.cell.name,
            "lane": n.lane,
            "metric": n.metric,
            "blocks": n.blocks,
            "spread": n.sd,
            "spread_upper": n.sd_upper,
            "half_width": n.half_width,
            "needed": n.needed,
            "needed_upper": n.needed_upper,
            "seconds": seconds(n, n.needed),
            "seconds_upper": seconds(n, n.needed_upper),
        }
        for n in needs
    ]
    least = 2 if evidence.modelled else FEW_BLOCKS  # with fewer there is no headline
    looks, upper = (_most(study, cells, key, least) for key in ("needed", "needed_upper"))
    return {
        "level": level(study),
        "cells": cells,
        "looks": looks,
        "looks_upper": upper,
        "seconds": _wall_seconds(study, looks, jobs),
        "seconds_upper": _wall_seconds(study, upper, jobs),
    }


def _foresee(study: Any) -> None:
    """Warn of comparisons that the guard will refuse: more blocks do not help them."""
    from fairlane.checks._outlook import outlook

    expected = outlook(study)
    for line in expected.warnings():
        notify(line)
    if refusal := expected.error():
        notify(f"warning: {refusal.message}\n{refusal.hint}")


def _most(study: Any, cells: list[dict[str, Any]], key: str, least: int) -> list[int] | None:
    """The looks that suffice for every cell, ``least`` units at least; None: not known for one of them, or out of
    reach."""
    from fairlane.study.provisionings import fitting

    wanted = [cell[key] for cell in cells]
    if not wanted or None in wanted:
        return None
    most, provisionings = max(least, *wanted), study.design.provisionings
    return [fitting(most, provisionings) if provisionings > 1 else most]


def _wall_seconds(study: Any, looks: list[int] | None, jobs: int) -> float | None:
    from fairlane.study.forecast import plan

    if looks is None:
        return None
    design = study.design.model_copy(update={"looks": tuple(looks)})
    return plan(study.model_copy(update={"design": design}), jobs).looks[-1].wall_seconds


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    from fairlane.report.phrases import share
    from fairlane.report.text import DASH, clean
    from fairlane.study.forecast import about

    def number(key: str) -> str:
        return DASH if row[key] is None else f"{row[key]:,}"

    return {
        "cell": clean(row["cell"]),
        "lane": clean(row["lane"]),
        "seen": row["blocks"],
        "spread": DASH if row["spread"] is None else f"{100 * row['spread']:.2g} %",
        "within": f"±{share(row['half_width'])}",
        "blocks": number("needed"),
        "at most": number("needed_upper"),
        "time": DASH if row["seconds"] is None else about(row["seconds"]),
    }


def _advice(plan: dict[str, Any]) -> list[str]:
    from fairlane.report.phrases import coverage
    from fairlane.study.forecast import about

    if plan["looks"] is None:
        return [
            "The number of blocks cannot be estimated for all of them: fewer than 2 blocks count, figures come "
            "in steps coarser than the half width, or the spread is too large."
        ]
    surely = (
        f"{plan['looks_upper'][0]:,} (about {about(plan['seconds_upper'])})" if plan["looks_upper"] else "no number"
    )
    return [
        f"Intervals of {coverage(plan['level'])} each, so that all primary comparisons hold together. At the spread "
        f"of this run {plan['looks'][0]:,} blocks are enough (about {about(plan['seconds'])}); at its upper 90 % limit "
        f"{surely}. As a fixed number in the study:",
        f"design:\n  looks: {plan['looks']}",
    ]
