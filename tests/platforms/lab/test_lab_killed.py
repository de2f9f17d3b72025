"""``fairlane run`` on the lab, killed and interrupted at every stage: nothing is left running, nothing is lost, and the
figures are those of a run that nobody disturbed."""

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest
from lab_process import Fairlane, finishes, trials
from lab_study import LANES, TRIALS

from fairlane.errors import Exit
from testkit.process import events

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("undisturbed"),
    pytest.mark.usefixtures("here"),
    pytest.mark.timeout(1800),
]


def journaled(least: int) -> bool:
    return len(trials(Path("out"))) >= least


@pytest.mark.slow
def test_killed_again_and_again_it_takes_its_vms_along_and_goes_on(undisturbed: Path) -> None:
    """At the first VM; then, each time, when one more trial is on disk. The first VM is held, so that the run does not
    end before; when only its block is left, there is no further trial to wait for."""
    for goal in range(3):
        how = ("--resume", "out") if Path("out").exists() else ("study.yaml", "--out", "out")
        with Fairlane("run", *how, "--jobs", "2") as fairlane:
            least = min(len(trials(Path("out"))) + (goal > 0), TRIALS - LANES)
            fairlane.hold_vm()
            fairlane.wait_for(partial(journaled, least), "further trial")
            fairlane.kill()
            fairlane.nothing_is_left()
    assert 2 <= len(trials(Path("out"))) < TRIALS
    finishes(Path("out"), undisturbed)


@pytest.mark.slow
def test_the_block_of_a_vm_that_is_killed_is_done_again(undisturbed: Path) -> None:
    with Fairlane("run", "study.yaml", "--out", "out", "--jobs", "2") as fairlane:
        victim = fairlane.hold_vm()
        fairlane.wait_for(partial(journaled, TRIALS - LANES), "end of all other blocks")
        os.kill(victim, signal.SIGKILL)
        code, out, err = fairlane.end()
    assert code == Exit.OK, err
    [failed] = events(Path("out"), "block-failed")
    assert failed["error"] == "machine-lost"
    assert str(failed["reason"]).startswith("the lab VM ended"), failed["reason"]
    assert "QEMU was killed by signal 9 (SIGKILL)" in str(failed["reason"]).partition("\n")[0]
    assert [event["lane"] for event in events(Path("out"), "retry")] == [failed["lane"]]
    assert "machines died under load" in " ".join(out.split())
    finishes(Path("out"), undisturbed)


@pytest.mark.slow
def test_ctrl_c_amid_blocks(undisturbed: Path) -> None:
    with Fairlane("run", "study.yaml", "--out", "out", "--jobs", "2") as fairlane:
        fairlane.hold_vm()
        fairlane.wait_for(lambda: trials(Path("out")), "first trial")
        fairlane.interrupt()
        fairlane.interrupt()  # an impatient user
        code, out, err = fairlane.end()
    assert (code, out) == (Exit.INTERRUPTED, ""), err
    assert "Error: interrupted\n" in err
    assert re.search(r"\nHint: .*\bfairlane run --resume out\n$", err)
    assert 0 < len(trials(Path("out"))) < TRIALS
    finishes(Path("out"), undisturbed)


def states(cache: Path) -> list[str]:
    return sorted(p.name for p in (cache / "states").iterdir() if p.is_dir())


@pytest.mark.slow
def test_ctrl_c_while_the_state_is_built(cache: Path) -> None:
    with Fairlane("run", "study.yaml", "--out", "out", env={"FAIRLANE_CACHE": str(cache)}) as fairlane:
        fairlane.hold_vm()  # which is set up
        fairlane.interrupt()
        code, _, err = fairlane.end()
    assert code == Exit.INTERRUPTED, err
    assert re.search(r"^Hint: .*\bfairlane run --resume out$", err, re.MULTILINE)
    assert states(cache) == []
    assert trials(Path("out")) == {}


@pytest.mark.slow
def test_killed_while_the_state_is_built(undisturbed: Path, cache: Path) -> None:
    """What is left half-built is not taken for a whole one, and goes; the one built then gives the same figures."""
    env = {"FAIRLANE_CACHE": str(cache)}
    with Fairlane("run", "study.yaml", "--out", "out", env=env) as fairlane:
        fairlane.hold_vm()  # which is set up
        fairlane.kill()
        fairlane.nothing_is_left()
    assert [name.split("-")[0] for name in states(cache)] == ["build"]
    assert trials(Path("out")) == {}
    finishes(Path("out"), undisturbed, env=env)
    assert len(states(cache)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ctrl-c", "kill"])
def test_ended_while_the_image_is_built(here: Path, way: str) -> None:
    (here / "tmp").mkdir()
    with Fairlane("lab", "build", env={"FAIRLANE_CACHE": str(here / "cache"), "TMPDIR": str(here / "tmp")}) as fairlane:
        fairlane.wait_for(lambda: list((here / "tmp").glob("mmdebstrap.*/*")), "folder that is filled")
        if way == "ctrl-c":
            fairlane.interrupt()
            assert fairlane.end()[0] == Exit.INTERRUPTED
            assert [p for p in (here / "cache" / "images").iterdir() if p.is_dir()] == []
        else:
            fairlane.kill()
            fairlane.nothing_is_left()
            assert not list((here / "cache" / "images").glob("*/manifest.json"))
    assert sum(p.stat().st_size for p in (here / "tmp").rglob("*") if p.is_file()) < 2**20  # of 500 MiB
