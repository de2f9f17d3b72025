"""``fairlane capture`` from a file: no disk is watched here (tests/capture/test_capture_live.py does that)."""

import json
from pathlib import Path

import pytest
import yaml

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.capture.made import database


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "captured.json"
    path.write_text(database().dump())
    return path


def test_a_saved_capture_is_analysed_again(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = saved.with_name("again.yaml")
    assert run(["capture", "--from", str(saved), "--closed", "--out", str(out)]) == Exit.OK
    made = yaml.safe_load(out.read_text())
    assert all("rate_iops" not in job for job in made["jobs"].values())
    assert out.with_suffix(".json").read_text() == saved.read_text()
    printed = capsys.readouterr()
    assert run(["capture", "--from", str(saved), "--out", str(saved.with_suffix(".yaml"))]) == Exit.OK  # beside it
    assert "flushes" in printed.out
    assert str(out) in printed.err


def test_the_formats(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capture", "--from", str(saved), "--format", "json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert told["workload"]["jobs"]["write-stream"]["fdatasync"] == 1
    assert told["shape"]["parts"]["read"]["iops"] == 400
    assert run(["capture", "--from", str(saved), "--format", "md"]) == Exit.OK
    assert capsys.readouterr().out.startswith("```text\n")


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        ([], Exit.USAGE, ""),
        (["sda", "--from", "x.json"], Exit.USAGE, ""),
        (["--replay", "x.yaml"], Exit.USAGE, ""),
        (["sda", "--for", "5"], Exit.USER_ERROR, "duration"),
        (["sda", "--for", "1s"], Exit.USER_ERROR, "duration"),
        (["--from", "{saved}", "--out", "{saved}"], Exit.USER_ERROR, "out-name"),
        (["--from", "{saved}", "--out", "{folder}/there.yaml"], Exit.USER_ERROR, "file-exists"),
        (["--from", "{saved}", "--out", "{folder}/none/x.yaml"], Exit.USER_ERROR, "file-error"),
        (["--from", "/dev/null"], Exit.USER_ERROR, "capture-file"),
        (["--replay", "{folder}/none.yaml", "--on", "{folder}"], Exit.USER_ERROR, "file-error"),
        (["--replay", "{saved}", "--on", "{folder}", "--size", "1k"], Exit.USER_ERROR, "size"),
        ([":sda"], Exit.USER_ERROR, "disk-name"),
        (["a b>c:/dev/sda"], Exit.USER_ERROR, "disk-name"),
    ],
)
def test_what_is_refused(
    saved: Path, words: list[str], code: Exit, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (saved.parent / "there.yaml").touch()
    filled = [word.format(saved=saved, folder=saved.parent) for word in words]
    assert run(["capture", *filled]) == code
    assert f"[{kind}]" in capsys.readouterr().err or not kind
