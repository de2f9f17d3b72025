"""Asking the lab: each study once, finished runs taken as they are, what fails told; on the fake platform."""

from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane_replication.claims import Catalogue
from fairlane_replication.judge import UNKNOWN, WHOLE_ONLY, Answer
from fairlane_replication.runner import plan, replicate
from testkit.held import HeldRun
from testkit.process import events
from tests.replication.fakes import NOISY, STUDY, catalogue, lab_claim, silent
from tests.words import kind

CLAIMS = (
    lab_claim("up faster than", number=1),
    lab_claim("down faster than", number=2),
    lab_claim("up faster than", study="noisy", number=3),
)
DYING = NOISY.replace("noise: { sd: 30% }", "deaths: 100%")


def two(second: str = NOISY) -> Catalogue:
    return catalogue(*CLAIMS, truth=STUDY, noisy=second)


def ask(asked: Catalogue, out: Path, *, quick: bool = True, jobs: int = 2, resume: bool = False) -> tuple[Answer, ...]:
    said: list[str] = []
    return replicate(asked, out, quick=quick, jobs=jobs, resume=resume, watching=silent, notify=said.append)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_each_study_is_run_once_into_a_folder_of_its_own(tmp_path: Path) -> None:
    answers = ask(two(), tmp_path)
    assert [a.word for a in answers] == ["agree", "disagree", UNKNOWN]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["noisy", "truth"]
    assert (tmp_path / "truth" / "report.html").is_file()


@pytest.mark.slow
def test_the_whole_form_is_another_run(tmp_path: Path) -> None:
    assert [a.cells for a in ask(two(), tmp_path / "whole", quick=False)] == [2, 2, 1]
    assert [a.cells for a in ask(two(), tmp_path / "quick")] == [1, 1, 1]


def test_finished_runs_are_taken_as_they_are(tmp_path: Path) -> None:
    first = ask(two(), tmp_path)
    before = files(tmp_path)
    assert ask(two(), tmp_path, resume=True) == first
    assert files(tmp_path) == before


def test_without_resume_nothing_is_touched(tmp_path: Path) -> None:
    ask(two(), tmp_path)
    before = files(tmp_path)
    with pytest.raises(FairlaneError, check=kind("run-exists")) as caught:
        ask(two(), tmp_path)
    assert "--resume" in caught.value.hint
    assert files(tmp_path) == before


def test_runs_of_another_form_or_version_are_not_mixed(tmp_path: Path) -> None:
    ask(two(), tmp_path)
    with pytest.raises(FairlaneError, check=kind("run-form", where=str(tmp_path / "truth"))):
        ask(two(), tmp_path, quick=False, resume=True)
    with pytest.raises(FairlaneError, check=kind("run-version", where=str(tmp_path / "noisy"))):
        ask(two(NOISY.replace("1.05", "1.06")), tmp_path, resume=True)


ASK = """
from pathlib import Path
from tests.replication.test_asking import ask, two
ask(two(), Path(sys.argv[1]), jobs=1)
"""


@pytest.mark.slow
def test_after_a_kill_only_what_is_missing_is_done(tmp_path: Path) -> None:
    out, journal = tmp_path / "killed", tmp_path / "killed" / "noisy" / "journal.jsonl"
    first, _ = plan(two(), out, quick=True, jobs=1)
    with HeldRun(out, code=ASK) as asking:
        asking.let(first.trials + 2)
        asking.kill()
    assert len(events(out / "noisy", "trial")) == 2
    whole, begun = files(out / "truth"), journal.read_text()
    answers = ask(two(), out, resume=True)
    assert files(out / "truth") == whole
    assert journal.read_text().startswith(begun)
    assert answers == ask(two(), tmp_path / "undisturbed")


def test_a_study_that_fails_leaves_its_claims_open_and_the_others_go_on(tmp_path: Path) -> None:
    asked = catalogue(CLAIMS[2], *CLAIMS[:2], noisy=DYING, truth=STUDY)  # the one that fails is the first
    answers = ask(asked, tmp_path)
    assert [a.word for a in answers] == [UNKNOWN, "agree", "disagree"]
    assert "main.4k-randread-qd16.b002" in answers[0].why, "the third block that failed in a row"


def test_what_a_machine_lacks_is_told_before_anything_runs(tmp_path: Path) -> None:
    lacking = NOISY.replace("effects: { up:", "effects: { nobody:")
    answers = ask(two(lacking), tmp_path)
    assert "'nobody'" in answers[2].why
    assert not (tmp_path / "noisy").exists()


def test_a_study_without_a_quick_form_waits_for_the_whole_one(tmp_path: Path) -> None:
    whole_only = "\n".join(line for line in NOISY.splitlines() if not line.startswith("quick"))
    asked = two(whole_only)
    assert [p.left_out for p in plan(asked, tmp_path, quick=True, jobs=1)] == [False, True]
    why = ask(asked, tmp_path)[2].why
    assert WHOLE_ONLY in why
    assert "--quick" in why
    assert not (tmp_path / "noisy").exists()


def test_the_plan_counts_claims_and_trials_and_changes_nothing(tmp_path: Path) -> None:
    steps = plan(two(), tmp_path / "none", quick=True, jobs=1)
    assert [(s.name, len(s.claims), s.trials, s.finished) for s in steps] == [
        ("truth", 2, 6 * 7, False),
        ("noisy", 1, 4 * 2, False),
    ]
    assert not (tmp_path / "none").exists()
    ask(two(), tmp_path / "done")
    assert [s.seconds for s in plan(two(), tmp_path / "done", quick=True, jobs=1)] == [0.0, 0.0]
