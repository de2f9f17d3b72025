"""``fairlane completion``: the scripts, and what the shell gets when it asks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.words import kinds

PROGRAM = Path(sys.executable).with_name("fairlane")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "show", shell]) == Exit.OK
    script = capsys.readouterr().out
    assert "_FAIRLANE_COMPLETE" in script
    if path := shutil.which(shell):
        subprocess.run([path, "-n"], input=script, text=True, check=True)


ASK = {
    "bash": '. "$0"; COMP_WORDS=(fairlane st) COMP_CWORD=1; _fairlane_completion fairlane; echo "${COMPREPLY[@]}"',
    "fish": 'complete -C "fairlane st"',
}
"""Shell -> a command that asks the installed script for what begins with st."""


@pytest.mark.parametrize(
    ("shell", "path"),
    [
        ("bash", ".local/share/bash-completion/completions/fairlane"),
        ("zsh", ".zfunc/_fairlane"),
        ("fish", ".config/fish/completions/fairlane.fish"),
    ],
)
def test_install_writes_where_the_shell_looks(
    shell: str, path: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert run(["completion", "install", "--dry-run"]) == Exit.OK
    assert capsys.readouterr().out == f"{home / path}\n"
    assert not (home / path).exists()
    assert run(["completion", "install"]) == Exit.OK
    assert capsys.readouterr().out == f"{home / path}\n"
    before = (home / path).stat().st_mtime_ns
    assert run(["completion", "install", shell]) == Exit.OK
    assert "already" in capsys.readouterr().out
    assert (home / path).stat().st_mtime_ns == before
    if shell == "zsh":
        body = (home / path).read_text().rpartition("}")[2].split()
        assert body == ["_fairlane_completion", '"$@"'], "it completes at every call, not at the first alone"
    if shell in ASK and (program := shutil.which(shell)):
        words = [program, "-c", ASK[shell], *([str(home / path)] if shell == "bash" else [])]
        asked = subprocess.run(words, capture_output=True, text=True, check=True)
        assert "study" in asked.stdout


def test_install_for_a_shell_without_completion(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for shell in ("/bin/dash", ""):
        monkeypatch.setenv("SHELL", shell)
        assert run(["completion", "install"]) == Exit.USER_ERROR
        assert kinds(capsys.readouterr().err) == ["shell-unknown"]


def complete(*words: str) -> set[str]:
    """What bash would be offered for the last of ``words``."""
    env = os.environ | {
        "_FAIRLANE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("fairlane", *words)),
        "COMP_CWORD": str(len(words)),
    }
    out = subprocess.run([PROGRAM], env=env, capture_output=True, text=True, check=True).stdout
    return {line.partition(",")[2] for line in out.splitlines()}


def test_commands_and_options() -> None:
    assert complete("s") >= {"schema", "study"}
    assert complete("study", "") == {"check"}
    assert "--strict" in complete("compare", "--")
    assert complete("completion", "show", "z") == {"zsh"}


def test_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "show", "csh"]) == Exit.USAGE
    assert "csh" in capsys.readouterr().err
