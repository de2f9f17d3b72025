"""Programs that the lab needs: missing ones, and a QEMU that is not the one a run began with."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from lab_process import carried_out, same

from fairlane.checks.base import run_all
from fairlane.errors import Exit
from fairlane.platforms.lab import qemu
from fairlane.runs.read import load_run
from tests.words import kinds

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("undisturbed"),
    pytest.mark.usefixtures("here"),
    pytest.mark.timeout(1800),
]


def test_qemu_missing_is_one_error_with_its_fix(programs: Callable[..., str]) -> None:
    path = programs("mmdebstrap", "setpriv", "sh", "cat")
    out, err = carried_out("run", "study.yaml", "--out", "out", code=Exit.USER_ERROR, env={"PATH": path})
    assert out == ""
    error, hint = err.splitlines()
    assert (kinds(error), qemu.BINARY in error) == (["program-missing"], True)
    assert re.search(r"\bmake setup\b.*\bqemu-system-x86\b", hint)
    assert not Path("out").exists()


@pytest.mark.slow
def test_mmdebstrap_missing_matters_where_the_image_is_not_cached(
    programs: Callable[..., str], undisturbed: Path, here: Path
) -> None:
    path = programs(qemu.BINARY, "setpriv", "sh", "cat")
    env = {"PATH": path, "FAIRLANE_CACHE": str(here / "empty")}
    _, err = carried_out("run", "study.yaml", "--out", "out", code=Exit.USER_ERROR, env=env)
    error, hint = err.splitlines()
    assert (kinds(error), "mmdebstrap" in error, "make setup" in hint) == (["program-missing"], True, True)
    assert not Path("out").exists()
    carried_out("run", "study.yaml", "--out", "out", env={"PATH": path})
    same(Path("out"), undisturbed)


@pytest.mark.slow
def test_another_qemu_after_a_resume_is_told(undisturbed: Path, cache: Path, here: Path) -> None:
    """A QEMU that only calls itself another version: the figures stay, the doubt is said."""
    other = here / "bin" / qemu.BINARY
    other.parent.mkdir()
    other.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "QEMU emulator version 0.1 (other)" && exit\n'
        f'exec {shutil.which(qemu.BINARY)} "$@"\n'
    )
    other.chmod(0o755)
    shutil.copytree(undisturbed, "out")
    lines = Path("out/journal.jsonl").read_bytes().splitlines(keepends=True)
    Path("out/journal.jsonl").write_bytes(b"".join(lines[:6]))
    env = {"PATH": f"{other.parent}:{os.environ['PATH']}", "FAIRLANE_CACHE": str(cache)}
    out, err = carried_out("run", "--resume", "out", env=env)
    assert re.search(rf"\bqemu\b.*{re.escape(qemu.version())}.*\b0\.1 \(other\)", err)
    (found,) = (f for f in run_all(load_run(Path("out"))) if f.check == "mixed_versions" and f.severity == "critical")
    assert found.evidence == {"qemu": [qemu.version(), "0.1 (other)"]}
    assert " ".join(found.message.split()) in " ".join(out.split())
    verdicts = json.loads(Path("out/verdicts.json").read_text())
    assert not any(v["headline"] for v in verdicts)
    assert Path("out/observations.jsonl").read_bytes() == (undisturbed / "observations.jsonl").read_bytes()
