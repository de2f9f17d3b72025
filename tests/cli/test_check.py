"""``fairlane check`` on real runs of the fake platform that differ in their ramp."""

import json

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit

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


def statuses(text):
    return {row["name"]: row["status"] for row in json.loads(text)["parameters"]}


def test_the_lanes_of_a_clean_run(check, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, err = check("with")
    assert code == Exit.OK
    assert out.splitlines()[0].split() == ["Group", "Parameter", "old", "new", "Match"]
    assert "varies by cell: 4k, 64k" in out
    assert "refuse" not in out + err


def test_two_runs_with_another_ramp_are_refused(check):
    code, out, err = check("with", "without", "--differing")
    assert code == Exit.NOT_DECIDED
    table, _, findings = out.partition("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["Group", "Parameter", "with", "without", "Match"],
        ["-----", "---------", "----", "-------", "-------"],
        ["load", "ramp", "10s", "0s", "differs"],
    ]
    assert findings.splitlines()[0] == (
        "critical: without and with are not comparable: they differ in ramp (0s on without, 10s on with)"
    )
    assert err.startswith("1 finding refuses a comparison.")


def test_a_reason_makes_it_a_caveat(check):
    code, out, _ = check("with", "without", "--accept", "ramp=steady from the start")
    assert code == Exit.OK
    assert "warning: accepted: ramp (0s on without, 10s on with): steady from the start" in out
    assert "not needed" not in out  # within the runs there was nothing to accept, and nobody said so


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
    assert finding["message"] == "new and old are not comparable: they differ in copies (2 on new, none on old)"
    code, out, _ = check("torn", "--accept", "copies=the figure is invented", "--format", "json")
    assert (code, statuses(out)["copies"]) == (Exit.OK, "accepted")


def test_markdown_has_table_and_findings(check):
    _, out, _ = check("with", "without", "--format", "md", "--differing")
    assert "| load | ramp | 10s | 0s | differs |" in out
    assert "\n- critical: without and with are not comparable" in out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("with", "--lane", "nwe"), Exit.USER_ERROR, "did you mean new?"),
        (("with", "with"), Exit.USER_ERROR, "the same run is given twice"),
        (("with", "--accept", "rmp=x"), Exit.USER_ERROR, "did you mean ramp?"),
        (("with", "--accept", "ramp"), Exit.USAGE, "expected KEY="),
        (("with", "--accept", "ramp="), Exit.USAGE, "expected KEY="),
        (("with", "--accept", "ramp=a", "--accept", "ramp=b"), Exit.USAGE, "accepted twice"),
        (("nowhere",), Exit.USER_ERROR, "nowhere"),
        ((), Exit.USAGE, "RUN"),
    ],
)
def test_wrong_use_is_told(check, args, code, said):
    found, _, err = check(*args)
    assert found == code
    assert said in err


def test_report_and_verdicts_take_acceptances(folder, tmp_path, capsys):
    accept = ["--accept", "copies=the figure is invented"]
    assert run(["report", str(folder / "torn"), "--out", str(tmp_path), *accept]) == Exit.OK
    page = (tmp_path / "report.md").read_text()
    assert "accepted: copies (2 on new, none on old): the figure is invented" in page
    assert "| copies | none | 2 | accepted |" in page
    capsys.readouterr()
    assert run(["verdicts", str(folder / "torn"), "--format", "json", *accept]) == Exit.OK
    assert not any(v["verdict"] == "refused" for v in json.loads(capsys.readouterr().out) if v["primary"])
