"""``fairlane completion``: the scripts, and what the shell gets when it asks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == Exit.OK
    script = capsys.readouterr().out
    assert "_FAIRLANE_COMPLETE" in script
    if path := shutil.which(shell):
        subprocess.run([path, "-n"], input=script, text=True, check=True)


def complete(*words: str) -> set[str]:
    """What bash would be offered for the last of ``words``."""
    env = os.environ | {
        "_FAIRLANE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("fairlane", *words)),
        "COMP_CWORD": str(len(words)),
    }
    program = Path(sys.executable).with_name("fairlane")
    out = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout
    return {line.partition(",")[2] for line in out.splitlines()}


def test_commands_and_options() -> None:
    assert complete("s") >= {"schema", "study"}
    assert complete("study", "") == {"check"}
    assert "--strict" in complete("compare", "--")
    assert complete("completion", "z") == {"zsh"}


def test_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "csh"]) == Exit.USAGE
    assert "csh" in capsys.readouterr().err
