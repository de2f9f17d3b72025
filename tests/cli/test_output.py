"""Rows in the three forms."""

import json
from typing import Any

import pytest
from rich.table import Table

from fairlane.cli import _output
from fairlane.cli._output import print_rich, print_rows, text

ROWS: list[dict[str, Any]] = [
    {"lane": "iscsi", "ratio": 1.25, "blocks": 6, "ok": True, "notes": []},
    {"lane": "a|b", "ratio": None, "blocks": 12, "ok": False, "notes": ["x", "y"]},
]


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "table", title="Two lanes")
    assert capsys.readouterr().out.splitlines() == [
        "Two lanes",
        "lane   ratio  blocks  ok   notes",
        "-----  -----  ------  ---  -----",
        "iscsi   1.25       6  yes",
        "a|b               12  no   x, y",
    ]


def test_markdown_escapes_bars(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "md", columns=["lane", "ratio"])
    assert capsys.readouterr().out == "| lane | ratio |\n| --- | --- |\n| iscsi | 1.25 |\n| a\\|b |  |\n"


def test_json_has_whole_rows_whatever_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "json", columns=["lane"])
    assert json.loads(capsys.readouterr().out) == ROWS


def test_a_wide_table_is_wrapped_into_80_columns_and_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_output, "width", lambda: 80)
    rows = [
        {
            "cell": "4k randread qd1",
            "told": f"many words that {'do not fit ' * 9}end",
            "iops": 123456789.0,
            "path": "x" * 70,
        },
        {"cell": "b", "told": "two\nlines", "iops": 2.0, "path": ""},
    ]
    print_rows(rows, "table")
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "1.23457e+08" in printed  # a number is never split
    assert "".join(printed.split()).count("x") == 70
    for word in str(rows[0]["told"]).split():
        assert word in printed


def test_a_wide_terminal_is_used(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_output, "width", lambda: 200)
    print_rows([{"a": "x y " * 20, "b": "z " * 30}], "table")
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_in_a_pipe_a_row_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_rows([{"a": "many words " * 30, "b": "two\nlines"}, {"a": "x", "b": ""}], "table")
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 4
    assert out[2].endswith("two lines")
    assert out == [line.rstrip() for line in out]


def test_what_rich_draws_has_no_trailing_blanks_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("cell", "verdict", title="a title")
    table.add_row("a" * 150, "faster")
    table.add_row("b", "")
    print_rich(lambda console, width: console.print(table, width=width))
    out = capsys.readouterr().out.splitlines()
    assert sum("a" * 150 in line for line in out) == 1
    assert out == [line.rstrip() for line in out]


def test_tsv_has_a_line_of_heads_and_plain_cells(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"a": "x\ty\nz", "b": 0.125, "c": None}, {"a": "=1+1", "b": -2, "c": ""}], "tsv", title="not printed")
    assert capsys.readouterr().out == "a\tb\tc\nx y z\t0.125\t\n'=1+1\t-2\t\n"


def test_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], "json")
    assert capsys.readouterr().out == "[]\n"
    print_rows([], "table", columns=["lane", "ratio"])
    assert capsys.readouterr().out == "lane  ratio\n----  -----\n"


def test_json_refuses_what_json_has_not() -> None:
    with pytest.raises(ValueError, match="JSON"):
        print_rows([{"ratio": float("nan")}], "json")


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), (True, "yes"), (1 / 3, "0.333333"), (("a", 1), "a, 1"), (14525, "14525")]
)
def test_text(value: object, shown: str) -> None:
    assert text(value) == shown
