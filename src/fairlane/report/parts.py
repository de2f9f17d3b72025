"""Parts that a command puts before a report (headings, sentences, tables), and their layout in Markdown.

Their strings may come from outside; ``part`` cleans them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fairlane.records import Observation
from fairlane.report import text


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
    """Rows, from 0, that a page highlights; the difference is also in their text."""
    proof: tuple[tuple[str, str], ...] = ()
    """Evidence behind the values of the table (name, text); a page folds it away, a terminal leaves it out."""
    folded: bool = False
    """Whether a page shows the heading alone until a reader opens it."""


@dataclass(frozen=True)
class Around:
    """Parts that a command adds to a report that is not of one run directory."""

    parts: tuple[Part, ...] = ()
    """Parts before everything else."""
    invented: bool = False
    """Whether figures of a run are invented, which joined evidence does not know."""
    commands: tuple[str, ...] = ()
    """Commands that repeat it; empty: those of a run."""
    source: str = ""
    """Sentence above the commands; empty: that of a run."""
    link: Callable[[Observation], str] | None = None
    """Path of a trial's raw outputs, relative to the report; None: as in a run."""


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
    folded: bool = False,
) -> Part:
    """A part with every string ``text.clean``."""
    lines = tuple(tuple(row) for row in rows)
    made = Part(
        title,
        tuple(sentences),
        tuple(columns),
        lines,
        tuple(numbers),
        tuple(notes),
        tuple(marked),
        tuple(proof),
        folded,
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
