"""``fairlane run`` on the lab, as a user's process: repeated, loaded, killed, interrupted, without room or programs."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_process import Fairlane, trials
from lab_study import THREE_LANES

from fairlane.errors import Exit
from fairlane.platforms.lab import image
from fairlane.trial import journal

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

DERIVED = ("observations.jsonl", "verdicts.json", "schedule.jsonl", "study.yaml")


def carried_out(*args: str, code: int = Exit.OK, env: dict[str, str] | None = None) -> tuple[str, str]:
    """stdout and stderr of a command line that ends as expected and leaves nothing running."""
    with Fairlane(*args, env=env) as fairlane:
        got, out, err = fairlane.end()
    assert got == code, err
    return out, err


def same(one: Path, other: Path) -> None:
    """Equal results, byte for byte; raw files too."""
    for name in DERIVED:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    files = [{p.name: p.read_bytes() for p in (run / "raw").iterdir()} for run in (one, other)]
    assert files[0] == files[1]


def whole(folder: Path, kept: dict[tuple[str, int, str], str]) -> None:
    """Every trial is journaled once, what was done before the interruption stayed, and what was repeated was equal."""
    events = journal.read(folder)
    assert sum(e["type"] == "trial" for e in events) == len(trials(folder)) == 12
    assert kept.items() <= trials(folder).items()
    assert not [e for e in events if e["type"] == "mismatch"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, lab_image: image.Image, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(THREE_LANES)
    return tmp_path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, lab_image: image.Image) -> Path:
    """The run that all others must equal."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "study.yaml").write_text(THREE_LANES)
    carried_out("run", str(folder / "study.yaml"), "--out", str(folder / "run"), "--jobs", "2")
    assert len((folder / "run" / "observations.jsonl").read_bytes().splitlines()) == 12
    assert not any(json.loads(x)["failed"] for x in (folder / "run" / "observations.jsonl").read_text().splitlines())
    return folder / "run"


@pytest.fixture
def cache(tmp_path: Path, lab_image: image.Image) -> Iterator[Path]:
    """A cache with the image and no saved state."""
    cache = tmp_path / "cache"
    (cache / "images").mkdir(parents=True)
    (cache / "images" / lab_image.key).symlink_to(lab_image.folder)
    yield cache
    shutil.rmtree(cache, ignore_errors=True)  # some 150 MB for each state


# --- the same figures, however it is run ----------------------------------------------------------------------------


def test_one_job_gives_the_bytes_of_two(undisturbed: Path) -> None:
    carried_out("run", "study.yaml", "--out", "out", "--jobs", "1")
    same(Path("out"), undisturbed)


def test_a_loaded_machine_gives_the_same_bytes(undisturbed: Path) -> None:
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        carried_out("run", "study.yaml", "--out", "out", "--jobs", "2")
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    same(Path("out"), undisturbed)


def test_another_seed_gives_other_figures(undisturbed: Path) -> None:
    carried_out("run", "study.yaml", "--out", "out", "--seed", "2")
    assert trials(Path("out")).keys() == trials(undisturbed).keys()
    assert not trials(Path("out")).items() & trials(undisturbed).items()
    assert Path("out/observations.jsonl").read_bytes() != (undisturbed / "observations.jsonl").read_bytes()


# --- killed and interrupted -----------------------------------------------------------------------------------------


def finishes(undisturbed: Path, *, env: dict[str, str] | None = None) -> None:
    """``--resume`` brings the run in ``out`` to the undisturbed end."""
    kept = trials(Path("out"))
    carried_out("run", "--resume", "out", env=env)
    whole(Path("out"), kept)
    same(Path("out"), undisturbed)


def test_a_vm_that_is_killed_fails_its_block_and_nothing_else(undisturbed: Path) -> None:
    with Fairlane("run", "study.yaml", "--out", "out", "--jobs", "2") as fairlane:
        fairlane.wait_for(lambda: trials(Path("out")), "first trial")
        before = fairlane.qemus()
        (victim, *_) = fairlane.wait_for(lambda: fairlane.qemus() - before, "next block")  # too young to be done
        os.kill(victim, signal.SIGKILL)
        code, out, err = fairlane.end()
    assert (code, out) == (Exit.RUN_FAILED, ""), err
    assert "1 of 4 blocks are missing" in err
    assert "Hint: nothing else is lost; try them again: fairlane run --resume out" in err
    assert [e["type"] for e in journal.read(Path("out"))].count("block-failed") == 1
    assert len(trials(Path("out"))) == 9
    finishes(undisturbed)


def test_ctrl_c_amid_blocks(undisturbed: Path) -> None:
    with Fairlane("run", "study.yaml", "--out", "out", "--jobs", "2") as fairlane:
        fairlane.wait_for(lambda: trials(Path("out")), "first trial")
        fairlane.interrupt()
        fairlane.interrupt()  # an impatient user
        code, out, err = fairlane.end()
    assert (code, out) == (Exit.INTERRUPTED, ""), err
    assert err.endswith("Error: interrupted\nHint: continue with: fairlane run --resume out\n")
    assert 0 < len(trials(Path("out"))) < 12
    finishes(undisturbed)
