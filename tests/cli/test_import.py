"""``fairlane import`` as a user runs it."""

import json
import os
import pty
import re
import subprocess
import sys
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


TABLE = "tool: table\ntable: {figures: [{column: IOPS, metric: iops}]}\n"


@pytest.fixture
def flat(tmp_path):
    """Two lanes by file name, with three repetitions each."""
    for n, name in enumerate(f"{lane}-{k}" for lane in ("iscsi", "nvme-tcp") for k in (1, 2, 3)):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{name}.csv").write_text(f"IOPS\n{1000 + n}\n")
    (tmp_path / "m.yaml").write_text(TABLE)
    return ["import", str(tmp_path / "in"), "--map", str(tmp_path / "m.yaml"), "--out", str(tmp_path / "out")]


def test_the_proposal_is_printed_and_taken_where_nobody_can_be_asked(flat, tmp_path, capsys):
    assert run(flat) == Exit.OK
    out, err = capsys.readouterr()
    first, *lines = err.splitlines()
    assert first == "2 lanes by file name:"
    assert lines[0].split() == ["iscsi", "3", "trials,", "such", "as", "iscsi-1.csv"]
    assert "--lane NAME=GLOB" in err
    assert "different-but-small" in out
    steps = [line.split("  #")[0].strip() for line in err.partition("next: ")[2].splitlines()]
    assert steps[0] == f"fairlane report --open {tmp_path / 'out'}"
    assert len(steps) == 2
    assert all(run(step.split()[1:]) in (Exit.OK, Exit.NOT_DECIDED) for step in steps[1:])


@pytest.mark.parametrize(("answer", "code"), [("\n", Exit.OK), ("y\n", Exit.OK), ("n\n", Exit.USER_ERROR)])
def test_a_terminal_is_asked(flat, tmp_path, answer, code):
    """In a terminal of its own: the command, with a person's answer."""
    primary, secondary = pty.openpty()
    shown = b""
    with subprocess.Popen(
        [sys.executable, "-m", "fairlane", *flat], stdin=secondary, stdout=subprocess.PIPE, stderr=secondary
    ) as process:
        os.close(secondary)
        while b"[Y/n]" not in shown:
            shown += os.read(primary, 4096)
        os.write(primary, answer.encode())
        process.communicate()
    os.close(primary)
    assert process.returncode == code
    assert (tmp_path / "out").exists() == (code == Exit.OK)


def test_yes_takes_what_is_in_doubt_and_nobody_at_hand_does_not(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for n in range(40):
        (tmp_path / "in" / f"{chr(97 + n // 26)}{chr(97 + n % 26)}x.csv").write_text(f"IOPS\n{1000 + n}\n")
    (tmp_path / "m.yaml").write_text(TABLE)
    args = ["import", str(tmp_path / "in"), "--map", str(tmp_path / "m.yaml"), "--out", str(tmp_path / "out")]
    assert run(args) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["lanes-doubtful"]
    assert all(part in err.partition("Hint:")[2] for part in ("--yes", "--by", "--lane"))
    assert not (tmp_path / "out").exists()
    assert run([*args[:-1], str(tmp_path / "other"), "--dry-run"]) == Exit.OK
    assert run([*args, "--yes"]) == Exit.OK


def test_by_and_lane_say_otherwise(flat, tmp_path, capsys):
    assert run([*flat, "--lane", "all=in/*", "--lane", "all=*", "--dry-run", "--format", "json"]) == Exit.OK
    captured = capsys.readouterr()
    assert {row["lane"] for row in json.loads(captured.out)} == {"all (baseline)"}
    assert "lanes by" not in captured.err
    assert run([*flat, "--by", "names"]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["axis-unknown"]


def test_one_lane_is_said_to_compare_nothing_everywhere(tmp_path, capsys):
    for n in (1, 2):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"run-{n}.csv").write_text(f"IOPS\n{1000 + n}\n")
    (tmp_path / "m.yaml").write_text(TABLE)
    out = str(tmp_path / "out")
    assert run(["import", str(tmp_path / "in"), "--map", str(tmp_path / "m.yaml"), "--out", out]) == Exit.OK
    printed, err = capsys.readouterr()
    assert err.startswith("One lane, in: nothing is compared.\n")
    assert "One lane (in): nothing is compared." in printed
    assert "fairlane check" not in err
    assert run(["verdicts", out]) == Exit.OK
    assert capsys.readouterr().out == "One lane (in): nothing is compared.\n"
    assert run(["verdicts", out, "--format", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == []
    run(["check", out])
    assert capsys.readouterr().out.endswith("\n\nOne lane (in): nothing is compared.\n")
    run(["check", out, "--format", "json"])
    assert json.loads(capsys.readouterr().out)["columns"] == ["in"]
    assert run(["report", out]) == Exit.OK
    text = (tmp_path / "out" / "report.md").read_text()
    assert "How do  and" not in text
    assert "nothing is compared" in text
