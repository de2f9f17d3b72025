"""What every command that prints a result shares: ``--format table|json|md`` and the three ways to print rows.

The result goes to stdout and nothing else does; what is told meanwhile goes to stderr (``tell``).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import click

Format = Literal["table", "json", "md"]

F = TypeVar("F", bound=Callable[..., Any])


def format_option(function: F) -> F:
    """Adds ``--format``; the function gets it as ``output``."""
    choice = click.Choice(["table", "json", "md"])
    return click.option(
        "--format", "output", type=choice, default="table", show_default=True, help="How the result is printed."
    )(function)


def tell(message: str) -> None:
    """One line of progress, to stderr."""
    click.echo(message, err=True)


def text(value: Any) -> str:
    """A value as a reader wants it in a table: lists with commas, yes and no, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(text(v) for v in value)
    return str(value)


def print_json(value: Any) -> None:
    """Indented JSON to stdout, keys in their own order; NaN is refused, because JSON has none."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_rows(
    rows: Sequence[Mapping[str, Any]], output: Format, *, columns: Sequence[str] | None = None, title: str = ""
) -> None:
    """Print ``rows`` in the asked form.

    ``columns`` chooses and orders what table and md show (default: the first row's keys); json has the whole rows.
    """
    if output == "json":
        print_json([dict(row) for row in rows])
        return
    heads = list(columns or (rows[0] if rows else ()))
    lines = [[text(row.get(head)) for head in heads] for row in rows]
    if output == "md":
        click.echo("\n".join(_markdown(heads, lines, title)))
    else:
        click.echo("\n".join(_table(heads, lines, title, [_numeric(rows, head) for head in heads])))


def _numeric(rows: Sequence[Mapping[str, Any]], head: str) -> bool:
    values = [row[head] for row in rows if row.get(head) is not None]
    return bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _table(heads: list[str], lines: list[list[str]], title: str, right: list[bool]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(heads, *lines, strict=True)]
    rule = ["-" * width for width in widths]

    def line(cells: list[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return ([title] if title else []) + [line(cells) for cells in (heads, rule, *lines)]


def _markdown(heads: list[str], lines: list[list[str]], title: str) -> list[str]:
    def line(cells: list[str]) -> str:
        escaped = (c.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for c in cells)
        return "| " + " | ".join(escaped) + " |"

    return ([f"**{title}**", ""] if title else []) + [line(cells) for cells in (heads, ["---"] * len(heads), *lines)]
