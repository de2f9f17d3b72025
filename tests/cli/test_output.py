"""Rows in the three forms."""

import json
from typing import Any

import pytest

from fairlane.cli._output import print_rows, text

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


def test_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], "json")
    assert capsys.readouterr().out == "[]\n"
    print_rows([], "table", columns=["lane", "ratio"])
    assert capsys.readouterr().out == "lane  ratio\n----  -----\n"


def test_json_refuses_what_json_has_not() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_rows([{"ratio": float("nan")}], "json")


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), (True, "yes"), (1 / 3, "0.333333"), (("a", 1), "a, 1"), (14525, "14525")]
)
def test_text(value: object, shown: str) -> None:
    assert text(value) == shown
