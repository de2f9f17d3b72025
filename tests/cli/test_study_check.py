"""``fairlane study check``."""

import json
import re
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.study.load import preset_text
from tests.figures import figures
from tests.words import kinds


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "check", "demo", "--jobs", "2"]) == Exit.OK
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert "study     demo" in lines
    assert any(re.match(r"iscsi \(\w+\)  iscsi", line) and "sessions=1" in line for line in lines)
    assert ["main", "64k", "randwrite", "qd16", "0.1", "s"] in [line.split() for line in lines]
    assert any(line.split()[:4] == ["3", "72", "7.6", "s"] for line in lines)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "check", "demo", "--jobs", "3", "--format", "json"]) == Exit.OK
    plan = json.loads(capsys.readouterr().out)
    assert plan["jobs"] == 3
    assert [lane["lane"] for lane in plan["lanes"]] == ["local", "iscsi", "nvme-tcp"]
    assert plan["cells"][0] == {
        "workload": "main",
        "cell": "4k randread qd1",
        "key": "main.4k-randread-qd1",
        "trial_seconds": 0.105,
    }
    assert plan["looks"][0]["trials"] == 72


def test_what_provisionings_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "check", "study-003-roks", "--format", "json"]) == Exit.OK
    made = json.loads(capsys.readouterr().out)["provisionings"]
    # the cells of all three workloads fill the same 4 GiB once, on each of the eight lanes
    assert (made["count"], made["blocks"], made["steady_seconds"]) == (6, 2, 0)
    assert made["fill_bytes"] == 8 * 4 * 2**30
    assert run(["study", "check", "study-003-roks"]) == Exit.OK
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("anew ")]
    assert figures(line)[:2] == ["6", "2"]


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "check", "fake", "--format", "md"]) == Exit.OK
    out = capsys.readouterr().out
    assert "- **baseline**: iscsi\n" in out
    assert re.search(r"^\| blocks \| trials \|.*\n\| --- \|", out, re.MULTILINE)


def test_jobs_beyond_what_is_harmless_are_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "check", "fake", "--jobs", "1", "--format", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["jobs"] == 1


def test_errors_name_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(preset_text("demo").replace("baseline: iscsi", "baseline: iscssi"))
    line = path.read_text().splitlines().index("baseline: iscssi") + 1
    assert run(["study", "check", str(path)]) == Exit.USER_ERROR
    out, err = capsys.readouterr()
    assert out == ""
    first, hint = err.splitlines()
    assert first.startswith(f"Error: {path}:{line}: baseline: 'iscssi' ")
    assert "local, iscsi, nvme-tcp" in first
    assert kinds(first) == ["lane-unknown"]
    assert hint.startswith("Hint: ")
    assert "'iscsi'" in hint
