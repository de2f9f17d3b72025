"""What is left of a lab whose Fairlane was killed is found and removed; what belongs to a live one is not."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.machines import scratch

OWNER = """
import subprocess, sys, time
from pathlib import Path
from fairlane.machines.scratch import scratch

def slept(shell):
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue
        if name.endswith("(sleep") and rest.split()[1] == str(shell):
            return True
    return False

with scratch() as folder:
    child = subprocess.Popen(["sleep", "600"], cwd=folder, start_new_session=True)
    named = subprocess.Popen(["sh", "-c", "sleep 600; :", str(folder / "socket")], start_new_session=True)
    while not slept(named.pid):  # until then what the shell has forked looks like the shell
        time.sleep(0.05)
    print(folder, child.pid, named.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


Owner = tuple["subprocess.Popen[str]", Path, list[int]]


@pytest.fixture
def owner() -> Iterator[Owner]:
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    folder, *pids = process.stdout.readline().split()
    yield process, Path(folder), [int(pid) for pid in pids]
    process.kill()
    process.wait()
    process.stdout.close()
    if Path(folder).exists():
        scratch.remove(Path(folder))


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_live_owner_keeps_everything(owner: Owner) -> None:
    assert scratch.abandoned() == []


def test_after_kill_9_processes_and_folder_are_found_and_removed(
    owner: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    process, folder, pids = owner
    process.kill()
    process.wait()
    assert scratch.abandoned() == [folder]
    kinds = [left.kind for left in scratch.leftovers(folder)]
    # the shell with the folder in its words, the sleep that works there; the shell's own sleep has neither
    assert kinds == ["process", "process", "folder"]
    assert run(["lab", "info"]) == 0
    assert str(folder) in capsys.readouterr().err
    assert run(["lab", "clean", "--states"]) == 0
    assert scratch.abandoned() == []
    assert not folder.exists()
    deadline = time.monotonic() + 120
    while not all(map(_gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(map(_gone, pids))


@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("--leftovers", {"states", "images", "parts", "roots"}),
        ("--states", {"images", "parts", "roots"}),
        ("", set()),
    ],
)
def test_clean_keeps_what_it_says(
    temporary: Path, capsys: pytest.CaptureFixture[str], option: str, kept: set[str]
) -> None:
    entries = [temporary / "cache" / kind / "0123456789abcdef" for kind in ("states", "images", "parts", "roots")]
    left = temporary / "fairlane-dead"
    for folder in (*entries, left):
        folder.mkdir(parents=True)
        (folder / "memory").write_bytes(bytes(2**20))
    (left / "owner").write_text("1 1")
    assert run(["lab", "clean", *option.split()]) == 0
    assert {entry.parent.name for entry in entries if entry.exists()} == kept
    assert not left.exists()
    assert f"{5 - len(kept)} MiB" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--states --leftovers", "--leftovers --platform kubevirt"])
def test_forms_of_clean_that_exclude_each_other(words: str) -> None:
    assert run(["lab", "clean", *words.split()]) == Exit.USAGE


def test_a_folder_without_owner_is_nobodys_business(temporary: Path) -> None:
    (temporary / "fairlane-of-somebody").mkdir()
    (temporary / "fairlane-of-somebody" / "thesis.txt").write_text("x")
    assert scratch.abandoned() == []


def test_the_same_pid_later_is_another_process(temporary: Path) -> None:
    folder = temporary / "fairlane-old"
    folder.mkdir()
    (folder / "owner").write_text(f"{os.getpid()} 1")
    assert scratch.abandoned() == [folder]
    assert scratch.remove(folder) == []
    assert not folder.exists()


def attached(image: Path) -> str:
    """A loop device of ``image``, by a number: ``--find`` of two programs may open the same one."""
    for number in range(350, 400):
        loop = f"/dev/loop{number}"
        if subprocess.run(["losetup", loop, image], capture_output=True, check=False).returncode == 0:
            return loop
    raise AssertionError(f"no loop device from 350 to 399 takes {image}")


@pytest.mark.skipif(os.getuid() != 0 or not Path("/dev/loop-control").exists(), reason="needs root and loop devices")
def test_mounts_and_loop_devices_go_too(temporary: Path) -> None:
    folder = temporary / "fairlane-old"
    (folder / "mnt").mkdir(parents=True)
    (folder / "owner").write_text("1 1")
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(16 * 2**20)
    loop = attached(image)
    subprocess.run(["mkfs.ext4", "-q", loop], check=True)
    subprocess.run(["mount", loop, str(folder / "mnt")], check=True)
    assert {left.kind for left in scratch.leftovers(folder)} == {"mount", "loop device", "folder"}
    assert scratch.remove(folder) == []
    # by its file: somebody else may have taken the number by now
    assert str(image) not in subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
