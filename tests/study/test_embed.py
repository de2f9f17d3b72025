"""Job files become part of the study's text, so that a run is resumed with what it began with."""

from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.runs import plan
from fairlane.study.embed import embedded
from fairlane.study.load import load_study, parse_study
from tests.words import kind

JOB = "[log]\nioengine=psync\ndirect=1\nrw=write\n  fdatasync=1\n\nbs=2k\n"
STUDY = """\
name: own  # a comment
platform: {kind: fake}
baseline: a
lanes: {a: {transport: local}, b: {transport: local}}
workloads:
  block: {kind: fio, job_file: jobs/a.fio, runtime: 1s}
  lines:
    kind: fio
    job_file: "jobs/a.fio"
    runtime: 1s
  last:
    kind: fio
    runtime: 1s
    job_file: jobs/a.fio  # the one we run
design: {looks: [2]}
quick:
  workloads:
    lines: {job_file: jobs/b.fio}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.fio").write_text(JOB)
    (tmp_path / "jobs" / "b.fio").write_text(JOB.replace("2k", "4k\t; \u00b5"))
    path = tmp_path / "s.yaml"
    path.write_text(STUDY)
    return path


def test_the_text_of_a_job_file_takes_the_place_of_its_path(study: Path) -> None:
    read, text = load_study(str(study))
    for name in ("block", "lines", "last"):
        assert getattr(read.workloads[name], "job_file").strip().splitlines() == JOB.strip().splitlines()  # noqa: B009
    assert "    job_file: |  # jobs/a.fio\n      [log]\n" in text
    assert text.startswith("name: own  # a comment\n")
    assert parse_study(text, "again").cells() == read.cells()
    short, _ = load_study(str(study), quick=True)
    assert short.workloads["lines"].cells("m")[0].params["bs"] is not None
    assert embedded(text, pytest.fail) == text


def test_a_run_keeps_the_job_file_it_began_with(study: Path, tmp_path: Path) -> None:
    made = plan.make(*load_study(str(study)))
    plan.create(tmp_path / "run", made)
    (study.parent / "jobs" / "a.fio").write_text(JOB.replace("2k", "64k"))
    again = plan.read(tmp_path / "run")
    assert again.study.cells() == made.study.cells()
    assert [c.params for c in again.study.cells()] == [c.params for c in made.study.cells()]
    changed = load_study(str(study))
    assert plan.make(*changed).sha256 != made.sha256  # a changed job file is another study


def test_a_path_that_leads_nowhere_is_said_with_its_place(study: Path) -> None:
    (study.parent / "jobs" / "a.fio").unlink()
    with pytest.raises(FairlaneError, check=kind("job-file-missing")) as raised:
        load_study(str(study))
    assert raised.value.where == str(study)


def test_a_job_file_with_an_error_names_it(study: Path) -> None:
    (study.parent / "jobs" / "a.fio").write_text(JOB + "nrfiles=4\n")
    with pytest.raises(FairlaneError) as raised:
        load_study(str(study))
    assert "nrfiles" in str(raised.value)
    assert "job-file-option" in str(raised.value)


@pytest.mark.parametrize(
    "text", ["", "job_file: [", "job_file: {a: b}", "- job_file", "job_file:", "job_file: |\n  a\n  b\n"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert embedded(text, pytest.fail) == text
