"""Parquet: a file per table, typed columns; for DuckDB, Spark, pandas. Needs ``pip install fairlane[parquet]``.

Every file's metadata holds the provenance.
"""

import importlib
import io
from typing import Any

import orjson

from fairlane.errors import FairlaneError
from fairlane.export.base import Column, Content, Format, Table, plain


class Parquet(Format):
    def files(self, content: Content) -> dict[str, bytes]:
        arrow, parquet = _pyarrow()
        metadata = {f"fairlane.{name}": _text(value) for name, value in content.provenance.items()}
        files = {}
        for table in content.whole():
            out = io.BytesIO()
            parquet.write_table(_table(arrow, table, metadata), out, compression="zstd")
            files[f"{table.name}.parquet"] = out.getvalue()
        return files


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise FairlaneError(
            "package-missing",
            f"Parquet files are written with pyarrow, which is not installed ({error})",
            hint="pip install fairlane[parquet]",
        ) from None


def _table(arrow: Any, table: Table, metadata: dict[str, str]) -> Any:
    fields = [
        arrow.field(c.name, _type(arrow, c), metadata={"unit": c.unit} if c.unit else None) for c in table.columns
    ]
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(fields)
    arrays = [
        arrow.array([_text(v) if c.kind == "tree" and v is not None else v for v in values], type=field.type)
        for c, field, values in zip(table.columns, fields, columns, strict=True)
    ]
    return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields, metadata=metadata))


def _type(arrow: Any, column: Column) -> Any:
    """The Arrow type of a column; nested values are JSON text."""
    match column.kind:
        case "integer":
            return arrow.int64()
        case "real":
            return arrow.float64()
        case "boolean":
            return arrow.bool_()
        case "instant":
            return arrow.timestamp("ms", tz="UTC")
        case "texts":
            return arrow.list_(arrow.string())
        case _:
            return arrow.string()


def _text(value: Any) -> str:
    """Text unchanged, other values as JSON."""
    shown = plain(value)
    return shown if isinstance(shown, str) else orjson.dumps(shown).decode()


PLUGIN = Parquet()
