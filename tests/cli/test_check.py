"""``fairlane check`` on real runs of the fake platform that differ in their ramp."""

import json
import re

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.words import kinds

STUDY = """\
name: ramps
platform: {kind: fake, noise: {sd: 1%}}
lanes: {old: {transport: iscsi}, new: {transport: nvme_tcp}}
baseline: old
workloads: {main: {kind: fio, rw: [randread], bs: [4k, 64k], iodepth: [16], runtime: 1s, ramp: 10s}}
design: {looks: [2]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for name, text in {
        "with": STUDY,
        "without": STUDY.replace("ramp: 10s", "ramp: 0s"),
        "torn": STUDY.replace("nvme_tcp}", "nvme_tcp, conditions: {copies: 2}}"),
    }.items():
        (place / "study.yaml").write_text(text)
        assert run(["run", str(place / "study.yaml"), "--unjudged", "--out", str(place / name)]) == Exit.OK
    return place


@pytest.fixture
def check(folder, capsys):
    """``check("with", "without", "--differing")`` -> exit code, stdout, stderr."""

    def call(*args):
        capsys.readouterr()
        code = run(["check", *(str(folder / arg) if (folder / arg).is_dir() else arg for arg in args)])
        return (code, *capsys.readouterr())

    return call


RAMPS = r"0s\b.{1,4}without\b.{1,4}10s\b.{1,4}with\b"
COPIES = r"2\b.{1,4}new\b.{1,4}none\b.{1,4}old\b"


def statuses(text):
    return {row["name"]: row["status"] for row in json.loads(text)["parameters"]}


def test_the_lanes_of_a_clean_run(check, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, err = check("with")
    assert code == Exit.OK
    assert out.splitlines()[0].split()[2:-1] == ["old", "new"]
    assert "4k, 64k" in out
    assert "critical" not in out
    assert err == ""


def test_two_runs_with_another_ramp_are_refused(check):
    code, out, err = check("with", "without", "--differing")
    assert code == Exit.NOT_DECIDED
    table, _, findings = out.partition("\n\n")
    head, _rule, *rows = (line.split() for line in table.splitlines())
    assert head[2:-1] == ["with", "without"]
    assert rows == [["load", "ramp-up", "10s", "0s", "differs"]]
    assert findings.startswith("critical: ")
    assert re.search(rf"ramp-up\W+{RAMPS}", findings.splitlines()[0])
    assert err.split()[0] == "1"
    assert "--accept" in err
    found = json.loads(check("with", "without", "--format", "json")[1])["findings"]
    (refusal,) = (f for f in found if f["refuses"])
    assert (refusal["check"], refusal["kind"], refusal["lanes"]) == ("unmatched", "refused", ["without"])
    assert refusal["evidence"].keys() == {"ramp"}
    assert re.fullmatch(RAMPS, refusal["evidence"]["ramp"]["without"])


def test_a_reason_makes_it_a_caveat(check):
    accept = ("--accept", "ramp=steady from the start")
    code, out, _ = check("with", "without", *accept)
    assert code == Exit.OK
    (line,) = (line for line in out.splitlines() if "steady from the start" in line)
    assert line.startswith("warning: ")
    assert re.search(RAMPS, line)
    found = json.loads(check("with", "without", *accept, "--format", "json")[1])["findings"]
    assert [f["kind"] for f in found if "ramp" in f["evidence"]] == ["accepted"]
    assert "accepted-in-vain" not in {f["kind"] for f in found}  # there was nothing to accept within the runs


def test_single_lanes_side_by_side(check):
    _, out, _ = check("with", "without", "--lane", "new", "--lane", "old", "--format", "json")
    found = json.loads(out)
    assert found["columns"] == ["with:new", "with:old", "without:new", "without:old"]
    assert not found["comparable"]
    ramp = next(row for row in found["parameters"] if row["name"] == "ramp")
    assert ramp["values"] == {"with:new": "10s", "with:old": "10s", "without:new": "0s", "without:old": "0s"}
    assert (ramp["role"], ramp["group"], ramp["status"]) == ("controlled", "load", "differs")


def test_the_lanes_of_one_run_are_refused_and_so_are_its_verdicts(check, folder, capsys):
    code, out, _ = check("torn", "--format", "json")
    assert code == Exit.NOT_DECIDED
    assert [name for name, status in statuses(out).items() if status == "differs"] == ["copies"]
    (finding,) = (f for f in json.loads(out)["findings"] if f["refuses"])
    assert (finding["check"], finding["kind"], finding["lanes"]) == ("unmatched", "refused", ["new"])
    assert finding["evidence"].keys() == {"copies"}
    assert re.fullmatch(COPIES, finding["evidence"]["copies"]["new"])
    code, out, _ = check("torn", "--accept", "copies=the figure is invented", "--format", "json")
    assert (code, statuses(out)["copies"]) == (Exit.OK, "accepted")


def test_markdown_has_table_and_findings(check):
    _, out, _ = check("with", "without", "--format", "md", "--differing")
    assert "| load | ramp-up | 10s | 0s | differs |" in out
    assert re.search(r"^- critical: .*without.*with.*ramp", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("args", "code", "said", "kind"),
    [
        (("with", "--lane", "nwe"), Exit.USER_ERROR, "new", "lane-unknown"),
        (("with", "with"), Exit.USER_ERROR, "with", "run-twice"),
        (("with", "--accept", "rmp=x"), Exit.USER_ERROR, "ramp", "parameter-unknown"),
        (("with", "--accept", "ramp"), Exit.USAGE, "KEY=", ""),
        (("with", "--accept", "ramp="), Exit.USAGE, "KEY=", ""),
        (("with", "--accept", "ramp=a", "--accept", "ramp=b"), Exit.USAGE, "--accept", ""),
        (("nowhere",), Exit.USER_ERROR, "nowhere", "not-a-run"),
        ((), Exit.USER_ERROR, "RUN", "run-none"),
    ],
)
def test_wrong_use_is_told(check, args, code, said, kind):
    found, _, err = check(*args)
    assert found == code
    assert said in err.splitlines()[-1] + err.partition("Error: ")[2]
    assert kinds(err) == ([kind] if kind else [])


def test_report_and_verdicts_take_acceptances(folder, tmp_path, capsys):
    accept = ["--accept", "copies=the figure is invented"]
    assert run(["report", str(folder / "torn"), "--out", str(tmp_path), *accept]) == Exit.OK
    page = (tmp_path / "report.md").read_text()
    lines = [line for line in page.splitlines() if re.search(COPIES, line) and line.startswith("- ")]
    assert len(lines) == 2  # it qualifies the answer, and is a finding
    assert all("the figure is invented" in line for line in lines)
    assert "| copies | none | 2 | accepted |" in page
    capsys.readouterr()
    assert run(["verdicts", str(folder / "torn"), "--format", "json", *accept]) == Exit.OK
    assert not any(v["verdict"] == "refused" for v in json.loads(capsys.readouterr().out) if v["primary"])


def test_tsv_has_a_whole_row_per_parameter_and_nothing_else(check):
    code, out, _ = check("with", "--format", "tsv")
    heads, *rows = [line.split("\t") for line in out.splitlines()]
    assert heads[:2] == ["Group", "Parameter"]
    assert {len(row) for row in rows} == {len(heads)}
    assert all(row[0] and row[1] for row in rows)
    assert code in (Exit.OK, Exit.NOT_DECIDED)
