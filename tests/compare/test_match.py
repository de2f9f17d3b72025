"""Cells find their partner by load and by name, and only where there is one choice."""

from typing import Any

import pytest

from fairlane.compare.match import match
from fairlane.records import Cell


def cell(name: str, workload: str = "main", **params: Any) -> Cell:
    return Cell(workload, "imported", name, params)


SMALL: dict[str, Any] = {"rw": "randread", "bs": 4096}


@pytest.mark.parametrize(
    ("ours", "theirs", "pairs"),
    [
        ([cell("a", **SMALL)], [cell("b", **SMALL)], 1),
        ([cell("a", **SMALL, iodepth=1)], [cell("b", **SMALL, iodepth=2)], 0),
        ([cell("a", **SMALL, iodepth=1)], [cell("b", **SMALL)], 1),  # not told: the guard says so
        ([cell("a", bs=4096)], [cell("b", bs=4096)], 0),  # too little is known
        ([cell("4K  Random")], [cell("4k random", "other")], 1),
        ([cell("a", **SMALL, iodepth=1)], [cell("a", **SMALL, iodepth=2)], 1),  # one name, two loads: the guard refuses
        ([cell("a", **SMALL)], [cell("b", **SMALL), cell("c", **SMALL)], 0),  # either could be meant
        ([cell("a", **SMALL)], [cell("b", **SMALL), cell("a", **SMALL)], 1),
        ([cell("a", "x", **SMALL), cell("a", "y", **SMALL)], [cell("a", "y", **SMALL), cell("a", "x", **SMALL)], 2),
        ([], [cell("a")], 0),
    ],
)
def test_partners(ours: list[Cell], theirs: list[Cell], pairs: int) -> None:
    found = match(ours, theirs)
    assert len(found) == pairs
    assert len(set(found.values())) == pairs
    for first, second in found.items():
        if first.endswith(".a") and second.startswith(("x.", "y.")):
            assert first == second
    assert {b: a for a, b in found.items()} == match(theirs, ours)


def test_a_name_wins_over_the_load_where_both_fit() -> None:
    found = match([cell("a", **SMALL)], [cell("b", **SMALL), cell("a", **SMALL)])
    assert found == {"main.a": "main.a"}
