"""``fairlane watch``: a running study in a terminal."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli._click import Command
from fairlane.cli._output import print_rich
from fairlane.cli._runs import chosen, run_argument
from fairlane.errors import RunFailed

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from fairlane.web.follow import Follower
    from fairlane.web.updates import Contest, State

_NARROW = 100
"""Columns from which on no cell of a table is folded."""
_SECONDS = 1.0
"""Between two reads of the run."""
_EVERY = 10.0
"""Seconds between two plain lines of progress."""
_PATIENCE = 5.0
"""Seconds without a running process before a run counts as interrupted: one that is just starting has none for a
moment."""
_NICE = 10
_COLOUR = {
    "better": "bold blue",
    "worse": "bold dark_orange3",
    "even": "cyan",
    "open": "dim",
    "refused": "dim",
}
_GRAVE = {"critical": "bold red", "warning": "yellow", "info": "dim"}


@click.command(
    cls=Command,
    examples="""
        fairlane watch runs/demo             until the run ends
        fairlane watch runs/demo --once      how it stands, once
        fairlane watch runs/demo && fairlane report runs/demo
    """,
)
@run_argument
@click.option("--once", is_flag=True, help="Print the state once, and exit.")
def command(run: Path | None, once: bool) -> None:
    """Show a running study: progress, intervals, findings.

    Without RUN, the newest run in runs/. The intervals hold at whatever moment they are read; the verdicts, drawn at
    the planned analyses, are sharper. Changes nothing. Exit code 0 when the run has ended, 3 if no process is running
    it, 130 after Ctrl-C.
    """
    from rich.console import Console

    from fairlane.web.follow import Follower

    run = chosen(run)
    os.nice(_NICE)  # the study may be running on this machine: it goes first
    follower = Follower(run, trusted=True)
    if once:
        _conclude(follower)
        return
    console = Console()
    state = _live(console, follower) if console.is_terminal else _lines(console, follower)
    _conclude(follower)
    if state.phase != "complete":
        raise RunFailed(
            "run-idle", "no process is running this study", where=str(run), hint=f"resume with: {_resume(run)}"
        )


def _conclude(follower: "Follower") -> None:
    """Print the state once; of a run that has ended also its verdicts."""
    from fairlane.cli._answer import print_verdicts
    from fairlane.stats.judge import judge

    state = follower.poll(check_now=True)
    _print(state)
    if state.phase == "complete":
        evidence = follower.evidence()
        verdicts = judge(evidence, follower.findings, primary_only=True)
        click.echo()
        print_verdicts(evidence, [v for v in verdicts if v.primary], "table")


def _resume(run: Path) -> str:
    from fairlane.trial.runner import resume_command

    return resume_command(run)


def _states(follower: "Follower") -> "Iterator[State]":
    """The run's state every second, until it ends or has had no process for ``_PATIENCE`` seconds."""
    idle = 0.0
    while True:
        state = follower.poll()
        yield state
        idle = idle + _SECONDS if state.phase == "interrupted" else 0.0
        if state.phase == "complete" or idle > _PATIENCE:
            return
        time.sleep(_SECONDS)


def _live(console: "Console", follower: "Follower") -> "State":
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=True) as live:
        for state in _states(follower):
            live.update(_view(state, min(console.width, 100), console.height - 1), refresh=True)
    return state


def _lines(console: "Console", follower: "Follower") -> "State":
    """Print plain lines: progress every ten seconds, failures and findings as they come; returns the last state."""
    printed: set[str] = set()
    due = float("-inf")
    for state in _states(follower):
        news = [f"{f.severity}: {f.message}" + (f" ({f.where})" if f.where else "") for f in state.findings]
        for line in (*reversed(state.failures), *news):
            if line not in printed:
                printed.add(line)
                _print_line(console, line)
        if time.monotonic() >= due:
            due = time.monotonic() + _EVERY
            _print_line(console, state.status)
    return state


def _print_line(console: "Console", line: str) -> None:
    from rich.text import Text

    console.print(Text(line), soft_wrap=True, highlight=False)


def _print(state: "State") -> None:
    """Print the whole state once."""
    print_rich(lambda console, width: console.print(_view(state, width, 10**6), width=width))


def _view(state: "State", width: int, height: int) -> "RenderableType":
    """The state within ``height`` lines if possible: of a long table the open rows come first, others are counted."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    head: list[RenderableType] = [
        Text(state.question or state.study, style="bold", overflow="ellipsis", no_wrap=height < 100),
        Text.assemble((state.phase, "bold"), "  ", state.status),
        ProgressBar(total=max(1, state.due), completed=state.done, width=min(width, 60)),
    ]
    tail: list[RenderableType] = []
    for line in state.failures:
        tail.append(Text(line, style="dark_orange3", overflow="ellipsis", no_wrap=height < 100))
    if state.more_failures:
        tail.append(Text(f"and {state.more_failures} more failures before", style="dim"))
    shown = state.findings if height > 100 else state.findings[:3]
    for f in shown:
        where = f" ({f.where})" if f.where else ""
        tail.append(Text.assemble((f"{f.severity}: ", _GRAVE.get(f.severity, "")), f.message, where))
    if more := len(state.findings) - len(shown):
        tail.append(Text(f"and {more} more findings: --once prints all", style="dim"))
    used = len(head) + sum(-(-len(str(line)) // width) for line in tail) + 3
    room = max(3, height - used - 4 * len(state.contests))
    body: list[RenderableType] = []
    for contest in state.contests:
        body += ["", _table(contest, room // max(1, len(state.contests)), narrow=width <= _NARROW)]
    note: list[RenderableType] = ["", Text(state.rule, style="dim")] if state.rule else []
    return Group(*head, *body, *note, *([""] if tail else []), *tail)


def _table(contest: "Contest", room: int, narrow: bool) -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from fairlane.report.phrases import SYMBOL

    table = Table(
        title=Text(contest.title), title_justify="left", title_style="bold",
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False,
    )  # fmt: skip
    table.add_column("cell", overflow="fold", max_width=26 if narrow else None)
    table.add_column("interval so far", justify="right", overflow="fold", max_width=24 if narrow else None)
    table.add_column("blocks", justify="right")
    table.add_column("now", overflow="fold", max_width=34 if narrow else None)
    rows = contest.rows
    if len(rows) > room:
        rows = tuple(sorted(rows, key=lambda row: row.settled or row.word == "refused"))[: max(1, room - 1)]
        table.caption = Text(f"and {len(contest.rows) - len(rows)} more cells: --once prints all", style="dim")
        table.caption_justify = "left"
    for row in rows:
        word = Text(f"{SYMBOL[row.word]} {row.text}", style=_COLOUR[row.outcome])
        table.add_row(Text(row.cell), row.interval, str(row.blocks), word)
    return table
