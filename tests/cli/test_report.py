"""``fairlane report`` on a real run of the fake platform."""

import json
import re

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.words import kinds

STUDY = """\
name: small
question: Is fast faster?
platform: {kind: fake, effects: {fast: {speed: 1.3}}, noise: {sd: 1%}}
lanes: {slow: {transport: iscsi}, fast: {transport: nvme_tcp, label: The <fast> lane}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [6]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--out", str(place / "done")]) == Exit.OK
    return place / "done"


def test_it_writes_both_files_and_prints_where(folder, tmp_path, capsys):
    assert run(["report", str(folder), "--out", str(tmp_path)]) == Exit.OK
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "report.html"), str(tmp_path / "report.md")]
    page = (tmp_path / "report.html").read_text()
    assert page.index('class="badge caution') < page.index("Is fast faster?")
    for text in (page, (tmp_path / "report.md").read_text()):
        answer = text.partition("Is fast faster?")[2]
        answer = answer[answer.index("The &lt;fast&gt; lane") :].partition("2 cells")
        answer = answer[0] + answer[1]
        assert "slow" in answer
        assert "2" in re.findall(r"\d+", answer)


def test_every_raw_file_that_the_report_names_is_there(folder):
    assert run(["report", str(folder)]) == Exit.OK
    links = set(re.findall(r'href="(raw/[^"]+)"', (folder / "report.html").read_text()))
    assert len(links) == 24
    assert all((folder / link).is_file() for link in links)


def test_paths_as_json(folder, tmp_path, capsys):
    assert run(["report", str(folder), "--out", str(tmp_path), "--format", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {
        "html": str(tmp_path / "report.html"),
        "md": str(tmp_path / "report.md"),
    }


def test_writing_it_again_gives_the_same_bytes(folder, tmp_path):
    for name in ("a", "b"):
        assert run(["report", str(folder), "--out", str(tmp_path / name)]) == Exit.OK
    for file in ("report.html", "report.md"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_what_is_no_run_is_said(tmp_path, capsys):
    assert run(["report", str(tmp_path)]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["not-a-run"]


def test_a_folder_that_cannot_be_written_is_said(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["report", str(folder), "--out", str(tmp_path / "file" / "below")]) == Exit.USER_ERROR
    assert "Error: " in capsys.readouterr().err
