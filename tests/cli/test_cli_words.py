"""The words of the command line, held by one snapshot: help pages, errors, and what a finished run prints."""

import re
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from syrupy.assertion import SnapshotAssertion

from fairlane.cli.main import main, run
from tests.cli import test_before, test_compare_command, test_curves_command, test_gate_command, test_watch

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_help(name: str, capsys: Captured, snapshot: SnapshotAssertion) -> None:
    run([name, "--help"])
    assert capsys.readouterr().out == snapshot


def told(capsys: Captured, *lines: Sequence[str]) -> dict[str, str]:
    """What command lines print on stdout and stderr."""
    out = {}
    for line in lines:
        capsys.readouterr()
        run(list(line))
        out[" ".join(line)] = "".join(capsys.readouterr())
    return out


def test_errors(capsys: Captured, snapshot: SnapshotAssertion) -> None:
    Path("taken.yaml").write_text("")
    assert snapshot == told(
        capsys,
        ["shcema"],
        ["zzz"],
        ["init", "dmeo"],
        ["init", "-o", "taken.yaml"],
        ["init"],
        ["run", "dem0"],
        ["run", "demo", "--resume"],
        ["report", "."],
        ["serve", "none"],
        ["serve", "taken.yaml"],
        ["serve", "--host", "no.such.host.invalid"],
        ["replicate", "--study", "9"],
        ["cluster", "rbac", "fake"],
        ["cluster", "rbac", "--user", "a", "--group", "b"],
        ["cluster", "manifests", "study-000-fio", "--image", "i", "--runs-size", "much"],
        ["import", "x"],
        ["import", "taken.yaml", "--out", "out"],
    )


def test_what_is_said_before_the_first_trial(capsys: Captured, snapshot: SnapshotAssertion) -> None:
    test_before.write()
    nothing = told(capsys, ["study", "check", "study.yaml"])
    test_before.write(rep3="4+2", platform=", effects: {ghost: {speed: 2}, ghots: {speed: 2}}")
    assert [nothing, told(capsys, ["run", "study.yaml"])] == snapshot


def carried_out(text: str, name: str) -> None:
    Path(f"{name}.yaml").write_text(text)
    run(["run", f"{name}.yaml", "--out", name, "--unjudged", "--jobs", "1"])


def test_a_run_that_is_watched_and_judged(capsys: Captured, snapshot: SnapshotAssertion) -> None:
    carried_out(test_watch.STUDY.replace("PACE", "0s").replace("FAILURES", "5%"), "watched")
    assert snapshot == told(
        capsys,
        ["watch", "watched", "--once"],
        ["check", "watched", "--differing"],
        ["check", "watched", "--lane", "slwo"],
        ["gate", "watched", "--rule", test_gate_command.GOOD, "--rule", "fast >= 60 % over slow on 64k"],
        ["gate", "watched", "--rule", "fast is fast"],
        ["pilot", "watched"],
        ["curves", "watched"],
        ["figure", "watched", "nope"],
        ["verdicts", "watched", "--metric", "latp99"],
    )


@pytest.mark.slow
def test_curves(capsys: Captured, snapshot: SnapshotAssertion) -> None:
    carried_out(test_curves_command.STUDY, "ladder")
    assert told(capsys, ["curves", "ladder"], ["curves", "ladder", "--slo", "lat_p99=0ms"]) == snapshot


def test_two_runs_compared(capsys: Captured, snapshot: SnapshotAssertion) -> None:
    text = test_compare_command.STUDY.replace("BS", "64k")
    carried_out(text.replace("SPEED", "1.3").replace("SEED", "3"), "before")
    carried_out(text.replace("SPEED", "1.17").replace("SEED", "4"), "after")
    said = told(
        capsys,
        ["compare", "before", "after"],
        ["compare", "before"],
        ["compare", "before", "before"],
        ["compare", "before", "after", "--baseline", "third"],
    )
    assert {line: re.sub(r"\d{4}-\d\d-\d\d", "YYYY-MM-DD", text) for line, text in said.items()} == snapshot
