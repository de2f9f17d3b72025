"""RUN may be left out where a command only reads, a missing one lists those that exist; ``report --open``."""

import json
import os
import shutil
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.words import kinds

STUDY = """\
name: small
platform: {kind: fake, effects: {b: {speed: 1.3}}, noise: {sd: 1%}}
lanes: {a: {transport: iscsi}, b: {transport: nvme_tcp}}
baseline: a
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 4, 16], runtime: 1s}}
design: {looks: [4]}
"""
READING = [
    ["report"],
    ["verdicts"],
    ["check"],
    ["watch", "--once"],
    ["figure"],
    ["figure", "lanes-1", "-o", "lanes.svg"],
    ["curves"],
    ["export", "--to", "json"],
    ["pilot"],
]

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs of one study in ``runs``; ``middle`` was created last."""
    place = tmp_path_factory.mktemp("made")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--out", str(place / "runs" / "first"), "--jobs", "1"]) == Exit.OK
    for name, created in (("middle", "2099-01-01T00:00:00+00:00"), ("second", "2098-01-01T00:00:00+00:00")):
        shutil.copytree(place / "runs/first", place / "runs" / name)
        file = place / "runs" / name / "run.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"created": created}))
    return place


@pytest.fixture(autouse=True)
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "here"
    shutil.copytree(made, place)
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_command_that_reads_takes_the_newest_run_and_names_it(args: list[str], capsys: Captured) -> None:
    assert run(args) in (Exit.OK, Exit.NOT_DECIDED)
    assert "run: runs/middle (the newest)" in capsys.readouterr().err.splitlines()


def test_the_newest_is_the_one_that_is_read(capsys: Captured) -> None:
    assert run(["report"]) == Exit.OK
    assert capsys.readouterr().out.splitlines() == ["runs/middle/report.html", "runs/middle/report.md"]


def test_a_named_run_is_not_announced(capsys: Captured) -> None:
    assert run(["verdicts", "runs/first"]) == Exit.OK
    assert "newest" not in capsys.readouterr().err


def test_damaged_runs_and_other_folders_are_passed_over(capsys: Captured) -> None:
    Path("runs/middle/run.json").write_text("{")
    Path("runs/notes").mkdir()
    assert run(["verdicts"]) == Exit.OK
    assert "run: runs/second (the newest)" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["gate", "--rule", "b ties a"], ["run", "--resume"]], ids=" ".join)
def test_what_judges_or_changes_a_run_must_name_it(args: list[str], capsys: Captured) -> None:
    assert run(args) == Exit.USAGE
    assert "Missing argument" in capsys.readouterr().err


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_without_any_run_there_is_one_error(args: list[str], capsys: Captured) -> None:
    shutil.rmtree("runs")
    assert run(args) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["run-none"]
    assert "fairlane run demo" in err.partition("Hint: ")[2]


@pytest.mark.parametrize(
    "args",
    [
        ["report", "runs/seconds"],
        ["verdicts", "runs/seconds"],
        ["check", "runs/first", "runs/seconds"],
        ["watch", "runs/seconds"],
        ["figure", "runs/seconds", "lanes-1"],
        ["export", "runs/seconds", "--to", "csv"],
        ["compare", "runs/first", "runs/seconds"],
        ["gate", "runs/seconds", "--rule", "b ties a"],
        ["run", "runs/seconds", "--resume"],
    ],
    ids=" ".join,
)
def test_a_missing_run_lists_those_that_exist_the_similar_one_first(args: list[str], capsys: Captured) -> None:
    assert run(args) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["not-a-run"]
    assert "runs/seconds" in err.partition("Hint: ")[0]
    assert err.partition("Hint: ")[2].strip() == "runs: runs/second, runs/middle, runs/first"


def test_a_folder_of_runs_lists_its_own(capsys: Captured) -> None:
    Path("runs").rename("elsewhere")
    assert run(["report", "elsewhere"]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["not-a-run"]
    assert "elsewhere/first, elsewhere/middle, elsewhere/second" in err


def test_at_most_five_runs_are_listed(capsys: Captured) -> None:
    for n in range(4):
        shutil.copytree("runs/first", f"runs/more-{n}")
    assert run(["report", "runs/none"]) == Exit.USER_ERROR
    hint = capsys.readouterr().err.partition("Hint: ")[2]
    assert hint.count("runs/") == 5
    assert hint.strip().endswith("and 2 more")


def test_a_figure_of_the_newest_run_by_its_name_alone(capsys: Captured) -> None:
    assert run(["figure", "lanes-1", "--format", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == [{"name": "lanes-1", "path": "lanes-1.svg"}]
    assert Path("lanes-1.svg").is_file()
    assert run(["figure", "nope"]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["figure-unknown"]


def test_open_shows_the_page_in_the_browser(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = here / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {here}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)  # read BROWSER again
    assert run(["report", "--open"]) == Exit.OK
    assert (here / "opened").read_text().strip() == (here / "runs/middle/report.html").as_uri()


def test_open_without_a_browser_is_one_error(capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("webbrowser._tryorder", [])
    assert run(["report", "--open"]) == Exit.USER_ERROR
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "runs/middle/report.html"  # written all the same
    assert kinds(err) == ["browser-none"]
    assert os.access("runs/middle/report.html", os.R_OK)
