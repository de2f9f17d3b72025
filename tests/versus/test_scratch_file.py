"""The file that a directory is tried with: made and filled by real shells, whatever somebody puts in its place."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlane.versus import scout
from fairlane.versus.given import given

RUN = "0123456789"
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]


def ran(shell: str, text: str, folder: Path, path: str) -> int:
    done = subprocess.run([shell, "-eu", "-c", text], cwd=folder, env={**os.environ, "PATH": path}, check=False)
    return done.returncode


@pytest.mark.parametrize("shell", SHELLS)
def test_a_link_in_its_place_is_replaced_and_never_followed(tmp_path: Path, shell: str) -> None:
    (tmp_path / "a").mkdir()
    first, _ = given(["a", "b"], str(tmp_path))
    file = Path(scout._path(first, RUN))
    step = scout._file(first, RUN)
    # somebody who waits until the old file is gone
    stand_in = tmp_path / "bin/rm"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\n{shutil.which("rm")} "$@"\nln -s /dev/null "{file}"\n')
    stand_in.chmod(0o755)
    file.symlink_to("/dev/null")
    assert ran(shell, step.apply, tmp_path, f"{stand_in.parent}:{os.environ['PATH']}") == 0
    assert file.is_file()
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "a" / f"{file.name}.AAAAAA").touch()  # of a kill between the two commands
    assert ran(shell, step.remove, tmp_path, os.environ["PATH"]) == 0
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_a_link_is_not_filled(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious" * 2**18)
    (tmp_path / "link").symlink_to(victim)
    text = scout._fill(str(tmp_path / "link"), 2**20, buffered=True)
    assert ran("sh", text, tmp_path, os.environ["PATH"]) == 1
    assert victim.read_bytes() == b"precious" * 2**18
    text = scout._fill(str(victim), 2**20, buffered=True)
    assert ran("sh", text, tmp_path, os.environ["PATH"]) == 0
    assert scout._speed({name: (tmp_path / name).read_bytes() for name in ("fill", "took")}) > 0


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_the_new_file_of_a_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    first, _ = given(["a", "b"], str(tmp_path))
    step, size = scout._file(first, RUN), 2**20
    assert ran("sh", step.apply, tmp_path, os.environ["PATH"]) == 0
    text = scout._fill(scout._path(first, RUN), size, buffered=True)
    assert ran("sh", text, tmp_path, os.environ["PATH"]) == 0
    (file,) = (tmp_path / "a").iterdir()
    assert file.stat().st_size == size
    assert file.stat().st_blocks * 512 >= size
