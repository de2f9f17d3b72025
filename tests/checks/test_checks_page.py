"""docs/checks.md has a row for every check, with what it may say of a run; and no row for what is no check."""

import re
from pathlib import Path

import pytest

from fairlane import registry

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"
ROWS = {
    name: cells
    for name, *cells in re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
}


def test_every_check_has_a_row_and_every_row_a_check() -> None:
    assert sorted(ROWS) == sorted(registry.names("checks"))


@pytest.mark.parametrize("name", registry.names("checks"))
def test_the_row_has_every_severity_that_the_check_can_give(name: str) -> None:
    source = Path(registry.load("checks", name).__class__.__module__.replace(".", "/") + ".py")
    code = (PAGE.parents[1] / "src" / source).read_text("utf-8")
    severity = ROWS[name][-1]
    for word in ("critical", "warning", "info"):
        if f'"{word}"' in code and "refuses=True" not in code:
            assert word in severity, f"{name} can be {word}"
    if "refuses=True" in code:
        assert "refused" in severity
