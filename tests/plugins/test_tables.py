"""docs/_make/tables.py: pages follow the plugins, and the linters say so where they do not."""

import shutil

import pytest

from fairlane import registry
from tests.plugins.scratched import ROOT, Copy, plugin

TABLES = "docs/_make/tables.py"


@pytest.mark.slow
def test_pages_lag_behind_a_new_plugin_until_the_tables_are_made_again(tmp_path):
    copy = Copy(tmp_path)
    for folder in ("docs", "deploy"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "CONTRIBUTING.md", tmp_path)
    (tmp_path / "deploy/job.yaml").write_text("by hand\n")
    (tmp_path / "docs/pictures/drift.svg").unlink()
    late = copy.python(TABLES, "--check", code=1).stdout.splitlines()
    assert [line.split()[0] for line in late] == ["docs/pictures/drift.svg", "deploy/job.yaml"]
    copy.python(TABLES)
    assert copy.python(TABLES, "--check").stdout == ""
    for kind in registry.KINDS:
        shutil.copy(plugin(kind.package), tmp_path / "src" / "fairlane" / kind.package)
    late = copy.python(TABLES, "--check", code=1).stdout.splitlines()
    assert {"docs/export.md", "docs/study-file.md"} <= {line.split()[0] for line in late}
    assert all(f".venv/bin/python {TABLES}" in line for line in late)
    copy.python(TABLES)
    assert copy.python(TABLES, "--check").stdout == ""
    pages = "".join(page.read_text() for page in sorted((tmp_path / "docs").rglob("*.md")))
    for kind in registry.KINDS:
        assert f"| `{plugin(kind.package).stem}` |" in pages, kind.name


def test_every_kind_has_a_table_in_the_pages_and_a_row_in_contributing():
    pages = "".join(page.read_text() for page in sorted((ROOT / "docs").rglob("*.md")))
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert "<!-- plugins: kinds -->" in contributing
    for kind in registry.KINDS:
        assert f"<!-- plugins: {kind.package} -->" in pages, f"no page has the table of {kind.package}"
