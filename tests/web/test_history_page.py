"""Badges, and a study over time: its runs, the answer of each, and what changed between any two."""

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from fairlane.cli.main import run as fairlane
from fairlane.report.text import MINUS
from fairlane.web.catalogue import Catalogue
from fairlane.web.history import Dated, figures
from fairlane.web.reading import load
from tests.web.conftest import Studies, cut

OTHER = """\
name: small
question: Is fast faster?
platform: {kind: fake, effects: {slow: {speed: 0.5}, fast: {speed: 1.3}}, noise: {sd: 1%}}
lanes: {slow: {transport: iscsi}, fast: {transport: nvme_tcp}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 4, looks: [6]}
"""


@pytest.fixture(scope="module")
def halved(tmp_path_factory):
    """A later run of the same study, whose baseline has half the speed."""
    place = tmp_path_factory.mktemp("halved")
    (place / "small.yaml").write_text(OTHER)
    assert fairlane(["run", str(place / "small.yaml"), "--out", str(place / "later")]) == 0
    return place / "later"


@pytest.fixture
def two(root, halved):
    shutil.copytree(halved, root / "later")
    dated(root / "done", "2026-01-01T00:00:00")
    dated(root / "later", "2026-01-02T00:00:00")
    return root


def dated(run, when):
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "created": when}))


def badges(entry):
    return [badge.text for badge in entry.badges]


def only(root):
    (entry,) = Catalogue(root).entries().values()
    return entry


def checked(asked, path="/"):
    """The list once the background has checked every run."""
    ends = time.monotonic() + 240
    while True:
        state = asked.get("/runs.json").json()
        if all(run["critical"] is not None or run["state"] == "damaged" for run in state["runs"]):
            return asked.get(path).text
        assert time.monotonic() < ends


def test_an_invented_run_says_so_in_list_and_page(client, root):
    assert badges(only(root)) == ["invented"]
    for path in ("/", "/runs/done/", "/studies/small/"):
        assert 'class="badge invented"' in client(root).get(path).text


@pytest.mark.parametrize("kind", ["modelled", "emulated"])
def test_figures_of_no_hardware_say_so(root, kind):
    journal = root / "done" / "journal.jsonl"
    journal.write_text(journal.read_text().replace(f'"{kind}": false', f'"{kind}": true', 1))
    assert badges(only(root)) == ["invented", kind]
    assert getattr(load(root / "done"), kind)


def test_half_a_run_and_a_quick_one_say_so(root, tmp_path):
    cut(root / "done", 9)
    assert badges(only(root)) == ["invented", "incomplete"]
    study = Studies(tmp_path).write()
    study.write_text(f"{study.read_text()}quick: {{design: {{looks: [2]}}}}\n")
    assert fairlane(["run", str(study), "--quick", "--out", str(tmp_path / "q" / "run")]) == 0
    assert badges(only(tmp_path / "q")) == ["invented", "quick"]


def test_results_of_others_say_so(tmp_path):
    study = Path(__file__).parents[2] / "examples" / "study-003"
    code = fairlane(
        ["import", str(study / "roks.csv"), "--map", str(study / "roks.yaml"), "--out", str(tmp_path / "r")]
    )
    assert code == 0
    assert badges(only(tmp_path)) == ["imported"]


def test_critical_findings_are_counted_once_the_checks_have_run(client, studies, tmp_path):
    path = studies.write()
    path.write_text(path.read_text().replace("transport: nvme_tcp", "transport: nfs"))
    assert fairlane(["run", str(path), "--unjudged", "--out", str(tmp_path / "runs" / "r")]) == 0
    asked = client(tmp_path / "runs")
    assert "Checks not run yet" in asked.get("/").text
    page = checked(asked)
    assert "Checks not run yet" not in page
    assert re.findall(r'class="badge critical"[^>]*>([^<]+)', page) == ["1 critical"]
    assert [r["badges"] for r in asked.get("/runs.json").json()["runs"]] == [["invented", "1 critical"]]
    assert 'class="badge critical"' in asked.get("/runs/r/").text


def test_a_run_whose_raw_files_are_lost_is_incomplete(client, root):
    next((root / "done" / "raw").iterdir()).unlink()
    asked = client(root)
    assert 'class="badge incomplete"' not in asked.get("/").text
    assert 'class="badge incomplete"' in checked(asked)


def test_nothing_is_checked_while_a_study_runs_here(client, root, finished):
    from fairlane.runs.journal import Journal  # noqa: PLC0415

    shutil.copytree(finished, root / "other")
    cut(root / "other", 9)
    asked = client(root)
    with Journal(root / "other"):
        for _ in range(5):
            states = {run["name"]: run["critical"] for run in asked.get("/runs.json").json()["runs"]}
    assert states == {"done": None, "other": None}


def test_the_newest_change_is_shown_and_any_two_can_be_asked_for(client, two, finished):
    asked = client(two)
    page = asked.get("/studies/small/").text
    assert "The study file was changed between these two runs." in page
    rows = re.findall(r'<tr><th scope="row">([^<]+)</th><td>([^<]+)</td>(.*?)</tr>', page)
    words = {(lane, cell): re.findall(r'class="word ([\w-]+)"', rest)[0] for lane, cell, rest in rows}
    label = r"The &lt;script&gt;alert(1)&lt;/script&gt; lane \u202eevil"
    assert words == {
        ("slow", "4k randread qd1"): "slower", ("slow", "4k randread qd16"): "slower",
        (label, "4k randread qd1"): "tie", (label, "4k randread qd16"): "tie",
    }  # fmt: skip
    change, *_ = {r for lane, _, rest in rows if lane == "slow" for r in re.findall(rf">{MINUS}(\d+)\.\d %<", rest)}
    assert 48 <= int(change) <= 52
    back = asked.get("/studies/small/", params={"from": "later", "to": "done"}).text
    assert 'class="word faster"' in back
    assert 'href="/compare?baseline=later&amp;run=done"' in back
    assert asked.get("/compare?baseline=later&run=done").status_code == 200


def test_the_answer_over_time_has_a_mark_for_every_run(two):
    catalogue = Catalogue(two)
    runs = catalogue.study("small")
    assert [run.name for run in runs] == ["done", "later"]
    (figure,) = figures([Dated(run.created[:10], catalogue.primaries(run)) for run in runs], {"fast": "Fast"})
    assert figure.title == "IOPS: Fast against slow"
    assert figure.table.columns == ("cell", "2026-01-01", "2026-01-02")
    assert [row[0] for row in figure.table.rows] == ["4k randread qd1", "4k randread qd16"]
    for _, first, second in figure.table.rows:
        assert re.fullmatch(r"▲ \+(28|29|30|31)\.\d %", first)  # 1.3
        assert re.fullmatch(r"▲ \+1(5[6-9]|6[0-4])\.\d %", second)  # 1.3 of half the speed: 2.6


def test_runs_that_cannot_be_compared_say_why_in_their_place(client, two):
    study = two / "later" / "study.yaml"
    study.write_text("damaged")
    page = client(two).get("/studies/small/", params={"from": "done", "to": "later"})
    assert page.status_code == 200
    assert 'data-kind="run-changed"' in page.text


@pytest.mark.parametrize(
    ("path", "status"),
    [("/studies/none/", 404), ("/studies/small/?from=done&to=no", 404), ("/studies/small/?from=done&to=done", 200)],
)
def test_odd_questions(client, root, path, status):
    assert client(root).get(path).status_code == status
