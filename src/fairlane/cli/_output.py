"""Output of commands: the option ``--format``, rows printed in each format, and notices on stderr.

Only the result goes to stdout; progress and notices go to stderr (``notify``). On a terminal a table fits its width; in
a pipe a row is one line, whatever its width.
"""

import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from fairlane import registry
from fairlane.report.text import clean, markdown

if TYPE_CHECKING:
    from rich.console import Console

Format = Literal["table", "json", "md", "tsv"]

F = TypeVar("F", bound=Callable[..., Any])


def format_option(function: F) -> F:
    """Adds ``--format table|json|md``; the function gets it as ``output``."""
    return _option("table", "json", "md")(function)


def rows_option(function: F) -> F:
    """The same with ``tsv``, for commands whose result is one table."""
    return _option("table", "json", "md", "tsv")(function)


def _option(*formats: str) -> Callable[[F], F]:
    return click.option(
        "--format", "output", type=click.Choice(formats), default="table", show_default=True, help="Output format."
    )


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


def width() -> int | None:
    """Columns of the terminal; None: stdout is a pipe or a file, where no line is wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


_ENDLESS = 100_000
"""Columns for rich where nothing is to be wrapped."""


def print_rich(render: Callable[["Console", int], None], most: int = 100) -> None:
    """Print what ``render`` draws on a console of the given width: the terminal's, at most ``most``. In a pipe no line
    is wrapped, and none ends in blanks."""
    from rich.console import Console

    columns = width()
    if columns is not None:
        render(Console(), min(columns, most))
        return
    page = io.StringIO()
    render(Console(file=page, width=_ENDLESS, force_terminal=False), _ENDLESS)
    click.echo("\n".join(line.rstrip() for line in page.getvalue().splitlines()))


def print_json(value: Any) -> None:
    """Indented JSON to stdout, keys in their own order; NaN is refused, because JSON has none."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    output: Format,
    *,
    columns: Sequence[str] | None = None,
    title: str = "",
    right: Collection[str] = (),
    style: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> None:
    """Print ``rows`` in the format ``output``.

    ``columns`` chooses and orders the columns of table, md and tsv (default: the first row's keys); json has the whole
    rows. tsv has a line of heads and no title. ``right``: columns of text that hold figures; numbers are aligned to the
    right anyway. ``style``: of a row's last cell on a terminal, as for ``click.style``.
    """
    if output == "json":
        print_json([dict(row) for row in rows])
        return
    heads = list(columns or (rows[0] if rows else ()))
    lines = [[text(row.get(head)) for head in heads] for row in rows]
    if output == "md":
        click.echo("\n".join(_markdown(heads, lines, title)))
    elif output == "tsv":
        click.echo("\n".join(map(_tsv, (heads, *lines))))
    else:
        room = width()
        styles = [style(row) for row in rows] if style and room and not os.environ.get("NO_COLOR") else []
        figures = [head in right or _numeric(rows, head) for head in heads]
        click.echo("\n".join(_table(heads, lines, title, figures, room=room, styles=styles)))


def _tsv(cells: list[str]) -> str:
    """A line of cells without tabs and line feeds, which no spreadsheet executes."""
    from fairlane.export.csv import guard

    return "\t".join(guard(" ".join(cell.split())) for cell in cells)


def _numeric(rows: Sequence[Mapping[str, Any]], head: str) -> bool:
    values = [row[head] for row in rows if row.get(head) is not None]
    return bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


_LEAST = 6
"""Least width of a column of text that is narrowed to fit a line."""


def _table(
    heads: list[str],
    lines: list[list[str]],
    title: str,
    right: list[bool],
    *,
    room: int | None,
    styles: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """Rows that are no wider than ``room``: columns of text are wrapped. None: every row is one line."""
    if room is None:
        lines = [[" ".join(cell.split("\n")) for cell in line] for line in lines]
    widths = _fitted(heads, lines, right, room if room is not None else _ENDLESS)
    rule = ["-" * width for width in widths]

    def row(cells: list[str], style: Mapping[str, Any]) -> Iterator[str]:
        split = [_wrapped(c, w) for c, w in zip(cells, widths, strict=True)]
        for parts in zip_longest(*split, fillvalue=""):
            padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(parts, widths, right, strict=True)]
            *first, last = padded or [""]
            last = last.rstrip()
            yield "  ".join([*first, click.style(last, **style) if style and last else last]).rstrip()

    every = zip((heads, rule, *lines), ({}, {}, *(styles or [{}] * len(lines))), strict=True)
    return ([title] if title else []) + [text for cells, style in every for text in row(cells, style)]


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
