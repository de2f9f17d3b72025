"""Print parts on a terminal. A module of its own so that rendering HTML does not import rich."""

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairlane.report.parts import Part


def show(console: Console, parts: Iterable[Part], width: int = 80) -> None:
    """Print the parts; plain text if there is no terminal behind ``console``."""
    for n, p in enumerate(parts):
        if n:
            console.print()
        _print(console, Text(p.title, style="bold"), width)
        for line in p.sentences:
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=1)
            grid.add_column(overflow="fold")
            grid.add_row("•", Text(line))
            _print(console, grid, width)
        if p.columns:
            _print(console, _table(p), width)
        for note in p.notes:
            _print(console, Text(note, style="dim"), width)


def _print(console: Console, what: Text | Table, width: int) -> None:
    console.print(what, width=width, highlight=False, markup=False, emoji=False)


def _table(p: Part) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for n, column in enumerate(p.columns):
        table.add_column(Text(column), justify="right" if n in p.numbers else "left", overflow="fold")
    for row in p.rows:
        table.add_row(*(Text(value) for value in row))
    return table
