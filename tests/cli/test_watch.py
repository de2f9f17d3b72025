"""``fairlane watch``: a study in a terminal, and where there is none."""

import json
import os
import pty
import re
import shutil
import signal

import pytest

from fairlane.cli import _output, watch
from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.runs.journal import Journal
from fairlane.web.follow import Follower
from testkit.held import HeldRun
from testkit.process import Fairlane
from tests.words import kinds

STUDY = """\
name: small
question: "Is \\u001b[31mfast [bold]faster?"
platform: {kind: fake, effects: {fast: {speed: 1.3}}, noise: {sd: 1%}, failures: FAILURES}
lanes: {slow: {transport: iscsi}, fast: {transport: nvme_tcp, label: "fast \\u202e[red]"}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread, randwrite], bs: [4k, 64k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [6]}
"""


def study(folder, failures="0%"):
    path = folder / "study.yaml"
    path.write_text(STUDY.replace("FAILURES", failures))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = tmp_path_factory.mktemp("watched")
    assert run(["run", str(study(place, failures="5%")), "--out", str(place / "done")]) == Exit.OK
    return place / "done"


@pytest.fixture
def half(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "half")
    journal = tmp_path / "half" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:41]) + b'{"torn')
    return tmp_path / "half"


@pytest.mark.parametrize("columns", [80, None])
def test_once_prints_all_within_the_terminal_and_no_line_is_folded_in_a_pipe(finished, columns, capsys, monkeypatch):
    monkeypatch.setattr(_output, "width", lambda: columns)
    assert run(["watch", str(finished), "--once"]) == Exit.OK
    told = capsys.readouterr().out
    assert (max(map(len, told.splitlines())) <= 80) == bool(columns)
    assert r"Is \x1b[31mfast [bold]faster?" in told
    assert r"fast \u202e[red]" in told
    assert "\x1b" not in told
    (status,) = (line for line in told.splitlines() if line.startswith("complete  "))
    assert re.findall(r"\d+", status)[:2] == ["96", "96"]
    rows = [line for line in told.splitlines() if line.startswith(("4k", "64k"))]
    assert len(rows) == 8
    assert "exit code 1: fio: io_u error" in " ".join(told.split())
    assert "warning: " in told
    assert run(["verdicts", str(finished)]) == Exit.OK
    assert capsys.readouterr().out in told  # the same words as in any other command


def test_once_of_a_run_half_way(half, capsys):
    assert run(["watch", str(half), "--once"]) == Exit.OK
    told = capsys.readouterr().out
    (status,) = (line for line in told.splitlines() if line.startswith("interrupted  "))
    assert re.findall(r"\d+", status)[:2] == ["40", "96"]
    state = Follower(half, trusted=True).poll(check_now=True)
    assert state.phase == "interrupted"
    outcomes = {row.outcome for contest in state.contests for row in contest.rows}
    assert outcomes & {"open", "early"}
    assert state.rule in " ".join(told.split())


def test_a_run_that_nobody_carries_out_ends_the_watch(half, capsys, monkeypatch):
    monkeypatch.setattr(watch, "_PATIENCE", 0.2)
    assert run(["watch", str(half)]) == Exit.RUN_FAILED
    told = capsys.readouterr().err
    assert kinds(told) == ["run-idle"]
    assert f"fairlane run --resume {half}" in told


def test_a_finished_run_ends_at_once(finished, capsys):
    assert run(["watch", str(finished)]) == Exit.OK
    assert len(re.findall(r"^complete  96\b.*\b96\b", capsys.readouterr().out, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("damage", "kind", "told"), [("gone", "not-a-run", "half"), ("line", "journal-damaged", "journal.jsonl:2: ")]
)
def test_what_cannot_be_followed_is_said(half, capsys, damage, kind, told):
    if damage == "gone":
        shutil.rmtree(half)
    else:
        lines = (half / "journal.jsonl").read_bytes().splitlines(keepends=True)
        (half / "journal.jsonl").write_bytes(b"".join([lines[0], b"}\n", *lines[2:]]))
    assert run(["watch", str(half)]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == [kind]
    assert told in err


@pytest.mark.slow
def test_it_watches_a_study_to_its_end_on_a_terminal(tmp_path):
    """On a terminal of 80 columns and 24 lines: nothing is wider, and the last picture stays."""
    shape = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    with HeldRun("run", study(tmp_path), "--out", tmp_path / "r", "--jobs", "1") as runs:
        runs.let(1)
        ours, theirs = pty.openpty()
        with Fairlane("watch", tmp_path / "r", stdout=theirs, env=shape) as process:
            os.close(theirs)
            told = b""
            try:
                while chunk := os.read(ours, 65536):
                    told += chunk
                    if b"running" in told:
                        runs.release()
            except OSError:  # Linux: the other end was closed
                pass
            os.close(ours)
            assert process.end()[0] == 0
        assert runs.end()[0] == 0
    assert b"\x1b[31m" not in told
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", told.decode())
    assert "running" in text
    assert max(len(line) for line in re.split(r"[\r\n]+", text)) <= 80
    assert re.search(r"complete  96\b.*\b96\b", text[text.rindex("running") :])


@pytest.mark.slow
def test_without_a_terminal_it_says_plain_lines_and_ctrl_c_is_130(half):
    """Held by a lock, as if it were running."""
    with Journal(half), Fairlane("watch", half) as process:
        lines: list[str] = []
        while not lines or "96" not in lines[-1].split():
            lines.append(process.stdout.readline())
            assert lines[-1]
        process.send(signal.SIGINT)
        code, _, complaint = process.end()
    assert code == Exit.INTERRUPTED
    assert "interrupted" in complaint
    assert json.dumps(lines).count("\\u001b") == 0
