"""Rows of docs/checks.md that explain a check tell all that it may say of a run; none is for what is no check."""

import re
from pathlib import Path

import pytest

from fairlane import registry

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"
ROWS = {
    name: cells
    for name, *cells in re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
}


def test_every_row_has_a_check() -> None:
    assert set(ROWS) <= set(registry.names("checks"))
    assert len(ROWS) > 30


@pytest.mark.parametrize("name", ROWS)
def test_the_row_has_every_severity_that_the_check_can_give(name: str) -> None:
    source = Path(registry.load("checks", name).__class__.__module__.replace(".", "/") + ".py")
    code = (PAGE.parents[1] / "src" / source).read_text("utf-8")
    severity = ROWS[name][-1]
    for word in ("critical", "warning", "info"):
        if f'"{word}"' in code and "refuses=True" not in code:
            assert word in severity, f"{name} can be {word}"
    if "refuses=True" in code:
        assert "refused" in severity
