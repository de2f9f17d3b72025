"""What an export is made of, and what a format does with it. One file per format; its name is the format's name.

A run becomes typed tables, once and for all formats: a column has the same name, meaning and unit in each of them.
Text that came from outside is as in the report: invisible and direction-changing characters are written out.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from fairlane.runs.files import write_atomic
from fairlane.stats.histogram import Bins

VERSION = 1
"""Of tables and columns; raised when one is renamed, removed or changes its meaning. New ones do not raise it."""

Kind = Literal["text", "prose", "integer", "real", "boolean", "instant", "texts", "tree"]
"""``text``: a name, to be looked up; ``prose``: a sentence; ``instant``: datetime in UTC; ``texts``: a tuple of str;
``tree``: nested mappings and lists of JSON. Every value may be None: there is none."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind = "text"
    unit: str = ""
    """Of numbers: ``ns``, ``B/s``; empty for counts and ratios."""


@dataclass(frozen=True)
class Table:
    """Rows of typed values; none of them is a NaN or infinite."""

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[tuple[Any, ...]]
    key: tuple[str, ...]
    """Columns that tell a row from all others of the run, now and when the run has grown."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def records(self) -> Iterator[dict[str, Any]]:
        """Each row as column -> value."""
        return (dict(zip(self.names, row, strict=True)) for row in self.rows)

    def beside(self, common: Mapping[str, Any], columns: Sequence[Column]) -> "Table":
        """This table with ``columns``, the same in every row, before its own."""
        ahead = tuple(common[column.name] for column in columns)
        return Table(self.name, (*columns, *self.columns), [(*ahead, *row) for row in self.rows], self.key)


COMMON = (Column("run"), Column("uuid"), Column("figures"), Column("complete", "boolean"))
"""Columns of the provenance that stand in every row of a file of rows: rows of several runs can be put together, and
none leaves what makes its figures less than measured ones behind."""


@dataclass(frozen=True)
class Content:
    """A run, ready to be written in any format."""

    provenance: Mapping[str, Any]
    """What the figures are of, by name; the columns are ``PROVENANCE``."""
    tables: tuple[Table, ...]
    """verdicts, findings, trials, percentiles, lanes, parameters."""
    histograms: Mapping[tuple[str, str], Bins] = field(default_factory=dict)
    """(key of the cell, lane) -> latencies of all I/Os of its successful trials; of lanes that have any."""

    def table(self, name: str) -> Table:
        """The table ``name``. KeyError."""
        return {table.name: table for table in self.tables}[name]

    def whole(self) -> tuple[Table, ...]:
        """All tables, with ``COMMON`` before each row."""
        return tuple(table.beside(self.provenance, COMMON) for table in self.tables)


PROVENANCE = (
    *COMMON,
    Column("study"),
    Column("question", "prose"),
    Column("baseline"),
    Column("platform"),
    Column("seed", "integer"),
    Column("study_sha256"),
    Column("modelled", "boolean"),
    Column("emulated", "boolean"),
    Column("invented", "boolean"),
    Column("quick", "boolean"),
    Column("trials", "integer"),
    Column("planned", "integer"),
    Column("failed_trials", "integer"),
    Column("alpha", "real"),
    Column("paired", "boolean"),
    Column("created", "instant"),
    Column("ended", "instant"),
    Column("fairlane"),
    Column("fairlane_of_run"),
    Column("export_version", "integer"),
    Column("caveats", "texts"),
    Column("accepted", "tree"),
    Column("fingerprint", "tree"),
)


class Format(ABC):
    """Files of a run's tables for other programs.

    ``PLUGIN`` of each file in this package is one instance; it is stateless."""

    stream: ClassVar[str] = ""
    """The one file that makes sense by itself, on stdout; empty: there is none."""

    @abstractmethod
    def files(self, content: Content) -> dict[str, bytes]:
        """Name of each file -> what is in it; the same bytes for the same content. Raises FairlaneError."""


def write(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write ``files`` into ``folder``, made if missing, each whole or not at all; returns their paths. OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return tuple(folder / name for name in files)


def iso(instant: Any) -> str:
    """``2026-11-22T07:44:35.341Z``: to the millisecond, as the journal keeps it."""
    return str(instant.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


def plain(value: Any) -> Any:
    """``value`` of a table as JSON has it: instants as text, tuples as lists."""
    if hasattr(value, "isoformat"):
        return iso(value)
    return list(value) if isinstance(value, tuple) else value
