"""The contract of export formats: a run's tables, and the class that writes them. A file per format; its name is the
format's.

All formats share the tables: a column has the same name, meaning and unit in each. Text from outside is cleaned as in
the report: invisible and direction-changing characters are escaped.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from fairlane.export._columns import Column, Kind
from fairlane.export._records import COMMON, Row, own_columns
from fairlane.export._values import harmless
from fairlane.runs.files import write_atomic
from fairlane.stats.histogram import Bins

__all__ = ["COMMON", "PROVENANCE", "VERSION", "Column", "Content", "Format", "Kind", "Table", "iso", "plain", "write"]

VERSION = 1
"""Version of tables and columns: incremented when a column is renamed, removed or changes meaning, not for a new
one."""


@dataclass(frozen=True)
class Table:
    """Rows of typed values, without NaN or infinity."""

    name: str
    record: type[Row]
    """The class of a row with its provenance: it defines the columns."""
    columns: tuple[Column, ...]
    """Those of ``rows``: the record's own, or all of them."""
    rows: Sequence[tuple[Any, ...]]
    key: tuple[str, ...]
    """Columns that identify a row within the run, also after the run has grown."""

    @classmethod
    def of(cls, name: str, record: type[Row], key: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> "Table":
        """From ``rows`` (column -> value), whose other keys are left out; a missing one is None."""
        columns = own_columns(record)
        return cls(name, record, columns, [tuple(_fitting(c, row.get(c.name)) for c in columns) for row in rows], key)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def records(self) -> Iterator[dict[str, Any]]:
        """Each row as column -> value."""
        return (dict(zip(self.names, row, strict=True)) for row in self.rows)

    def beside(self, common: Mapping[str, Any], columns: Sequence[Column]) -> "Table":
        """This table with ``columns``, constant in every row, before its own."""
        ahead = tuple(common[column.name] for column in columns)
        rows = [(*ahead, *row) for row in self.rows]
        return Table(self.name, self.record, (*columns, *self.columns), rows, self.key)


def _fitting(column: Column, value: Any) -> Any:
    return harmless(float(value) if column.kind == "real" and value is not None else value)


@dataclass(frozen=True)
class Content:
    """A run as tables, for every format."""

    provenance: Mapping[str, Any]
    """Provenance by name; the columns are ``PROVENANCE``."""
    tables: tuple[Table, ...]
    """Tables verdicts, findings, trials, percentiles, lanes, parameters."""
    histograms: Mapping[tuple[str, str], Bins] = field(default_factory=dict)
    """(cell key, lane) -> latencies of all I/Os of its successful trials; lanes without any are absent."""

    def table(self, name: str) -> Table:
        """The table ``name``. Raises KeyError."""
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
    """The file for stdout; empty: none makes sense alone."""

    @abstractmethod
    def files(self, content: Content) -> dict[str, bytes]:
        """File name -> content; deterministic. Raises FairlaneError."""


def write(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write ``files`` atomically into ``folder``, creating it; returns their paths. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return tuple(folder / name for name in files)


def iso(instant: Any) -> str:
    """``2026-11-22T07:44:35.341Z``: milliseconds, like the journal."""
    return str(instant.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


def plain(value: Any) -> Any:
    """``value`` of a table for JSON: times as text, tuples as lists."""
    if hasattr(value, "isoformat"):
        return iso(value)
    return list(value) if isinstance(value, tuple) else value
