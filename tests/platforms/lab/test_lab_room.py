"""The lab on a full disk: one clear error, nothing lost, and ``--resume`` goes on once there is room."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from lab_process import carried_out, finishes, trials
from lab_study import TRIALS

from fairlane.errors import Exit
from fairlane.platforms.lab import image
from fairlane.runs import journal
from tests.words import kinds

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("undisturbed"),
    pytest.mark.usefixtures("here"),
    pytest.mark.timeout(1800),
]

SmallDisk = Callable[[str], Path]


def told(err: str) -> tuple[str, str, str]:
    """Kind of the one error, itself and its hint, at the end of what was said."""
    assert err.count("Error: ") == err.count("Hint: ") == 1, err
    error, hint = err[err.index("Error: ") :].split("\nHint: ")
    (kind,) = kinds(error)
    return kind, error.removeprefix("Error: "), hint.strip()


@pytest.mark.slow
def test_no_room_for_the_run(undisturbed: Path, small_disk: SmallDisk) -> None:
    run = small_disk("64k") / "out"
    out, err = carried_out("run", "study.yaml", "--out", str(run), "--jobs", "2", code=Exit.RUN_FAILED)
    assert out == ""
    kind, error, hint = told(err)
    assert (kind, error.startswith(str(run)), "--resume" in hint) == ("unwritable", True, True)
    assert 0 < len(trials(run)) < TRIALS
    small_disk("50m")
    finishes(run, undisturbed)


@pytest.mark.slow
def test_no_room_for_what_a_vm_says(undisturbed: Path, small_disk: SmallDisk) -> None:
    """The scratch folder of a VM is on a full disk: its job cannot be written, or its results are cut."""
    disk = small_disk("48k")
    env = {"TMPDIR": str(disk)}
    _, err = carried_out("run", "study.yaml", "--out", "out", "--jobs", "1", code=Exit.RUN_FAILED, env=env)
    kind, error, hint = told(err)
    assert (kind, "No space left on device" in error, "TMPDIR" in hint) == ("blocks-failed", True, True)
    assert {e["error"] for e in journal.read(Path("out")) if e["type"] == "block-failed"} == {"scratch"}
    assert list(disk.iterdir()) == []
    small_disk("72k")
    _, err = carried_out("run", "--resume", "out", "--jobs", "1", code=Exit.RUN_FAILED, env=env)
    told(err)
    small_disk("50m")
    finishes(Path("out"), undisturbed, env=env)


@pytest.mark.slow
def test_no_room_for_the_state(undisturbed: Path, small_disk: SmallDisk, lab_image: image.Image) -> None:
    """Enough for the initrd, not for the guest's memory; then not even for that."""
    initrd = lab_image.initrd.stat().st_size
    cache = small_disk(str(initrd + 20 * 2**20))
    (cache / "images").mkdir()
    (cache / "images" / lab_image.key).symlink_to(lab_image.folder)
    env = {"FAIRLANE_CACHE": str(cache)}
    _, err = carried_out("run", "study.yaml", "--out", "out", code=Exit.RUN_FAILED, env=env)
    assert told(err)[0] == "saved-state"
    assert [p for p in (cache / "states").iterdir() if p.is_dir()] == []
    small_disk(str(initrd // 2))
    _, err = carried_out("run", "--resume", "out", code=Exit.USER_ERROR, env=env)
    kind, error, hint = told(err)
    assert (kind, error.startswith(f"{cache}/states: ")) == ("cache-unwritable", True)
    assert ("No space left on device" in error, "fairlane lab clean" in hint) == (True, True)
    assert [p for p in (cache / "states").iterdir() if p.is_dir()] == []
    finishes(Path("out"), undisturbed)


@pytest.mark.parametrize("variable", ["TMPDIR", "FAIRLANE_CACHE"])
def test_no_room_for_the_image(here: Path, small_disk: SmallDisk, variable: str) -> None:
    disk = small_disk("100m")
    env = {"FAIRLANE_CACHE": str(here / "cache"), variable: str(disk)}
    _, err = carried_out("lab", "build", code=Exit.USER_ERROR, env=env)
    kind, error, hint = told(err)
    assert (kind, error.startswith(str(disk)), variable in hint) == ("disk-space", True, True)
    assert re.search(r"\b100 MiB\b.*\b\d+ MiB\b", error)
    assert [p for p in disk.rglob("*") if p.is_dir() and p.name != "images"] == []
