"""Parquet: read back by pyarrow, and what is said without it."""

import io
import json
import subprocess
import sys

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from fairlane.export.base import iso
from tests.words import kinds


def test_every_table_comes_back_typed(hostile):
    files = hostile.files("parquet")
    assert set(files) == {f"{table.name}.parquet" for table in hostile.content.tables}
    types = {"integer": pa.int64(), "real": pa.float64(), "boolean": pa.bool_(), "texts": pa.list_(pa.string()),
             "instant": pa.timestamp("ms", tz="UTC")}  # fmt: skip
    for table in hostile.content.whole():
        found = pq.read_table(io.BytesIO(files[f"{table.name}.parquet"]))
        assert found.column_names == list(table.names)
        for column in table.columns:
            field = found.schema.field(column.name)
            assert field.type == types.get(column.kind, pa.string()), column
            assert (field.metadata or {}).get(b"unit", b"") == column.unit.encode()
            wanted = [row[column.name] for row in table.records()]
            seen = found.column(column.name).to_pylist()
            if column.kind == "tree":
                seen = [None if text is None else json.loads(text) for text in seen]
            if column.kind == "texts":
                wanted = [None if texts is None else list(texts) for texts in wanted]
            assert seen == wanted, column


def test_the_provenance_is_in_the_metadata_of_every_file(hostile):
    for data in hostile.files("parquet").values():
        metadata = pq.read_schema(io.BytesIO(data)).metadata
        for name, value in hostile.content.provenance.items():
            text = metadata[f"fairlane.{name}".encode()].decode()
            if isinstance(value, str):
                assert text == value
            elif hasattr(value, "isoformat"):
                assert text == iso(value)
            else:
                assert json.loads(text) == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.slow
def test_without_pyarrow_it_is_said_and_nothing_is_written(hostile, tmp_path):
    (tmp_path / "pyarrow.py").write_text("raise ImportError('No module named pyarrow')\n")
    line = [sys.executable, "-m", "fairlane", "export", str(hostile.folder), "--to", "json", "--to", "parquet"]
    out = tmp_path / "out"
    done = subprocess.run(
        [*line, "--out", str(out)], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert kinds(done.stderr) == ["package-missing"]
    assert "pyarrow" in done.stderr
    assert "fairlane[parquet]" in done.stderr.partition("Hint: ")[2]
    assert not out.exists()
