"""JSON: one document with everything; for jq and scripts.

Keys and rows have a fixed order; there is no NaN.
"""

from typing import Any

import orjson

from fairlane.export.base import VERSION, Column, Content, Format, plain

_TYPES = {"text": "string", "prose": "string", "integer": "integer", "real": "number", "boolean": "boolean",
          "instant": "string", "texts": "array", "tree": "object"}  # fmt: skip


class Json(Format):
    stream = "fairlane.json"

    def files(self, content: Content) -> dict[str, bytes]:
        document: dict[str, Any] = {
            "format": "fairlane-export",
            "version": VERSION,
            "provenance": {name: plain(value) for name, value in content.provenance.items()},
            "columns": {table.name: [_described(column) for column in table.columns] for table in content.tables},
        }
        for table in content.tables:
            rows = ({name: plain(value) for name, value in row.items()} for row in table.records())
            document[table.name] = list(rows)
        return {self.stream: orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)}


def _described(column: Column) -> dict[str, str]:
    """A column's name, type (JSON Schema; null is allowed too), format and unit."""
    described = {"name": column.name, "type": _TYPES[column.kind]}
    if column.kind == "instant":
        described["format"] = "date-time"
    return {**described, **({"unit": column.unit} if column.unit else {})}


PLUGIN = Json()
