"""The cells of a table: rows of CSV, TSV and JSON, numbers in common notations, units."""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fairlane.errors import nearest
from fairlane.importers._reading import LARGEST_FIGURE, LARGEST_TREE, shown
from fairlane.importers.base import Source, Unreadable
from fairlane.metrics import METRICS

MISSING = frozenset({"", "-", "–", "—", "n/a", "na", "nan", "null", "none"})  # noqa: RUF001 - a dash is what people write
"""Texts that mean no figure."""

_TIME = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "sec": 1e9, "min": 60e9}
_RATE = {"b/s": 1.0} | {
    f"{letter}{middle}b/s": float(base**power)
    for power, letter in enumerate("kmgt", start=1)
    for middle, base in (("", 1000), ("i", 1024))
}
_RATE |= {name.removesuffix("/s") + "ps": factor for name, factor in _RATE.items()}
_RATE |= {f"{letter}bit/s": 1000.0**power / 8 for power, letter in enumerate(("", "k", "m", "g"))}
_COUNT = {"": 1.0, "1/s": 1.0, "iops": 1.0, "tps": 1.0, "/s": 1.0, "1/min": 1.0, "tpm": 1.0, "nopm": 1.0} | {
    f"{letter}{unit}": 1000.0**power
    for power, letter in enumerate("km", start=1)
    for unit in ("", "iops", " iops", "tps", "tpm", "nopm")
}
_NUMBER = re.compile(r"([+]?[\d.,'’ \u00a0\u202f]*\d[.,]?(?:[eE][-+]?\d{1,3})?)\s*([^\d\s].*)?")  # noqa: RUF001
_GROUPS = re.compile(r"\d{1,3}([.,'’ \u00a0\u202f])\d{3}(?:\1\d{3})*")  # noqa: RUF001 - as spreadsheets write them
_PLAIN = re.compile(r"(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:e[-+]?\d{1,3})?")


@dataclass(frozen=True)
class Row:
    """One row. ``where``: ``file:line`` of a CSV file, ``file: row 7`` of a JSON list."""

    where: str
    cells: Mapping[str, Any]

    def has(self, column: str) -> bool:
        """Whether the column has a value."""
        return self.text(column).lower() not in MISSING

    def text(self, column: str) -> str:
        """The value of the column, without blanks at the ends. ``a.b``: of JSON, the key b in the object a.

        Raises Unreadable for a missing column, or a value other than text, number, true or false.
        """
        value: Any = self.cells
        if column in self.cells:
            value = self.cells[column]
        else:
            for step in column.split("."):
                if not isinstance(value, Mapping) or step not in value:
                    near = nearest(column, map(str, self.cells))
                    hint = f"did you mean {near!r}?" if near else f"columns: {', '.join(shown(c) for c in self.cells)}"
                    raise Unreadable("column-missing", f"no column {shown(column)!r} ({hint})", where=self.where)
                value = value[step]
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int | float):
            raise self.wrong(column, "neither text nor a number")
        return str(value).strip()

    def figure(self, column: str, metric: str, unit: str, decimal: str) -> float:
        """A figure of ``metric``, in the registry's unit. Raises Unreadable with place and column."""
        text = self.text(column)
        match = _NUMBER.fullmatch(text)
        value = _plain(match[1], decimal) if match else None
        if match is None or value is None:
            comma = "" if decimal == "," or "," not in text else " (is that a decimal comma? then say decimal: ',')"
            raise self.wrong(column, f"expected a number, found {shown(text, 40)!r}{comma}")
        factor = factor_of(metric, (match[2] or "").strip() or unit)
        if factor is None:
            raise self.wrong(column, f"unit of {shown(text, 40)!r}: expected one of {', '.join(units_of(metric))}")
        value *= factor
        if not 0 <= value <= LARGEST_FIGURE or not math.isfinite(value):
            raise self.wrong(column, f"{shown(text, 40)} cannot be a figure of {metric}")
        return value

    def started(self, column: str) -> float:
        """Unix time in seconds, of ISO text or of a number of seconds, milliseconds or more since 1970."""
        text = self.text(column)
        try:
            if _PLAIN.fullmatch(text):
                value = float(text)
                while value > 1e11:  # a time before the year 5138: milli-, micro- or nanoseconds otherwise
                    value /= 1000
                return value
            when = datetime.fromisoformat(text)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise self.wrong(
                column, f"expected a time such as 2026-02-27T20:36:55, found {shown(text, 40)!r}"
            ) from None

    def wrong(self, column: str, message: str) -> Unreadable:
        return Unreadable("column-value", f"column {shown(column)!r}: {message}", where=self.where)


def is_number(text: str) -> bool:
    """Whether a cell may hold a figure, with its unit or not."""
    return text.lower() in MISSING or _NUMBER.fullmatch(text) is not None


def units_of(metric: str) -> Sequence[str]:
    """Units that a figure of ``metric`` may be given in."""
    kinds: Mapping[str, Iterable[str]] = {
        "ns": _TIME,
        "B/s": ("B/s", "kB/s", "KiB/s", "MB/s", "MiB/s", "GB/s", "Gbit/s"),
    }
    return list(kinds.get(METRICS[metric].unit, ("none", "k", "M")))


def factor_of(metric: str, unit: str) -> float | None:
    """Factor from ``unit`` to the registry's unit; None for a unit that the metric does not have."""
    known = {"ns": _TIME, "B/s": _RATE}.get(METRICS[metric].unit, _COUNT)
    return known.get(unit.strip().lower())


def _plain(text: str, decimal: str) -> float | None:
    """``7,599.2``, ``1 984``, ``12'000``, ``3e3``; with a decimal comma ``7.599,2``. None: no number, or not sure."""
    mantissa, e, exponent = text.strip().lower().removeprefix("+").partition("e")
    whole, point, rest = mantissa.partition(decimal)
    groups = _GROUPS.fullmatch(whole)
    if whole and not whole.isdecimal() and not (groups and groups[1] != decimal):
        return None
    plain = re.sub(r"\D", "", whole) + (f".{rest}" if point else "") + e + exponent
    return float(plain) if _PLAIN.fullmatch(plain) else None


# --- rows


def rows(source: Source, *, form: str, delimiter: str, header: int, path: str, needed: Sequence[str]) -> Iterator[Row]:
    """The rows of a table. ``form``: csv, tsv, json, jsonl, or empty: recognised by content. Raises Unreadable."""
    text = _text(source)
    start = text.lstrip()[:1]
    form = form or ("json" if start == "[" else "csv" if start != "{" else _json_or_lines(text, path))
    if form == "json":
        yield from _json(source, text, path)
    elif form == "jsonl":
        yield from _json_lines(source, text)
    else:
        yield from _csv(source, text, "\t" if form == "tsv" else delimiter, header, needed)


def _text(source: Source) -> str:
    data = source.read(LARGEST_TREE)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            "not-text", "not UTF-8 text", where=f"{source.name}:{line}", hint="save the table as UTF-8"
        ) from None


def _csv(source: Source, text: str, delimiter: str, header: int, needed: Sequence[str]) -> Iterator[Row]:
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter or _delimiter(text, header, needed), strict=True
    )
    names: list[str] | None = None
    try:
        for cells in reader:
            here = f"{source.name}:{reader.line_num}"
            if names is None:
                if reader.line_num < header:
                    continue
                names = [cell.strip() for cell in cells]
                twice = [name for name in needed if names.count(name) > 1]
                if twice:
                    raise Unreadable("column-twice", f"two columns are called {shown(twice[0])!r}", where=here)
                Row(here, dict.fromkeys(names, ""))  # so that the error for a missing column names the header's line
                for name in needed:
                    Row(here, dict.fromkeys(names, "")).text(name)
            elif any(cell.strip() for cell in cells):
                if len(cells) > len(names) and any(cell.strip() for cell in cells[len(names) :]):
                    raise Unreadable(
                        "columns", f"{len(cells)} cells, but the header has {len(names)} columns", where=here
                    )
                yield Row(here, dict(zip(names, [*cells, *[""] * len(names)], strict=False)))
    except csv.Error as error:
        raise Unreadable("not-a-table", f"not a table: {error}", where=f"{source.name}:{reader.line_num}") from None


def _delimiter(text: str, header: int, needed: Sequence[str]) -> str:
    """The delimiter with which the header has most of the needed columns."""
    line = (text.splitlines()[header - 1 : header] or [""])[0]
    split = {d: [cell.strip().strip('"') for cell in line.split(d)] for d in ",;\t|"}
    return max(split, key=lambda d: (sum(name in split[d] for name in needed), len(split[d])))


def _json_or_lines(text: str, path: str) -> str:
    """``jsonl`` or ``json``, for text that begins with an object: JSON lines, if the first line is complete by
    itself."""
    first = text.strip().partition("\n")[0]
    return "json" if path or not first.rstrip().endswith("}") else "jsonl"


def _json(source: Source, text: str, path: str) -> Iterator[Row]:
    value = _parsed(text, source.name)
    for step in path.split(".") if path else ():
        if not isinstance(value, dict) or step not in value:
            raise Unreadable("key-missing", f"no key {shown(path)!r}", where=source.name)
        value = value[step]
    if not isinstance(value, list):
        raise Unreadable(
            "not-a-list", "expected a list of objects", where=source.name, hint="rows: names the key that holds it"
        )
    for number, cells in enumerate(value, start=1):
        yield Row(f"{source.name}: row {number}", _object(cells, f"{source.name}: row {number}"))


def _json_lines(source: Source, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            here = f"{source.name}:{number}"
            yield Row(here, _object(_parsed(line, here), here))


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise Unreadable("nested", "nested too deeply", where=where) from None
    except ValueError as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) and ":" not in where else ""
        raise Unreadable("cut-off", f"cut off or no JSON: {str(error)[:100]}", where=f"{where}{line}") from None


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("not-an-object", "expected an object", where=where)
    return value
