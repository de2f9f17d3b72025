"""The option ``--accept KEY="reason"`` of commands that judge."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _read(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG001
    accepts: dict[str, str] = {}
    for entry in given:
        name, equals, reason = (part.strip() for part in entry.partition("="))
        if not name or not equals or not reason:
            raise click.BadParameter(f'expected KEY="reason", such as ramp="both are steady", found {entry!r}')
        if name in accepts:
            raise click.BadParameter(f"{name} is given twice")
        accepts[name] = reason
    return accepts


def accept_option(function: F) -> F:
    """Adds a repeatable ``--accept``; the function gets ``accepts``: parameter -> reason, for ``study.accept``."""
    return click.option(
        "--accept",
        "accepts",
        multiple=True,
        metavar='KEY="REASON"',
        callback=_read,
        help="Compare although this parameter differs or is unknown; the reason is printed. Repeatable.",
    )(function)
