"""Run directories that somebody has edited, cut or lost parts of: one clear error, or an evidence that says so."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.errors import FairlaneError
from fairlane.records import Evidence
from fairlane.report import html, markdown, model
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge

NewRun = Callable[..., Any]
"""Makes a run directory: conftest.py."""


def told(evidence: Evidence) -> str:
    """Everything right of the run directory."""
    findings = run_all(evidence)
    report = model.build(evidence, judge(evidence, findings), findings)
    return html.render(report) + markdown.render(report)


@pytest.mark.parametrize(
    "content", [{"lanes": []}, {"lanes": {"iscsi": ["x"]}}, {"lanes": {}, "platform": "x"}, {"lanes": None}, [], "x"]
)
def test_a_description_of_another_shape_is_named(new_run: NewRun, content: Any) -> None:
    made = new_run()
    made.go()
    (made.folder / "description.json").write_text(json.dumps(content))
    with pytest.raises(FairlaneError, match=r"description\.json"):
        load_run(made.folder)


def test_what_was_never_written_is_not_missed(new_run: NewRun) -> None:
    made = new_run()
    made.go()
    for name in ("description.json", "fingerprint.json"):
        (made.folder / name).unlink()
    assert "faster" in told(load_run(made.folder))


def _damage(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    lines = content.splitlines(keepends=True) or [b""]
    at = rng.randrange(len(content) + 1)
    match rng.randrange(6):
        case 0:
            path.unlink()
        case 1:
            path.write_bytes(content[:at])
        case 2:
            path.write_bytes(content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :])
        case 3:
            path.write_bytes(b"{}\n")
        case 4:
            path.write_bytes(b"".join(rng.sample(lines, len(lines))))
        case _:
            lost = rng.randrange(len(lines))
            path.write_bytes(b"".join(lines[:lost] + lines[lost + 1 :]))


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 60), marks=pytest.mark.slow)], ids=["few", "many"])
def test_any_damage_is_an_error_with_a_place_or_a_report(new_run: NewRun, tmp_path: Path, seeds: range) -> None:
    made = new_run(platform="failures: 30%")
    made.go()
    reports, errors = [], []
    for seed in seeds:
        rng = random.Random(seed)  # noqa: S311
        folder = tmp_path / "damaged"
        shutil.copytree(made.folder, folder)
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        for path in rng.sample(files, 2) if seed % 2 else rng.sample([p for p in files if p.parent == folder], 1):
            _damage(path, rng)
        try:
            reports.append(told(load_run(folder)))
        except FairlaneError as error:
            errors.append(str(error))
        shutil.rmtree(folder)
    assert reports
    assert errors
    assert all("<h2" in report for report in reports)
    assert all(str(tmp_path / "damaged") in error for error in errors)
