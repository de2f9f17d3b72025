"""Following a run: what it makes of a growing journal is what reading the whole run would make of it."""

import json
import math
import random
import shutil

import pytest

from fairlane.checks.base import run_all
from fairlane.cli.main import run as fairlane
from fairlane.errors import FairlaneError
from fairlane.report.text import DASH
from fairlane.runs import journal
from fairlane.runs.read import load_run
from fairlane.web.follow import Follower
from fairlane.web.reading import Gone
from tests.figures import figures
from tests.web.conftest import cut
from tests.words import kind

EVIL = r"The <script>alert(1)</script> lane \u202eevil"


def lines(folder):
    return (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)


def test_at_every_moment_it_knows_what_reading_the_whole_run_gives(root):
    """The journal grows by arbitrary pieces, lines torn anywhere; after each the evidence is the same."""
    run = root / "done"
    whole = (run / "journal.jsonl").read_bytes()
    cut(run, 0)
    follower, at = Follower(run), 0
    rng = random.Random(1)  # noqa: S311
    while at < len(whole):
        at = min(len(whole), at + rng.randrange(1, 1500))
        with (run / "journal.jsonl").open("r+b") as file:  # the same file, as it grows
            file.write(whole[:at])
        follower.poll()
        assert follower.evidence() == load_run(run)
    assert follower.evidence().complete


def test_what_is_known_is_read_once(root):
    run = root / "done"
    follower = Follower(run)
    follower.poll()
    shutil.rmtree(run / "raw")
    state = follower.poll()
    assert (state.phase, state.done, state.failures) == ("complete", 24, ())


def test_intervals_and_words(root):
    run = root / "done"
    cut(run, 1 + 24)  # all trials, and no look yet
    state = Follower(run).poll()
    (contest,) = state.contests
    assert (contest.metric, contest.lane, contest.baseline) == ("IOPS", EVIL, "slow")
    assert EVIL in contest.title
    assert [(row.cell, row.outcome, row.blocks) for row in contest.rows] == [
        ("4k randread qd1", "better", 6),
        ("4k randread qd16", "better", 6),
    ]
    for row in contest.rows:
        assert row.low is not None
        assert row.high is not None
        assert 1.05 < row.low < 1.3 < row.high < 1.6  # the platform's truth is 1.3
    assert figures(state.status) == ["24", "24", "2", "2"]
    assert state.cells == (2, 2)


def test_of_a_run_that_has_ended_only_the_verdicts_speak(root):
    """The intervals that hold at any moment are wider: beside the verdicts they would contradict them."""
    state = Follower(root / "done").poll()
    assert (state.phase, state.contests, state.rule) == ("complete", (), "")


def test_half_way_cells_are_open_and_nothing_claims_more(root):
    run = root / "done"
    cut(run, 1 + 8, torn=b'{"type": "tri')
    state = Follower(run).poll()
    assert (state.phase, state.done, state.due) == ("interrupted", 8, 24)
    assert {row.outcome for row in state.contests[0].rows} == {"open"}
    assert state.cells == (0, 2)
    assert "unfinished_run" not in {f.check for f in state.findings}


def test_the_estimate_is_what_is_left_at_the_pace_seen(root):
    run = root / "done"
    head, *rest = lines(run)
    slow = [json.dumps({**json.loads(line), "seconds": 3.0}).encode() + b"\n" for line in rest[:8]]
    (run / "journal.jsonl").write_bytes(
        json.dumps({**json.loads(head), "workers": 2}).encode() + b"\n" + b"".join(slow)
    )
    assert math.isclose(Follower(run).poll().seconds, 16 * 3.0 / 2)


def test_a_look_that_ends_a_cell_ends_its_row(root):
    run = root / "done"
    events = [json.loads(line) for line in lines(run)]
    key = events[1]["cell"]
    cut(run, 25)
    with (run / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"type": "look", "look": 0, "blocks": 6, "open": [key], "at": "x"}) + "\n")
    rows = Follower(run).poll().contests[0].rows
    assert {row.key: row.ended for row in rows} == {row.key: row.key != key for row in rows}
    assert {row.outcome for row in rows if row.ended} == {"better"}
    assert len({row.text for row in rows}) == 2  # the end is told


def test_a_failed_trial_and_a_failed_block_are_told(studies, tmp_path):
    fairlane(["run", str(studies.write(more=", failures: 20%", looks="[12]")), "--out", str(tmp_path / "r")])
    with (tmp_path / "r" / "journal.jsonl").open("a") as file:
        file.write(
            json.dumps({"type": "block-failed", "cell": "c", "block": 1, "reason": "the \x1b[31mguest died"}) + "\n"
        )
    state = Follower(tmp_path / "r").poll()
    assert "c.b1" in state.failures[0]
    assert r"the \x1b[31mguest died" in state.failures[0]
    assert state.failed == sum(bool(o.failed) for o in load_run(tmp_path / "r").observations) > 0
    assert any("exit code 1" in line for line in state.failures)


def test_what_a_finding_refuses_has_no_interval(studies, tmp_path):
    path = studies.write()
    path.write_text(path.read_text().replace("transport: nvme_tcp", "transport: nfs"))
    assert fairlane(["run", str(path), "--unjudged", "--out", str(tmp_path / "r")]) == 0
    cut(tmp_path / "r", 1 + 24)
    state = Follower(tmp_path / "r").poll()
    assert [(row.outcome, row.low, row.interval) for row in state.contests[0].rows] == [("refused", None, DASH)] * 2
    assert state.cells == (0, 2)
    assert [f.severity for f in state.findings if (f.check, f.kind) == ("unmatched", "refused")] == ["critical"]


def test_a_line_that_cannot_be_read_is_named(root):
    run = root / "done"
    follower = Follower(run)
    all_lines = lines(run)
    cut(run, 4)
    follower.poll()
    all_lines[6] = b"{{{\n"
    (run / "journal.jsonl").write_bytes(b"".join(all_lines))
    with pytest.raises(FairlaneError, check=kind("journal-damaged", f"{run}/journal.jsonl:7")):
        follower.poll()


def test_an_event_that_does_not_fit_is_named(root):
    run = root / "done"
    cut(run, 5)
    with (run / "journal.jsonl").open("a") as file:
        file.write('{"type": "trial", "cell": "none", "block": 0, "lane": "slow", "raw": "x", "sha256": "x"}\n')
    with pytest.raises(FairlaneError, check=kind("journal-damaged", f"{run}/journal.jsonl:6")):
        Follower(run).poll()


def test_a_damaged_raw_file_counts_as_not_done(root):
    run = root / "done"
    (victim := next((run / "raw").iterdir())).write_bytes(b"not it")
    state = Follower(run).poll()
    assert (state.done, state.phase) == (23, "interrupted")
    (line,) = state.failures
    assert victim.name[:-7] in line


def test_a_run_that_is_deleted_is_gone(root):
    follower = Follower(root / "done")
    follower.poll()
    shutil.rmtree(root / "done")
    with pytest.raises(Gone, check=kind("run-gone", str(root / "done"))):
        follower.poll()


def test_a_journal_that_was_put_back_is_read_anew(root):
    run = root / "done"
    follower = Follower(run)
    assert follower.poll().done == 24
    cut(run, 9)
    assert follower.poll().done == 8
    assert follower.evidence() == load_run(run)


def test_a_run_under_its_lock_is_running(root):
    run = root / "done"
    cut(run, 9)
    follower = Follower(run)
    assert follower.poll().phase == "interrupted"
    with journal.Journal(run):
        assert follower.poll().phase == "running"
    assert follower.poll().phase == "interrupted"


def test_checks_are_run_now_and_then_not_for_every_trial(root, monkeypatch):
    """At most every five seconds, by a clock that the test moves."""
    run, now, asked = root / "done", [0.0], []

    def counted(evidence):
        asked.append(len(evidence.observations))
        return run_all(evidence)

    monkeypatch.setattr("fairlane.web.follow.run_all", counted)
    all_lines = lines(run)
    cut(run, 5)
    follower = Follower(run, clock=lambda: now[0])
    for n in range(6, 20):
        now[0] += 1.0
        (run / "journal.jsonl").write_bytes(b"".join(all_lines[:n]))
        follower.poll()
    assert asked == [5, 10, 15]
    follower.poll(check_now=True)
    assert asked == [5, 10, 15, 18]
    follower.poll(check_now=True)  # nothing new
    assert asked == [5, 10, 15, 18]


def test_links_are_not_followed_but_for_who_asked_by_name(root, tmp_path):
    run = root / "done"
    shutil.move(run / "raw", tmp_path / "elsewhere")
    (run / "raw").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FairlaneError, check=kind("not-a-file", str(run / "raw"))):
        Follower(run)
    assert Follower(run, trusted=True).poll().done == 24
