"""``fairlane run`` on the lab, as a user's process: the same figures, however it is run."""

import os
import subprocess
from pathlib import Path

import pytest
from lab_process import carried_out, same, trials

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("undisturbed"),
    pytest.mark.usefixtures("here"),
    pytest.mark.timeout(1800),
]


@pytest.mark.slow
def test_one_job_gives_the_bytes_of_two(undisturbed: Path) -> None:
    carried_out("run", "study.yaml", "--out", "out", "--jobs", "1")
    same(Path("out"), undisturbed)


@pytest.mark.slow
def test_a_loaded_machine_gives_the_same_bytes(undisturbed: Path) -> None:
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        carried_out("run", "study.yaml", "--out", "out", "--jobs", "2")
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    same(Path("out"), undisturbed)


@pytest.mark.slow
def test_another_seed_gives_other_figures(undisturbed: Path) -> None:
    carried_out("run", "study.yaml", "--out", "out", "--seed", "2")
    assert trials(Path("out")).keys() == trials(undisturbed).keys()
    assert not trials(Path("out")).items() & trials(undisturbed).items()
    assert Path("out/observations.jsonl").read_bytes() != (undisturbed / "observations.jsonl").read_bytes()
