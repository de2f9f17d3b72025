"""CSV: a file per table (RFC 4180), formulas made harmless; for spreadsheets, R, pandas.

A spreadsheet executes a cell that begins with ``= + - @`` (OWASP, "CSV Injection"; CWE-1236). Text that begins so, also
after blanks, quotes or apostrophes, gets an apostrophe in front; so does text after a semicolon or line feed, where a
spreadsheet may split cells. A reader can strip exactly these apostrophes. Numbers, also as text, stay as they are.
"""

import csv
import io
import re
from typing import Any

import orjson

from fairlane.export.base import Content, Format, plain

_FORMULA = r"[\s'\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]"
"""Includes the full-width forms, which East Asian spreadsheets treat alike."""
_HARMFUL = re.compile(rf"(?:\A|[;\n])(?={_FORMULA})")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def guard(text: str) -> str:
    """``text`` made safe against execution by a spreadsheet."""
    return text if _NUMBER.fullmatch(text) else _HARMFUL.sub(r"\g<0>'", text)


class Csv(Format):
    def files(self, content: Content) -> dict[str, bytes]:
        files = {
            f"{table.name}.csv": _file(table.names, ([_cell(value) for value in row] for row in table.rows))
            for table in content.whole()
        }
        rows = ((name, _cell(value)) for name, value in content.provenance.items())
        return {**files, "provenance.csv": _file(("name", "value"), rows)}


def _cell(value: Any) -> str:
    """A value as CSV text: None is empty; lists and nested values are JSON."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return guard(value)
        case tuple() | list() | dict():
            return guard(orjson.dumps(value).decode())
        case _:
            return str(plain(value))


def _file(heads: Any, rows: Any) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out)  # the dialect "excel" is RFC 4180: commas, CR LF, quotes doubled
    writer.writerow(heads)
    writer.writerows(rows)
    return out.getvalue().encode()


PLUGIN = Csv()
