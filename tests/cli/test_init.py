"""``fairlane init``."""

import errno
import json
import os
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.study.load import preset_text, presets
from tests.words import kinds


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == Exit.OK
    assert Path("demo.yaml").read_text() == preset_text("demo")
    out, err = capsys.readouterr()
    assert out == ""
    assert "fairlane study check demo.yaml" in err
    assert run(["study", "check", "demo.yaml"]) == Exit.OK


def test_to_a_file_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("precious")
    assert run(["init", "fake", "-o", "mine.yaml"]) == Exit.USER_ERROR
    first, hint = capsys.readouterr().err.splitlines()
    assert first.startswith("Error: mine.yaml: ")
    assert kinds(first) == ["file-exists"]
    assert "--force" in hint
    assert Path("mine.yaml").read_text() == "precious"
    assert run(["init", "fake", "-o", "mine.yaml", "--force"]) == Exit.OK
    assert Path("mine.yaml").read_text() == preset_text("fake")


def test_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "nvme-tcp-stall", "-o", "-"]) == Exit.OK
    assert capsys.readouterr().out == preset_text("nvme-tcp-stall")
    assert list(Path().iterdir()) == []


def test_unknown_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "dmeo"]) == Exit.USER_ERROR
    first, hint = capsys.readouterr().err.splitlines()
    assert kinds(first) == ["preset-unknown"]
    assert "'dmeo'" in first
    assert "'demo'" in hint


def test_into_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "-o", "no/where.yaml"]) == Exit.USER_ERROR
    message = os.strerror(errno.ENOENT)
    assert capsys.readouterr().err == f"Error: no/where.yaml: {message} [file-error]\n"


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--list", "--format", "json"]) == Exit.OK
    listed = json.loads(capsys.readouterr().out)
    assert [row["preset"] for row in listed] == sorted(presets())
    assert all(row["question"].endswith("?") for row in listed)
