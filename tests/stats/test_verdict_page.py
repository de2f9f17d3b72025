"""docs/verdict.md says what the code does."""

import re
from pathlib import Path
from typing import get_args

from fairlane.records import Word
from fairlane.stats.looks import nominal_levels
from fairlane.study.base import Design

PAGE = (Path(__file__).parents[2] / "docs" / "verdict.md").read_text(encoding="utf-8")


def row(name):
    (line,) = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")]


def test_levels_of_the_default_plan():
    design = Design()
    assert [int(n) for n in row("blocks")] == list(design.looks)
    for told, level in zip(row("nominal level"), nominal_levels(design.looks, design.alpha), strict=True):
        assert told == f"{level:.{len(told) - 2}f}"


def test_every_word_is_explained():
    for word in get_args(Word):
        assert row(f"`{word}`")
