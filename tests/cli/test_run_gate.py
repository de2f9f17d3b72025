"""``fairlane run --gate``: cells run until their rules are decided, and the exit code says what came of them."""

import json
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.runs import journal
from tests.words import kinds

STUDY = """name: gated
platform: {kind: fake, effects: {new: {speed: 1.08}}, noise: {model: normal, sd: 3%}}
baseline: old
lanes: {old: {transport: local}, new: {transport: local}, other: {transport: local}}
workloads: {main: {kind: fio, rw: [randread, randwrite], iodepth: [1, 4, 16], runtime: 1s}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(STUDY)


def looks(folder: str) -> list[set[str]]:
    return [set(event["open"]) for event in journal.read(Path(folder)) if event["type"] == "look"]


@pytest.mark.slow
def test_cells_run_until_their_rules_are_decided(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.txt").write_text("new <= 5 % under old\nother within 5 % of old on randread\n")
    assert run(["run", "s.yaml", "--gate", "rules.txt", "--out", "r"]) == Exit.OK
    assert json.loads(Path("r/run.json").read_text())["gate"] == Path("rules.txt").read_text().splitlines()
    first, *_, last = looks("r")
    assert first, "a tie of 3 % noise takes more than four blocks"
    assert all("randread" in key for key in first), "one-sided rules are decided sooner"
    assert last == set()
    capsys.readouterr()
    assert run(["gate", "r", "--format", "json"]) == Exit.OK, "by the run's own rules"
    outcomes = json.loads(capsys.readouterr().out)
    assert [row["outcome"] for row in outcomes] == ["met"] * 9


@pytest.mark.slow
def test_a_rule_that_is_not_met(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.txt").write_text("new >= 50 % over old\nno critical finding\n")
    assert run(["run", "s.yaml", "--gate", "rules.txt", "--out", "r"]) == Exit.NOT_DECIDED
    assert "0 of 6" not in capsys.readouterr().err
    assert len(looks("r")) == 1, "+8 % is no 50 % after four blocks"
    assert run(["gate", "r"]) == Exit.NOT_DECIDED


@pytest.mark.slow
def test_a_run_keeps_its_rules(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.txt").write_text("new <= 5 % under old\n")
    Path("others.txt").write_text("new <= 1 % under old\n")
    assert run(["run", "s.yaml", "--gate", "rules.txt", "--out", "r"]) == Exit.OK
    assert run(["run", "--resume", "r"]) == Exit.OK
    assert run(["run", "--resume", "r", "--gate", "others.txt"]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["run-options"]


@pytest.mark.parametrize(("text", "kind"), [("new beats old\n", "rule-invalid"), ("# nothing\n", "rules-none")])
def test_a_wrong_file_of_rules_runs_nothing(text: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.txt").write_text(text)
    assert run(["run", "s.yaml", "--gate", "rules.txt", "--out", "r"]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == [kind]
    assert not Path("r").exists()


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("nwe faster than old", "lane-unknown"),
        ("new faster than odl", "lane-unknown"),
        ("new faster than old on 5k randread", "cell-unknown"),
        ("new >= 5 % over old in lat_mean", "rule-direction"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_rules_are_held_against_the_study_before_the_first_trial(
    rule: str, wrong: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rules.txt").write_text(f"new not slower than old\n{rule}\n")
    assert run(["run", "s.yaml", "--gate", "rules.txt", "--out", "r", *options]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == [wrong]
    assert rule in err
    assert not Path("r").exists()
