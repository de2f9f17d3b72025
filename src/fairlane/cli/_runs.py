"""Run directories on the command line: RUN may be left out where a command only reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fairlane.cli._output import notify
from fairlane.runs.choose import existing, newest

F = TypeVar("F", bound=Callable[..., Any])


def run_argument(function: F) -> F:
    """Adds the argument ``[RUN]``; the function gives it to ``chosen``. Only for commands that read: what changes or
    judges a run must be named."""
    return click.argument("run", metavar="[RUN]", required=False, type=click.Path(path_type=Path))(function)


def chosen(run: Path | None) -> Path:
    """``run`` if it is a run directory; the newest in ``runs`` if None, named on stderr. Raises FairlaneError."""
    if run is not None:
        return existing(run)
    folder = newest()
    notify(f"run: {folder} (the newest)")
    return folder
