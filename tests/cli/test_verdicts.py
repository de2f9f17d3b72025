"""``fairlane verdicts`` on a real run of the fake platform, whose true effects are known."""

import dataclasses
import json
from typing import Any

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.records import Verdict
from tests.words import kinds

STUDY = """\
name: small
platform: {kind: fake, effects: {fast: {speed: 1.3}}, noise: {sd: 1%}}
lanes: {slow: {transport: iscsi}, same: {transport: iscsi}, fast: {transport: nvme_tcp}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [16], runtime: 1s}}
design: {seed: 3, looks: [10]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--out", str(place / "done")]) == Exit.OK
    return str(place / "done")


def listed(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["verdicts", *args, "--format", "json"]) == Exit.OK
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_json_has_every_field_of_every_verdict(folder, capsys):
    rows = listed(capsys, folder)
    assert {frozenset(row) for row in rows} == {frozenset(f.name for f in dataclasses.fields(Verdict))}
    assert {"iops", "bw", "lat_mean", "lat_p99"} <= {row["metric"] for row in rows}


def test_the_truth_is_found(folder, capsys):
    by_lane = {row["lane"]: row for row in listed(capsys, folder, "--primary")}
    assert by_lane["fast"]["verdict"] == "faster"
    assert by_lane["fast"]["low"] < 1.3 < by_lane["fast"]["high"]
    assert by_lane["same"]["verdict"] == "tie"
    assert (by_lane["fast"]["baseline"], by_lane["fast"]["blocks"]) == ("slow", 10)


def test_metrics_can_be_chosen(folder, capsys):
    assert {row["metric"] for row in listed(capsys, folder, "--metric", "lat_p99")} == {"lat_p99"}
    assert {row["metric"] for row in listed(capsys, folder, "--primary")} == {"iops"}
    assert listed(capsys, folder) == listed(capsys, folder, "--all")
    assert listed(capsys, folder, "--metric", "lat_p99", "--primary") == []


def test_the_table_shows_the_primary_metric_in_words(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    capsys.readouterr()
    assert run(["verdicts", folder]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["cell", "lane", "slow", "value", "estimate", "interval", "verdict"]
    assert len(lines) == 4
    assert "tie" in lines[2]
    assert "faster" in lines[3]


def test_markdown_is_a_table(folder, capsys):
    capsys.readouterr()
    assert run(["verdicts", folder, "--all", "--format", "md"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| cell | lane | metric | slow |")
    assert len({line.count("|") for line in lines}) == 1


def test_a_wrong_metric_gets_the_nearest(folder, capsys):
    assert run(["verdicts", folder, "--metric", "latp99"]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["metric-unknown"]
    assert "lat_p99" in err.partition("Hint: ")[2]
