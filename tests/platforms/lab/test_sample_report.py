"""The documentation's sample report is one of a run in the lab."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab
ROOT = Path(__file__).parents[3]


def carry_out(*command: str | Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def is_linked(site: Path) -> None:
    for name in ("index.html", "sample-report.html"):
        links = re.findall(r'href="(sample/[^"]+)"', (site / name).read_text(encoding="utf-8"))
        assert links == ["sample/report.html"], name
    report = (site / "sample/report.html").read_text(encoding="utf-8")
    assert "lab, virtual clock" in report
    assert "modelled: ratios hold" in report
    assert "invented" not in report
    assert not re.search(r'(?:href|src)="(?!#|data:)', report), "what it links to is not in the site"


@pytest.mark.slow
def test_the_site_has_the_report_of_a_run_in_the_lab(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "run")
    given = {"SAMPLE": str(tmp_path / "run"), "NO_MKDOCS_2_WARNING": "1"}
    carry_out(sys.executable, "docs/_make/sample.py", **given)
    carry_out(sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site", **given)
    is_linked(tmp_path / "site")


@pytest.mark.slow
def test_make_docs_runs_the_demo_for_it() -> None:
    carry_out("make", "docs")
    is_linked(ROOT / "site")
