"""Parts that a command puts before a report: headings, sentences and tables, laid out for Markdown and terminals.

Their strings may come from outside; ``part`` makes them harmless.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairlane.records import Observation
from fairlane.report import text
from fairlane.report.prose import Banner


@dataclass(frozen=True)
class Part:
    """A heading, sentences, a table, footnotes; any of them but the heading may be empty."""

    title: str
    sentences: tuple[str, ...] = ()
    """A list, each an item of its own."""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    numbers: tuple[int, ...] = ()
    """Columns, from 0, whose values are numbers."""
    notes: tuple[str, ...] = ()
    """Below the table."""
    marked: tuple[int, ...] = ()
    """Rows, from 0, that a page highlights; their text says why too."""
    proof: tuple[tuple[str, str], ...] = ()
    """What was seen, behind the values of the table; a page folds it away, a terminal leaves it out."""


@dataclass(frozen=True)
class Around:
    """What a command puts around a report that is not of one run directory."""

    parts: tuple[Part, ...] = ()
    """Before everything else."""
    banners: tuple[Banner, ...] = ()
    """Beside those of the evidence."""
    commands: tuple[str, ...] = ()
    """How to repeat it; empty: as of a run."""
    source: str = ""
    """What the text under "how to repeat it" is; empty: a study."""
    link: Callable[[Observation], str] | None = None
    """A trial's raw outputs, relative to the report; None: as of a run."""


def part(
    title: str,
    *,
    sentences: Iterable[str] = (),
    columns: Sequence[str] = (),
    rows: Iterable[Sequence[str]] = (),
    numbers: Sequence[int] = (),
    notes: Iterable[str] = (),
    marked: Sequence[int] = (),
    proof: Iterable[tuple[str, str]] = (),
) -> Part:
    """A part with every string ``text.clean``."""
    lines = tuple(tuple(row) for row in rows)
    made = Part(
        title, tuple(sentences), tuple(columns), lines, tuple(numbers), tuple(notes), tuple(marked), tuple(proof)
    )
    return text.scrub(made)


def markdown(parts: Iterable[Part]) -> list[str]:
    """Blocks of GitHub-flavoured Markdown, each part under a heading of the second level."""
    blocks: list[str] = []
    for p in parts:
        blocks.append(f"## {text.markdown(p.title)}")
        if p.sentences:
            blocks.append("\n".join(f"- {text.markdown(line)}" for line in p.sentences))
        if p.columns:
            blocks.append(text.markdown_table(p.columns, p.rows, p.numbers))
        blocks += [text.markdown(note) for note in p.notes]
        if p.proof:
            blocks += [f"### {text.markdown(p.title)}: evidence", text.markdown_table(("What", "Evidence"), p.proof)]
    return blocks


def show(console: Console, parts: Iterable[Part], width: int = 80) -> None:
    """Print them; plain text if there is no terminal behind ``console``."""
    for n, p in enumerate(parts):
        if n:
            console.print()
        _say(console, Text(p.title, style="bold"), width)
        for line in p.sentences:
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=1)
            grid.add_column(overflow="fold")
            grid.add_row("•", Text(line))
            _say(console, grid, width)
        if p.columns:
            _say(console, _table(p), width)
        for note in p.notes:
            _say(console, Text(note, style="dim"), width)


def _say(console: Console, what: Text | Table, width: int) -> None:
    console.print(what, width=width, highlight=False, markup=False, emoji=False)


def _table(p: Part) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for n, column in enumerate(p.columns):
        table.add_column(Text(column), justify="right" if n in p.numbers else "left", overflow="fold")
    for row in p.rows:
        table.add_row(*(Text(value) for value in row))
    return table
