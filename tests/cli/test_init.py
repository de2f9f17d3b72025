"""``fairlane init``."""

import json
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.study.load import preset_text, presets


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == Exit.OK
    assert Path("demo.yaml").read_text() == preset_text("demo")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "wrote demo.yaml; next: fairlane study check demo.yaml\n")
    assert run(["study", "check", "demo.yaml"]) == Exit.OK


def test_to_a_file_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("precious")
    assert run(["init", "fake", "-o", "mine.yaml"]) == Exit.USER_ERROR
    assert "Error: mine.yaml: exists already\nHint: " in capsys.readouterr().err
    assert Path("mine.yaml").read_text() == "precious"
    assert run(["init", "fake", "-o", "mine.yaml", "--force"]) == Exit.OK
    assert Path("mine.yaml").read_text() == preset_text("fake")


def test_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "nvme-tcp-stall", "-o", "-"]) == Exit.OK
    assert capsys.readouterr().out == preset_text("nvme-tcp-stall")
    assert list(Path().iterdir()) == []


def test_unknown_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "dmeo"]) == Exit.USER_ERROR
    assert capsys.readouterr().err == "Error: no preset named 'dmeo'\nHint: did you mean 'demo'?\n"


def test_into_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "-o", "no/where.yaml"]) == Exit.USER_ERROR
    assert capsys.readouterr().err == "Error: no/where.yaml: No such file or directory\n"


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--list", "--format", "json"]) == Exit.OK
    listed = json.loads(capsys.readouterr().out)
    assert [row["preset"] for row in listed] == sorted(presets())
    assert all(row["question"].endswith("?") for row in listed)
