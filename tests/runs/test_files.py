"""What cannot be written is said by its cause, each with its own way out."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit, FairlaneError, RunFailed, unwritable
from fairlane.runs.files import creating, storing

KEPT = "Hint: nothing measured so far is lost; "


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, writable until ``read_only``."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "test", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which the last trial and what follows is not done yet."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert run(["run", "fake", "--blocks", "2", "--out", str(folder)]) == Exit.OK
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if json.loads(line)["type"] == "trial")
    (folder / "journal.jsonl").write_text("".join(lines[:last]))
    return folder


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Error and hint, without what was said before."""
    err = capsys.readouterr().err
    return err[err.index("Error: ") :].splitlines()[:2]


def test_a_run_on_a_read_only_file_system(disk: Path, killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(killed, disk / "run")
    read_only(disk)
    capsys.readouterr()
    assert run(["run", "--resume", str(disk / "run")]) == Exit.RUN_FAILED
    error, hint = told(capsys)
    assert error == f"Error: {disk}/run/journal.jsonl: cannot write: the file system is read-only"
    assert hint == f"{KEPT}mount it for writing (mount -o remount,rw), then continue with --resume"


def test_what_is_made_of_a_run_on_a_read_only_file_system(
    disk: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(killed, disk / "run")
    read_only(disk)
    capsys.readouterr()
    written = {
        ("report", str(disk / "run")): "run/report.html",
        ("export", str(disk / "run"), "--to", "csv"): "run/export",
        ("init", "demo", "-o", str(disk / "study.yaml")): "study.yaml",
        ("run", "fake", "--out", str(disk / "new")): "new",
    }
    for command, name in written.items():
        assert run(command) == Exit.USER_ERROR
        error, hint = told(capsys)
        assert error.startswith(f"Error: {disk / name}: cannot ")
        assert error.endswith("the file system is read-only")
        assert "choose another --out" in hint


def test_a_run_that_another_user_may_not_write(tmp_path: Path, killed: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    shutil.copytree(killed, tmp_path / "run")
    path = tmp_path / "run" / "journal.jsonl"
    descriptor = os.open(tmp_path / "run", os.O_RDONLY)  # the folders above belong to root alone
    os.seteuid(65534)
    try:
        with pytest.raises(RunFailed) as raised, storing(path):
            os.open("journal.jsonl", os.O_WRONLY, dir_fd=descriptor)
    finally:
        os.seteuid(0)
        os.close(descriptor)
    assert raised.value.message == "cannot write: permission denied"
    assert "run as the user" in raised.value.hint


def test_a_folder_in_place_of_a_file(tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(killed, tmp_path / "run")
    (tmp_path / "run" / "observations.jsonl").unlink()
    (tmp_path / "run" / "observations.jsonl").mkdir()
    capsys.readouterr()
    assert run(["run", "--resume", str(tmp_path / "run")]) == Exit.RUN_FAILED
    error, hint = told(capsys)
    assert error.endswith("/observations.jsonl: cannot write: a folder has this name")
    assert hint == f"{KEPT}move the folder away, then continue with --resume"


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("/proc/x", "/proc takes no new folders"),
        ("file/run", "a file has the name of a folder in its path"),
    ],
)
def test_a_place_where_no_run_can_be(
    out: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert run(["run", "fake", "--out", out]) == Exit.USER_ERROR
    error, hint = told(capsys)
    assert error == f"Error: {out}: cannot create the run directory: {reason}"
    assert hint.startswith("Hint: choose another --out")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "reason", "remedy"),
    [
        (errno.ENOSPC, "the disk is full", "make room"),
        (errno.EDQUOT, "the disk quota is used up", "quota raised"),
        (errno.EFBIG, "may not grow", "ulimit"),
        (errno.EPERM, "not permitted", "lsattr"),
        (errno.EIO, "reports an error", "dmesg"),
        (errno.ENOENT, "does not exist", "make the folder"),
    ],
)
def test_each_cause_has_its_way_out(number: int, reason: str, remedy: str, tmp_path: Path) -> None:
    error = OSError(number, os.strerror(number))
    assert reason in unwritable(error)[0]
    for writing in (storing, creating):
        with pytest.raises(FairlaneError) as raised, writing(tmp_path / "none" / "run"):
            raise error
        assert reason in raised.value.message
        assert remedy in raised.value.hint


def test_a_cause_that_nobody_knows_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=os.strerror(errno.ESTALE)) as raised, storing(tmp_path):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    assert raised.value.hint == "nothing measured so far is lost; continue with --resume"
