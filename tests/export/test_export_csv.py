"""CSV: read back by the csv module, and by the eyes of a spreadsheet."""

import csv
import io
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.export.base import iso
from fairlane.export.csv import _FORMULA, guard
from tests.export.known_run import LABELS

_GUARDED = re.compile(rf"(\A|[;\n])'(?={_FORMULA})")


def unguard(text: str) -> str:
    """The text that ``guard`` was given."""
    return _GUARDED.sub(r"\1", text)


def read(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True))


def value(kind: str, cell: str) -> object:
    """What the documentation says a cell means."""
    if cell == "":
        return None
    text = unguard(cell)
    readers: dict[str, Callable[[str], object]] = {
        "integer": int,
        "real": float,
        "boolean": {"true": True, "false": False}.__getitem__,
        "tree": json.loads,
    }
    if kind == "texts":
        return tuple(json.loads(text))
    return readers[kind](text) if kind in readers else text


@pytest.mark.slow
def test_every_table_comes_back_as_it_was(hostile):
    files = hostile.files("csv")
    assert set(files) == {f"{table.name}.csv" for table in hostile.content.tables} | {"provenance.csv"}
    for table in hostile.content.whole():
        rows = read(files[f"{table.name}.csv"])
        assert len(rows) == len(table.rows)
        for row, record in zip(rows, table.records(), strict=True):
            for column in table.columns:
                wanted = record[column.name]
                if column.kind == "instant" and wanted is not None:
                    wanted = iso(wanted)
                assert value(column.kind, row[column.name]) == (None if wanted == "" else wanted), column
    about = {row["name"]: row["value"] for row in read(files["provenance.csv"])}
    assert about["figures"] == "invented"
    assert about["modelled"] == about["emulated"] == "false"
    assert unguard(about["run"]) == "=done"


def test_it_is_rfc_4180(hostile):
    for name, data in hostile.files("csv").items():
        assert not data.startswith(b"\xef\xbb\xbf"), name
        text = data.decode()
        outside = re.sub(r'"(?:[^"]|"")*"', "", text)
        assert outside.endswith("\r\n")
        assert outside.count("\n") == outside.count("\r\n"), name
        assert '"' not in outside
        assert len({line.count(",") for line in outside.splitlines()}) == 1


@pytest.mark.slow
def test_no_cell_is_a_formula_also_where_semicolons_split(hostile):
    seen = 0
    for data in hostile.files("csv").values():
        cells = [cell for row in csv.reader(io.StringIO(data.decode(), newline="")) for cell in row]
        for part in (part for cell in cells for part in re.split("[;\n]", cell)):
            bare = part.lstrip(' \t\r\n"')
            if bare[:1] and bare[0] in "=+-@\t\r\uff1d\uff0b\uff0d\uff20":
                assert float(bare) < 0  # a negative number, and nothing else
            seen += bare.startswith("'")
    assert seen > 10


def test_labels_with_formulas(hostile):
    rows = read(hostile.files("csv")["lanes.csv"])
    assert [row["lane_label"] for row in rows][:3] == [
        "'=cmd|' /C calc'!A0",
        LABELS["fast"],
        "' \"@SUM(1)\n'=1+1;'-2",
    ]
    assert {row["lane"]: unguard(row["lane_label"]) for row in rows} == LABELS


@pytest.mark.parametrize("text", ["-5", "+3.25", "-1e-05", "12", "", "iscsi", "a-b", "4k randread qd16", "x, -5 %"])
def test_numbers_and_ordinary_text_are_left_alone(text):
    assert guard(text) == text == unguard(text)


@pytest.mark.parametrize(
    "text", ["=1", "+1+1", "-1+cmd", "@x", "\t=1", "\r-x", ' "=1', "''@a", "-", "- 5", "\uff1dA1", "-5\n", "- a; =b"]
)
def test_formulas_are_guarded(text):
    assert guard(text) == "'" + text.replace("; =", ";' =")
    assert unguard(guard(text)) == text


@given(st.text(alphabet="=+-@'\" ;\n\ta1.e\uff1d"))
def test_whatever_is_guarded_comes_back(text):
    assert unguard(guard(text)) == text
    if guard(text) == text:
        assert unguard(text) == text
