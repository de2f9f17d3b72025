"""``fairlane gate`` from the outside: exit codes, forms of output, JUnit XML."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
import yaml

from fairlane.cli.gate import command
from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.study.load import load_study
from tests.words import kinds

STUDY = """\
name: small
platform: {kind: fake, effects: {fast: {speed: 1.3}}, noise: {sd: 1%}}
lanes: {slow: {transport: iscsi}, fast: {transport: nvme_tcp}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread], bs: [4k, 64k], iodepth: [16], runtime: 1s}}
design: {seed: 3, looks: [10]}
"""
EFFECTS = {"nvme-tcp": {"speed": 1.3}}
GOOD, BAD, OPEN = "fast >= 20 % over slow", "fast >= 60 % over slow on 64k", "fast within 30 % of slow on 4k"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("runs")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--out", str(place / "done")]) == Exit.OK
    return str(place / "done")


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([GOOD], Exit.OK),
        ([GOOD, "no critical finding"], Exit.OK),
        ([GOOD, BAD], Exit.NOT_DECIDED),
        ([OPEN], Exit.NOT_DECIDED),
        ([], Exit.USER_ERROR),
        (["fast >= 20 over slow"], Exit.USER_ERROR),
        (["fast >= 20 % over slwo"], Exit.USER_ERROR),
    ],
)
def test_the_exit_code_says_whether_all_is_met(folder: str, rules: list[str], code: Exit) -> None:
    assert run(["gate", folder, *(x for rule in rules for x in ("--rule", rule))]) == code


def test_rules_come_from_a_file_too(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.txt").write_text(f"# acceptance\n{GOOD}\n")
    assert run(["gate", folder, "--rules", str(tmp_path / "rules.txt")]) == Exit.OK
    (tmp_path / "rules.txt").write_text(f"{GOOD}\nfast is fast\n")
    assert run(["gate", folder, "--rules", str(tmp_path / "rules.txt")]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert "rules.txt:2: " in err
    assert kinds(err) == ["rule-invalid"]


def test_the_table_says_what_was_seen_and_why(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run(["gate", folder, "--rule", GOOD, "--rule", BAD])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == GOOD
    assert lines[1].startswith("  ✓ met  4k randread qd16  +")
    assert lines[3] == BAD
    assert lines[4].startswith("  ✗ not met  64k randread qd16  +")
    assert "+60.0 %" in lines[5]
    assert lines[-1] == "Error rate 5 % (alpha), margin 5 % (IOPS)"


def test_json_and_markdown(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["gate", folder, "--rule", GOOD, "--format", "json"]) == Exit.OK
    rows = json.loads(capsys.readouterr().out)
    assert [(row["rule"], row["outcome"]) for row in rows] == [(GOOD, "met")] * 2
    assert {(row["alpha"], row["margin"]) for row in rows} == {(0.05, 0.05)}
    assert run(["gate", folder, "--rule", BAD, "--format", "md"]) == Exit.NOT_DECIDED
    head = capsys.readouterr().out.splitlines()[0]
    assert head.strip("| ").split(" | ") == ["rule", "cell", "outcome", "seen", "reason", "alpha", "margin"]


def test_junit_has_a_case_per_rule_and_cell(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "gate.xml"
    rules = [GOOD, BAD, OPEN, "iops of fast <= 1 on 4k", "no critical finding"]
    assert run(["gate", folder, *(x for r in rules for x in ("--rule", r)), "--junit", str(path)]) == Exit.NOT_DECIDED
    (suite,) = ElementTree.parse(path).getroot()  # noqa: S314 - our own file
    assert suite.attrib == {"name": "small", "tests": "6", "failures": "3", "errors": "0", "skipped": "0"}
    cases = list(suite)
    assert [case.get("name") for case in cases[:2]] == [
        f"{GOOD} [4k randread qd16]",
        f"{GOOD} [64k randread qd16]",
    ]
    types = [child.get("type") for case in cases for child in case if child.tag == "failure"]
    assert types == ["not-met", "not-proven", "not-met"]
    assert {case.get("classname") for case in cases} == {"done"}


def test_a_rule_full_of_control_characters_reaches_no_terminal(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gate", folder, "--rule", "fast\x1b[31m >= 20 % over slow\u202e"]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert "\x1b[31m" not in err
    assert "\u202e" not in err


@pytest.mark.slow
def test_the_examples_are_decided_on_a_run_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the demo's lanes and cells, with invented figures. A rule that no such run can get an answer to misleads."""
    monkeypatch.chdir(tmp_path)
    demo, _ = load_study("demo")
    study = demo.model_dump(mode="json", exclude_unset=True) | {"platform": {"kind": "fake", "effects": EFFECTS}}
    for part in study["workloads"].values():
        part |= {"runtime": "1s", "ramp": "0s", "prefill": True}
    study["design"] |= {"looks": [6]}  # invented figures scatter, those of a virtual clock do not
    Path("demo.yaml").write_text(yaml.safe_dump(study))
    assert run(["run", "demo.yaml", "--out", "runs/demo"]) == Exit.OK
    text = (Path(__file__).parents[2] / "docs/gate.md").read_text() + command.get_help(click.Context(command))
    rules = {
        rule
        for line in text.splitlines()
        if "fairlane gate runs/demo" in line
        for rule in re.findall(r'--rule "([^"]*)"', line)
    }
    assert len(rules) >= 2
    capsys.readouterr()
    run(["gate", "runs/demo", "--format", "json", *(word for rule in sorted(rules) for word in ("--rule", rule))])
    outcomes = json.loads(capsys.readouterr().out)
    assert {row["rule"] for row in outcomes} == rules
    assert [row for row in outcomes if row["outcome"] == "refused"] == []
