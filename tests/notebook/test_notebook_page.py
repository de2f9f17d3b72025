"""The example of docs/notebook.md, run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fairlane
from fairlane import notebook

PAGE = (Path(__file__).parents[2] / "docs/notebook.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_runs_and_prints_what_the_run_says(place, tmp_path):
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "runs").symlink_to(place / "runs")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    run = fairlane.open(place / "runs/monday")
    for text in (*run.answers, *run.caveats, *(f.message for f in run.findings())):
        assert text in done.stdout
    for verdict in run.verdicts().where(primary=True):
        assert f"{verdict.lane} {verdict.cell} {verdict.metric} {verdict.verdict} " in done.stdout
    assert (tmp_path / "slides/forest.svg").read_text() == run.figure("forest").svg()
    assert (tmp_path / "slides/forest.png").read_bytes().startswith(b"\x89PNG")
    for text in run.compare(place / "runs/friday").takeaways:
        assert text in done.stdout


def test_every_name_of_the_reference_exists(place):
    run = fairlane.open(place / "runs/monday")
    of = {
        "run": run,
        "comparison": run.compare(place / "runs/friday"),
        "records": run.verdicts(),
        "trial": run.trials()[0],
        "figure": run.figures()[0],
        "fairlane": fairlane,
    }
    named = re.findall(r"`(\w+)?\.(\w+)", PAGE.partition("## Reference")[2].partition("\n\nRatios")[0])
    assert len(named) > 20
    holder = ""
    for name, attribute in named:
        holder = name or holder
        if holder in of:
            assert hasattr(of[holder], attribute), f"{holder}.{attribute}"


def test_a_public_method_is_in_the_reference():
    reference = PAGE.partition("## Reference")[2]
    for kind in (notebook.Run, notebook.Comparison, notebook.Records, notebook.Picture):
        for name in vars(kind):
            if not name.startswith("_") and name not in {"name", "title", "caption", "question", "baseline", "record"}:
                assert re.search(rf"\.{name}\b", reference), f"{kind.__name__}.{name}"
