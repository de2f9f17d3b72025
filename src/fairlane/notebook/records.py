"""A sequence of records: a list of dataclasses, a table in a notebook, a data frame of pandas."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from markupsafe import Markup

from fairlane.errors import FairlaneError, nearest
from fairlane.export._columns import Kind, columns_of
from fairlane.report.phrases import count

if TYPE_CHECKING:
    import pandas as pd

R_co = TypeVar("R_co", covariant=True)

_SHOWN = 20
"""Rows that a notebook shows."""
_DTYPES: Mapping[Kind, str] = {
    "integer": "Int64",
    "real": "float64",
    "boolean": "boolean",
    "instant": "datetime64[ms, UTC]",
}
"""Types of a data frame; texts and nested values are objects. ``Int64`` and ``boolean`` have missing values."""


class Records(Sequence[R_co], Generic[R_co]):
    """Frozen dataclasses of one class, in a fixed order: ``pandas.DataFrame(records)`` takes them, and a notebook shows
    them as a table."""

    def __init__(self, record: type[R_co], rows: Iterable[R_co]) -> None:
        self.record = record
        """The class of the records: its fields, their types and docstrings are those of the columns."""
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> R_co: ...
    @overload
    def __getitem__(self, index: slice) -> "Records[R_co]": ...
    def __getitem__(self, index: int | slice) -> "R_co | Records[R_co]":
        return Records(self.record, self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Records):
            return self.record is other.record and self._rows == other._rows
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # records may hold mappings

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the fields, in their order."""
        return tuple(column.name for column in columns_of(self.record))

    @property
    def units(self) -> dict[str, str]:
        """Field -> unit of its numbers (``ns``, ``1/s``); counts, ratios and texts have none and are left out."""
        return {column.name: column.unit for column in columns_of(self.record) if column.unit}

    def where(self, **equal: Any) -> "Records[R_co]":
        """The records whose fields have these values: ``where(metric="iops", primary=True)``.

        Raises FairlaneError for a field that the records do not have.
        """
        for name in equal:
            if name not in self.columns:
                near = nearest(name, self.columns)
                hint = f"did you mean {near}?" if near else f"columns: {', '.join(self.columns)}"
                raise FairlaneError("column-unknown", f"{self.record.__name__} has no column {name!r}", hint=hint)
        matching = (row for row in self._rows if all(getattr(row, name) == value for name, value in equal.items()))
        return Records(self.record, matching)

    def to_pandas(self) -> "pd.DataFrame":
        """A data frame with a column per field: ``Int64``, ``float64``, ``boolean``, ``datetime64[ms, UTC]``; else
        objects. Raises FairlaneError without pandas."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise FairlaneError(
                "package-missing",
                f"data frames are made by pandas, which is not installed ({error})",
                hint="pip install pandas; the records themselves need no package",
            ) from None
        frame: pd.DataFrame = pandas.DataFrame(
            {
                column.name: pandas.Series(
                    [getattr(row, column.name) for row in self._rows], dtype=_DTYPES.get(column.kind, "object")
                )
                for column in columns_of(self.record)
            }
        )
        return frame

    def __repr__(self) -> str:
        return f"<Records of {self.record.__name__}: {count(len(self), 'row')}, {count(len(self.columns), 'column')}>"

    def _repr_html_(self) -> str:
        """A table; columns with one value in all rows stand below it."""
        names = self.columns
        shown = self._rows[:_SHOWN]
        cells = {name: [_text(getattr(row, name)) for row in shown] for name in names}
        alike = {n for n in names if len(shown) > 1 and len({_text(getattr(row, n)) for row in self._rows}) == 1}
        heads = [name for name in names if name not in alike]
        body = Markup("").join(_line("td", [cells[name][i] for name in heads]) for i in range(len(shown)))
        rest = f"; the first {len(shown)} are shown" if len(self) > len(shown) else ""
        below = [f"{count(len(self), 'row')}{rest}."]
        same = "; ".join(f"{name} {cells[name][0]}" for name in names if name in alike and cells[name][0])
        below += [f"The same in all rows: {same}."] if same else []
        table = Markup('<table style="white-space:nowrap"><thead>{}</thead><tbody>{}</tbody></table>')
        page = Markup('<div style="overflow-x:auto">{}</div><p>{}</p>')
        return str(page.format(table.format(_line("th", heads), body), " ".join(below)))


def _line(tag: str, cells: Iterable[str]) -> Markup:
    inside = Markup("").join(Markup("<{0}>{1}</{0}>").format(Markup(tag), cell) for cell in cells)  # noqa: S704 - ours
    return Markup("<tr>{}</tr>").format(inside)


def _text(value: Any) -> str:
    """A value as text: six digits, yes and no, lists with commas, nothing for None."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.6g}"
        case tuple():
            return ", ".join(map(_text, value))
        case _:
            return str(value)
