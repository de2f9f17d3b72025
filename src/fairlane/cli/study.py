"""``fairlane study``: check a study and print its plan before it runs."""

import os
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._click import Group
from fairlane.cli._output import Format, format_option, notify, print_json, print_rows

if TYPE_CHECKING:
    from fairlane.study.spec import Study


@click.group(cls=Group, examples="fairlane study check study.yaml")
def command() -> None:
    """Check a study and print its plan."""


@command.command(
    examples="""
        fairlane study check study.yaml
        fairlane study check demo --jobs 4              a preset
        fairlane study check study.yaml --format json
    """
)
@click.argument("study", metavar="FILE")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Blocks that run at one moment, where harmless.  [default: CPUs]"
)
@click.option("--quick", is_flag=True, help="The study's quick form.")
@format_option
def check(study: str, jobs: int | None, quick: bool, output: Format) -> None:
    """Check a study and print its plan, without running anything.

    FILE is a study file or the name of a preset. All errors are listed at once with their
    lines, also what the platform does not support: exit code 1. Lanes that differ in a parameter that must match get a
    warning; if no lane can be compared with the baseline, the exit code is 4, and the message has the lines that allow
    it.

    The plan: lanes, cells, and the blocks, trials and time of each planned analysis. A study may end at an earlier
    analysis, when all its cells are decided.
    """
    from fairlane import registry
    from fairlane.cli._before import consider
    from fairlane.study.load import load_study

    model, _ = load_study(study, quick=quick)
    report = describe(model, jobs or len(os.sched_getaffinity(0)))
    if output == "json":
        print_json(report)
    else:
        _print(report, output)
    platform = registry.load("platforms", model.platform.kind).of(model)
    if platform.described:
        notify(f"warning: platform {model.platform.kind}: {platform.described}")
    for problem in platform.planned_only():
        notify(f"warning: {problem.where}: {problem.message}")
    consider(model, study, platform.unfit())


def describe(study: "Study", jobs: int) -> dict[str, Any]:
    """The plan as plain data; times in seconds."""
    from fairlane.study.base import CHECK_BLOCKS
    from fairlane.study.forecast import plan

    planned = plan(study, jobs)
    return {
        "study": study.name,
        "question": study.question,
        "platform": study.platform.kind,
        "baseline": study.baseline,
        "seed": study.design.seed,
        "jobs": planned.workers,
        "lanes": [
            {
                "lane": name,
                "transport": lane.transport,
                "parameters": lane.model_dump(mode="json", exclude={"transport"}, exclude_none=True),
                "given": lane.model_dump(mode="json", exclude={"transport"}, exclude_unset=True),
            }
            for name, lane in study.lanes.items()
        ],
        "cells": [
            {
                "workload": c.cell.workload,
                "cell": c.cell.name,
                "key": c.cell.key,
                "trial_seconds": c.trial_seconds,
                **({"blocks": CHECK_BLOCKS} if study.workloads[c.cell.workload].check_of else {}),
            }
            for c in planned.cells
        ],
        "provisionings": {
            "count": planned.provisionings.count,
            "blocks": planned.provisionings.blocks,
            "fill_bytes": planned.provisionings.fill_bytes,
            "steady_seconds": planned.provisionings.steady_seconds,
        },
        "looks": [
            {"blocks": n.blocks, "trials": n.trials, "load_seconds": n.load_seconds, "wall_seconds": n.wall_seconds}
            for n in planned.looks
        ],
    }


def _anew(made: dict[str, Any]) -> str:
    """The cost of making volumes and machines anew, in a line."""
    from fairlane.study.forecast import about
    from fairlane.units import format_size

    each = ["machines and volumes are created"]
    if made["fill_bytes"]:
        each.append(f"{format_size(made['fill_bytes'])} filled")
    if made["steady_seconds"]:
        each.append(f"lanes loaded until steady ({about(made['steady_seconds'])} at most)")
    return f"{made['count']} provisionings of {made['blocks']} blocks; in each, beside the load: {', '.join(each)}"


def _print(report: dict[str, Any], output: Format) -> None:
    from fairlane.report.text import clean, flatten, markdown
    from fairlane.study.forecast import about

    facts = [("study", report["study"]), ("question", report["question"]), ("platform", report["platform"])]
    facts += [("baseline", report["baseline"]), ("seed", report["seed"]), ("jobs", report["jobs"])]
    if report["provisionings"]["count"] > 1:
        facts.append(("anew", _anew(report["provisionings"])))
    for key, value in facts:
        text = clean(str(value))
        click.echo(f"- **{key}**: {markdown(text)}" if output == "md" else f"{key:9} {text}")
    lanes = [
        {
            "lane": lane["lane"] + (" (baseline)" if lane["lane"] == report["baseline"] else ""),
            "transport": lane["transport"],
            "settings": [f"{k}={v}" for k, v in flatten(lane["given"]).items()] or "defaults",
        }
        for lane in report["lanes"]
    ]
    checking = any("blocks" in c for c in report["cells"])
    cells = [
        {k: c[k] for k in ("workload", "cell")}
        | {"a trial": about(c["trial_seconds"])}
        | ({"blocks": f"first {c['blocks']}" if "blocks" in c else "all"} if checking else {})
        for c in report["cells"]
    ]
    looks = [
        {
            "blocks": look["blocks"],
            "trials": look["trials"],
            "under load": about(look["load_seconds"]),
            "expected": about(look["wall_seconds"]),
        }
        for look in report["looks"]
    ]
    for title, rows in (
        ("Lanes", lanes),
        ("Cells", cells),
        ("Planned analyses; expected: wall time without set-up", looks),
    ):
        click.echo()
        print_rows(rows, output, title=title)
