"""The file of a directory lane: where its directory is by the time that it is to be removed."""

import subprocess
from pathlib import Path

import pytest

from fairlane.lanes.base import Site
from fairlane.lanes.directory import Directory, DirectorySpec


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Directory]:
    """``data``, a folder with somebody's file and the lane's."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "theirs").touch()
    site = Site(medium="", address="", interface="", index=0, secret="", size=4096, living=True, run="abc")
    lane = Directory("a", DirectorySpec(transport="directory", path=str(folder), foreign=True), site)
    assert run(tmp_path, lane, "apply") == ""
    assert (folder / ".fairlane-abc-a").stat().st_size == 4096
    return folder, lane


def run(tmp_path: Path, lane: Directory, part: str) -> str:
    """Runs a part of the lane's only step; what it complains of."""
    (step,) = lane.steps()
    text = f"set -e\nFRAMES={tmp_path}\n{getattr(step, part)}"
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (not done.stderr), done.stderr
    return done.stderr


def test_the_file_goes_and_the_rest_stays(made: tuple[Path, Directory], tmp_path: Path) -> None:
    folder, lane = made
    assert run(tmp_path, lane, "remove") == ""
    assert [f.name for f in folder.iterdir()] == ["theirs"]
    assert run(tmp_path, lane, "remove") == ""


def test_a_directory_that_was_removed_took_the_file_along(made: tuple[Path, Directory], tmp_path: Path) -> None:
    folder, lane = made
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert run(tmp_path, lane, "remove") == ""


@pytest.mark.parametrize("name", ["moved away", ".moved"])
def test_a_directory_that_was_renamed_is_found(made: tuple[Path, Directory], tmp_path: Path, name: str) -> None:
    folder, lane = made
    moved = folder.rename(tmp_path / name)
    assert run(tmp_path, lane, "remove") == ""
    assert [f.name for f in moved.iterdir()] == ["theirs"]


def test_another_directory_in_its_place_is_said(made: tuple[Path, Directory], tmp_path: Path) -> None:
    folder, lane = made
    moved = folder.rename(tmp_path / "moved")
    folder.mkdir()
    assert "leads elsewhere since the run began" in run(tmp_path, lane, "remove")
    assert (moved / ".fairlane-abc-a").exists()
