"""Ctrl-C while the lab image is built, with a stand-in for mmdebstrap: no download, no VM."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_process import Fairlane

from fairlane.errors import Exit

TO_THE_END = "while [ ! -e {here}/over ]; do sleep 0.05; done"


@pytest.fixture
def building(tmp_path: Path) -> Iterator[Callable[[str], Fairlane]]:
    """``fairlane lab build`` with a shell script for mmdebstrap, started where SIGINT is ignored: a script's ``&``."""
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def start(script: str) -> Fairlane:
        stand_in = tmp_path / "bin" / "mmdebstrap"
        stand_in.parent.mkdir()
        stand_in.write_text("#!/bin/sh\n" + script.format(here=tmp_path))
        stand_in.chmod(0o755)
        path = f"{stand_in.parent}:{os.environ['PATH']}"
        return Fairlane("lab", "build", env={"PATH": path, "FAIRLANE_CACHE": str(tmp_path / "cache")})

    yield start
    (tmp_path / "over").touch()
    signal.signal(signal.SIGINT, ours)


@pytest.mark.parametrize("trap", ["exit 0", "exit 1", ""], ids=["ends well", "fails", "does not hear"])
def test_ctrl_c_ends_the_build_however_mmdebstrap_takes_it(
    tmp_path: Path, building: Callable[[str], Fairlane], trap: str
) -> None:
    with building(f"trap '{trap}' INT\ntouch {{here}}/begun\n{TO_THE_END}") as fairlane:
        fairlane.wait_for((tmp_path / "begun").exists, "mmdebstrap that has begun")
        fairlane.interrupt()
        code, out, err = fairlane.end()
    assert (code, out) == (Exit.INTERRUPTED, "")
    assert err.splitlines()[-1].startswith("Error: ")
    assert [p for p in (tmp_path / "cache" / "images").iterdir() if p.is_dir()] == []


def test_ctrl_c_does_not_wait_for_a_child_of_mmdebstrap_that_goes_on(
    tmp_path: Path, building: Callable[[str], Fairlane]
) -> None:
    with building(f"({TO_THE_END}) &\ntouch {{here}}/begun\n{TO_THE_END}") as fairlane:
        fairlane.wait_for((tmp_path / "begun").exists, "mmdebstrap that has begun")
        fairlane.interrupt()
        assert fairlane.process.wait() == Exit.INTERRUPTED
        (tmp_path / "over").touch()
        fairlane.end()
