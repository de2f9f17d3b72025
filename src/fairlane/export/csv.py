"""CSV: a file per table (RFC 4180), formulas made harmless; for spreadsheets, R, pandas.

A spreadsheet runs a cell that begins with ``= + - @`` (OWASP, "CSV Injection"; CWE-1236). Where such a character begins
a text, after blanks, quotes and apostrophes or none, an apostrophe is put before it all; so too within a text after a
semicolon or a line feed, where a spreadsheet that splits at semicolons would begin a cell. A reader can take exactly
these apostrophes away again. Numbers are no text, and a text that is nothing but a number is left as it is.
"""

import csv
import io
import re
from typing import Any

import orjson

from fairlane.export.base import Content, Format, plain

_FORMULA = r"[\s'\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]"
"""The wide forms too, which spreadsheets in East Asian locales read as the narrow ones."""
_HARMFUL = re.compile(rf"(?:\A|[;\n])(?={_FORMULA})")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def guard(text: str) -> str:
    """``text`` as no spreadsheet runs it."""
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
    """Empty for None; lists and nested values are JSON."""
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
