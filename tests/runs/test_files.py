"""What cannot be written is said by its cause, each with its own way out."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit, FairlaneError, RunFailed, unwritable
from fairlane.runs.files import creating, storing, write_atomic
from tests.words import kinds


def cause(number: int) -> tuple[str, str]:
    """Reason and remedy for this error, as they are printed."""
    return unwritable(OSError(number, os.strerror(number)))


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
    reason, remedy = cause(errno.EROFS)
    assert "mount -o remount,rw" in remedy
    assert error.startswith(f"Error: {disk}/run/journal.jsonl: ")
    assert error.endswith(f"{reason} [unwritable]")
    assert remedy in hint
    assert "--resume" in hint


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
        assert error.startswith(f"Error: {disk / name}: ")
        assert cause(errno.EROFS)[0] in error
        assert " --out" in hint


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
    reason, remedy = cause(errno.EACCES)
    assert raised.value.kind == "unwritable"
    assert raised.value.message.endswith(reason)
    assert remedy in raised.value.hint


def test_a_folder_in_place_of_a_file(tmp_path: Path, killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(killed, tmp_path / "run")
    (tmp_path / "run" / "observations.jsonl").unlink()
    (tmp_path / "run" / "observations.jsonl").mkdir()
    capsys.readouterr()
    assert run(["run", "--resume", str(tmp_path / "run")]) == Exit.RUN_FAILED
    error, hint = told(capsys)
    reason, remedy = cause(errno.EISDIR)
    assert error.startswith(f"Error: {tmp_path}/run/observations.jsonl: ")
    assert error.endswith(f"{reason} [unwritable]")
    assert remedy in hint
    assert "--resume" in hint


@pytest.mark.parametrize(
    ("out", "reason"),
    [("/proc/x", "/proc "), ("file/run", cause(errno.EEXIST)[0])],
)
def test_a_place_where_no_run_can_be(
    out: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert run(["run", "fake", "--out", out]) == Exit.USER_ERROR
    error, hint = told(capsys)
    assert kinds(error) == ["unwritable"]
    assert error.startswith(f"Error: {out}: ")
    assert reason in error
    assert " --out" in hint
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "program"),
    [
        (errno.ENOSPC, ""),
        (errno.EDQUOT, ""),
        (errno.EFBIG, "ulimit"),
        (errno.EPERM, "lsattr"),
        (errno.EIO, "dmesg"),
        (errno.ENOENT, ""),
    ],
)
def test_each_cause_has_its_way_out(number: int, program: str, tmp_path: Path) -> None:
    error = OSError(number, os.strerror(number))
    reason, remedy = unwritable(error)
    assert remedy, "known, and not only told as it is"
    assert program in remedy
    for writing in (storing, creating):
        with pytest.raises(FairlaneError) as raised, writing(tmp_path / "none" / "run"):
            raise error
        assert reason in raised.value.message
        assert remedy in raised.value.hint


def test_a_cause_that_nobody_knows_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=os.strerror(errno.ESTALE)) as raised, storing(tmp_path):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    assert "--resume" in raised.value.hint
    assert cause(errno.ESTALE) == (os.strerror(errno.ESTALE), "")


def test_no_two_causes_are_told_alike() -> None:
    known = [cause(number)[0] for number in errno.errorcode]
    assert len(set(known)) >= len(known) - 1  # EDEADLK has two names


def test_several_writers_of_a_file_leave_one_of_theirs_whole(tmp_path: Path) -> None:
    """What a killed writer left is in nobody's way, and gone afterwards."""
    path = tmp_path / "report.html"
    path.with_name(".report.html.new").write_bytes(b"half" * 2**20)
    contents = {bytes([65 + number]) * (2**16 * (number + 1)) for number in range(8)}

    def write(content: bytes) -> None:
        for _ in range(20):
            write_atomic(path, content)
            assert path.read_bytes() in contents

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, contents))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]
