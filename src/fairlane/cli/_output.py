"""Output of commands: the option ``--format table|json|md``, rows printed in each format, and notices on stderr.

Only the result goes to stdout; progress and notices go to stderr (``notify``).
"""

import json
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, TypeVar

import click

from fairlane import registry
from fairlane.report.text import clean, markdown

Format = Literal["table", "json", "md"]

F = TypeVar("F", bound=Callable[..., Any])


def format_option(function: F) -> F:
    """Adds ``--format``; the function gets it as ``output``."""
    choice = click.Choice(["table", "json", "md"])
    return click.option(
        "--format", "output", type=choice, default="table", show_default=True, help="How the result is printed."
    )(function)


def remote() -> str:
    """Names of the platforms that take a context and a namespace, for messages."""
    return " or ".join(name for name, platform in registry.every("platforms") if platform.remote)


def notify(message: str) -> None:
    """Print one line to stderr; control characters are escaped."""
    click.echo(clean(message), err=True)


def text(value: Any) -> str:
    """A value as text for a table: lists with commas, yes and no, empty for None. Control and direction characters are
    escaped: names come from outside."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(text(v) for v in value)
    return clean(str(value))


def print_json(value: Any) -> None:
    """Indented JSON to stdout, keys in their own order; NaN is refused, because JSON has none."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_rows(
    rows: Sequence[Mapping[str, Any]], output: Format, *, columns: Sequence[str] | None = None, title: str = ""
) -> None:
    """Print ``rows`` in the format ``output``.

    ``columns`` chooses and orders the columns of table and md (default: the first row's keys); json has the whole rows.
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


_LEAST = 6
"""Least width of a column of text that is narrowed to fit a line."""


def _table(heads: list[str], lines: list[list[str]], title: str, right: list[bool]) -> list[str]:
    """Rows that are no wider than the terminal (80 columns where there is none): columns of text are wrapped."""
    widths = _fitted(heads, lines, right, shutil.get_terminal_size().columns)
    rule = ["-" * width for width in widths]

    def row(cells: list[str]) -> Iterator[str]:
        split = [_wrapped(c, w) for c, w in zip(cells, widths, strict=True)]
        for parts in zip_longest(*split, fillvalue=""):
            padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(parts, widths, right, strict=True))
            yield "  ".join(padded).rstrip()

    return ([title] if title else []) + [text for cells in (heads, rule, *lines) for text in row(cells)]


def _fitted(heads: list[str], lines: list[list[str]], right: list[bool], room: int) -> list[int]:
    """Widths of columns: of their contents, or less, taken from the widest texts until all fit ``room``."""
    columns = list(zip(heads, *lines, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    # a number is never split; a text may be, but its words only where nothing else helps
    words = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    firm = [
        [w if r else min(word, w), w if r else min(_LEAST, w)] for w, word, r in zip(widths, words, right, strict=True)
    ]
    for least in zip(*firm, strict=True):
        while sum(widths) + 2 * (len(widths) - 1) > room:
            slack = [w - m for w, m in zip(widths, least, strict=True)]
            if max(slack, default=0) <= 0:
                break
            widest = max((w, i) for i, w in enumerate(widths) if slack[i] > 0)[1]
            widths[widest] -= 1
    return widths


def _wrapped(cell: str, width: int) -> list[str]:
    if len(cell) <= width and "\n" not in cell:
        return [cell]
    return [part for line in cell.split("\n") for part in textwrap.wrap(line, max(width, 1)) or [""]]


def _markdown(heads: list[str], lines: list[list[str]], title: str) -> list[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(map(markdown, cells)) + " |"

    whole = (heads, ["---"] * len(heads), *lines)
    return ([f"**{markdown(title)}**", ""] if title else []) + [line(cells) for cells in whole]
