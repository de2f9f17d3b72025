"""Columns of the tables, read from the record classes: a field is a column, its annotation the type and the unit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from fairlane.metrics import METRICS

Kind = Literal["text", "prose", "integer", "real", "boolean", "instant", "texts", "tree"]
"""``text``: a name; ``prose``: a sentence; ``instant``: datetime in UTC; ``texts``: tuple of str; ``tree``: nested
mappings and lists as in JSON. Any value may be None."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind = "text"
    unit: str = ""
    """Unit of numbers: ``ns``, ``B/s``; empty for counts and ratios."""


@dataclass(frozen=True)
class Unit:
    """In an annotation: the unit of a number."""

    name: str


@dataclass(frozen=True)
class Sentence:
    """In an annotation: the text is prose, not a name."""


Prose = Annotated[str, Sentence()]

_KINDS: dict[Any, Kind] = {
    str: "text",
    int: "integer",
    float: "real",
    bool: "boolean",
    datetime: "instant",
    tuple: "texts",
    Mapping: "tree",
}


def columns_of(record: type) -> tuple[Column, ...]:
    """The columns of a dataclass, in the order of its fields. KeyError: a field has a type that no column can hold."""
    return _read(record)


@cache
def _read(record: Any) -> tuple[Column, ...]:
    hints = get_type_hints(record, include_extras=True)
    return tuple(_column(field.name, hints[field.name]) for field in fields(record))


def _column(name: str, hint: Any) -> Column:
    marks: list[Any] = []
    while get_origin(hint) in (Annotated, Union, UnionType, Literal):
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            marks += more
        elif get_origin(hint) is Literal:
            hint = type(get_args(hint)[0])
        else:
            (hint,) = (part for part in get_args(hint) if part is not NoneType)
    kind = _KINDS[get_origin(hint) or hint]
    unit = next((mark.name for mark in marks if isinstance(mark, Unit)), "")
    return Column(name, "prose" if any(isinstance(mark, Sentence) for mark in marks) else kind, unit)


def metric_column(name: str) -> Column:
    """A metric's column in the table of trials, with the unit in its name: ``lat_p99_ns``, ``bw_bytes_per_s``."""
    unit = METRICS[name].unit
    words = re.findall(r"\w+", re.sub(r"^1/|/", " per ", unit).replace("B", "bytes").lower())
    return Column("_".join((name, *words)), "real", unit)
