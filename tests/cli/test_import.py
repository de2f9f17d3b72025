"""``fairlane import`` as a user runs it."""

import json
import re
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.words import kinds

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "study-003"


def test_list_names_every_importer(capsys):
    assert run(["import", "--list", "--format", "json"]) == Exit.OK
    tools = {row["tool"]: row for row in json.loads(capsys.readouterr().out)}
    assert "--tool" in tools["table"]["found"]
    assert "--tool" not in tools["fio_json"]["found"]


def test_a_published_page_becomes_a_run_that_is_judged_without_spread(tmp_path, capsys):
    out = tmp_path / "roks"
    args = ["import", str(PAGE / "roks.csv"), "--map", str(PAGE / "roks.yaml"), "--out", str(out), "--format", "json"]
    assert run(args) == Exit.OK
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 28
    assert {row["headline"] for row in rows} == {"iops", "bw", "lat_p99"}
    assert run(["verdicts", str(out), "--format", "json"]) == Exit.OK
    verdicts = json.loads(capsys.readouterr().out)
    assert len(verdicts) == 24
    assert {v["verdict"] for v in verdicts} <= {"no-spread", "refused"}


def test_a_dry_run_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert run(["import", str(PAGE / "vcf.csv"), "--map", str(PAGE / "vcf.yaml"), "--dry-run"]) == Exit.OK
    assert re.search(r" raid1-ftt1-thick \(\w+\) ", capsys.readouterr().out, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "PATH..."),
        (["x"], "'--out'"),
        (["x", "--dry-run", "--lane", "x"], "NAME=GLOB"),
    ],
)
def test_wrong_usage(args, told, capsys):
    assert run(["import", *args]) == Exit.USAGE
    assert told in capsys.readouterr().err.partition("Error: ")[2]


def test_files_of_no_tool_are_one_error(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("hello")
    assert run(["import", str(tmp_path), "--out", str(tmp_path / "out")]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["files-unknown"]
    assert "1" in err.partition("Hint: ")[0].split()
    assert not (tmp_path / "out").exists()


def test_no_escape_code_reaches_the_terminal(tmp_path, capsys):
    (tmp_path / "a\x1b[31m.txt").write_text("hello")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "t.csv").write_text("IOPS\n5\n")
    mapping = tmp_path / "m.yaml"
    mapping.write_text("tool: table\ntable: {figures: [{column: IOPS, metric: iops}]}\n")
    assert run(["import", str(tmp_path), "--map", str(mapping), "--dry-run"]) == Exit.OK
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "a\\x1b" in captured.err
