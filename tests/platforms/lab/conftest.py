import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from lab_process import carried_out
from lab_study import TINY, TRIALS

from fairlane.platforms.lab import image, qemu


@pytest.fixture(scope="session")
def lab_image() -> Iterator[image.Image]:
    """The cached lab image, built once on a new machine; nobody prunes it meanwhile."""
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    with ExitStack() as held:
        yield asyncio.run(image.build(print, held))


@pytest.fixture
def here(tmp_path: Path, lab_image: image.Image, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a study.yaml."""
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(TINY)
    return tmp_path


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, lab_image: image.Image) -> Path:
    """The run that all others of the study must equal."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "study.yaml").write_text(TINY)
    carried_out("run", str(folder / "study.yaml"), "--out", str(folder / "run"), "--jobs", "2")
    observations = (folder / "run" / "observations.jsonl").read_text().splitlines()
    assert [json.loads(x)["failed"] for x in observations] == [""] * TRIALS
    return folder / "run"


@pytest.fixture
def cache(tmp_path: Path, lab_image: image.Image) -> Iterator[Path]:
    """A cache with the image and no saved state."""
    cache = tmp_path / "cache"
    (cache / "images").mkdir(parents=True)
    (cache / "images" / lab_image.key).symlink_to(lab_image.folder)
    yield cache
    shutil.rmtree(cache, ignore_errors=True)  # some 150 MB for each state


@pytest.fixture
def programs(tmp_path: Path) -> Callable[..., str]:
    """A PATH that holds these programs alone."""

    def path(*names: str) -> str:
        (tmp_path / "bin").mkdir()
        for name in names:
            found = shutil.which(name)
            assert found, name
            (tmp_path / "bin" / name).symlink_to(found)
        return str(tmp_path / "bin")

    return path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a disk of the size given, or gives the mounted one that size."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()

    def size(wanted: str) -> Path:
        options = f"remount,size={wanted}" if disk.is_mount() else f"size={wanted}"
        command = ["mount", "-t", "tmpfs", "-o", options, "test", str(disk)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount: {done.stderr}")
        return disk

    yield size
    if disk.is_mount():
        subprocess.run(["umount", str(disk)], check=True)
