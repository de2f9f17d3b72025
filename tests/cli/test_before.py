"""What is said before the first trial: by run, its dry run, study check, doctor, pilot and replicate alike."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlane import registry
from fairlane.checks._outlook import outlook
from fairlane.cli.main import run
from fairlane.errors import Exit, FairlaneError
from fairlane.records import Evidence, Observation
from fairlane.study.load import load_study, parse_study, presets
from fairlane.study.spec import Study
from fairlane_replication.claims import catalogue
from fairlane_replication.runner import _refuse
from tests.words import kind, kinds

STUDY = """
name: pools
platform: {{kind: fake{platform}}}
baseline: ec
lanes:
  ec: {{transport: iscsi, conditions: {{copies: 4+2}}}}
  rep3: {{transport: iscsi, conditions: {{copies: {rep3}}}}}
  rep2: {{transport: nvme_tcp, conditions: {{copies: 2, flush: ignored}}}}
workloads:
  main: {{kind: fio, bs: [4k, 64k], runtime: 1s}}
design:
  looks: [3]
"""
DIFFERS = {
    "rep3": {"copies": r"3\b.{1,4}rep3\b.{1,4}4\+2\b.{1,4}ec\b"},
    "rep2": {
        "copies": r"2\b.{1,4}rep2\b.{1,4}4\+2\b.{1,4}ec\b",
        "flush": r"ignored\b.{1,4}rep2\b.{1,4}none\b.{1,4}ec\b",
    },
}
"""What the guard says of each lane: the parameters that differ from the baseline's, and how."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write()


def write(*, rep3: str = "3", platform: str = "", more: str = "") -> None:
    Path("study.yaml").write_text(STUDY.format(rep3=rep3, platform=platform) + more)


def tells(line: str, lane: str) -> None:
    """The line names the lane, the baseline, and each parameter with its values."""
    assert lane in line
    for name, values in DIFFERS[lane].items():
        assert re.search(rf"\b{name}\W+{values}", line), line
    assert {name for name in ("copies", "flush") if name in line} == set(DIFFERS[lane])


def hint(err: str) -> list[str]:
    """The lines to put into the study, one text for each way."""
    ways = re.findall(r"^design:\n((?:  .*\n)+)", err, re.MULTILINE)
    assert len(ways) == 2, err
    return ways


@pytest.mark.parametrize(
    "command", [["run", "study.yaml"], ["run", "study.yaml", "--dry-run"], ["study", "check", "study.yaml"]]
)
def test_a_study_of_which_nothing_can_be_compared_ends_with_4_and_the_way_out(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == Exit.NOT_DECIDED
    err = capsys.readouterr().err
    first, *lines = err.splitlines()
    assert first.startswith("Error: study.yaml: ")
    assert kinds(first) == ["nothing-to-compare"]
    assert "4" in first.split()
    tells(lines[0], "rep3")
    tells(lines[1], "rep2")
    assert "fairlane run --unjudged" in err
    assert not Path("runs").exists()
    for way in hint(err):
        write(more=way)
        assert run(command) == Exit.OK
        capsys.readouterr()


def test_the_lines_keep_what_the_study_varies_and_accepts_already(capsys: pytest.CaptureFixture[str]) -> None:
    write(more='  vary: [bus]\n  accept: {flush: "nothing syncs: \\"really\\""}\n')
    assert run(["study", "check", "study.yaml"]) == Exit.NOT_DECIDED
    vary, accept = hint(capsys.readouterr().err)
    assert vary == "  vary: [bus, copies]\n"
    for way in (vary, accept):
        write(more=way)
        assert run(["study", "check", "study.yaml"]) == Exit.OK
    assert load_study("study.yaml")[0].design.accept["flush"] == 'nothing syncs: "really"'


def test_where_some_is_left_a_warning_names_lanes_and_keys(capsys: pytest.CaptureFixture[str]) -> None:
    write(rep3="4+2")
    for command in (["run", "study.yaml", "--format", "json"], ["study", "check", "study.yaml"]):
        assert run(command) == Exit.OK
        first, second, *_ = capsys.readouterr().err.splitlines()
        assert first.startswith("warning: ")
        assert re.findall(r" (\d+)(?= )", first)[:2] == ["2", "4"]
        tells(first, "rep2")
        assert "design.vary: [copies, flush]" in second


def test_unjudged_runs_anyway_and_a_resumed_run_remembers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "study.yaml", "--unjudged", "--out", "out", "--format", "json"]) == Exit.OK
    out, err = capsys.readouterr()
    assert {row["verdict"] for row in json.loads(out) if row["primary"]} == {"refused"}
    assert err.startswith("warning: ")
    tells(err.splitlines()[2], "rep2")
    assert kinds(err) == []
    shorten(Path("out"))
    assert run(["run", "--resume", "out"]) == Exit.OK
    assert run(["pilot", "out"]) == Exit.OK
    warned = capsys.readouterr().err.partition("warning: ")[2].splitlines()
    tells(warned[1], "rep3")
    tells(warned[2], "rep2")


def test_a_run_begun_before_this_was_asked_is_resumed_only_unjudged(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "study.yaml", "--unjudged", "--out", "out"]) == Exit.OK
    manifest = json.loads(Path("out/run.json").read_text())
    del manifest["unjudged"]
    Path("out/run.json").write_text(json.dumps(manifest))
    assert run(["run", "--resume", "out"]) == Exit.OK  # it is finished: reading it needs nothing
    shorten(Path("out"))
    assert run(["run", "--resume", "out"]) == Exit.NOT_DECIDED
    assert kinds(capsys.readouterr().err) == ["nothing-to-compare"]
    assert run(["run", "--resume", "out", "--unjudged"]) == Exit.OK


def shorten(folder: Path) -> None:
    """The run was killed before its last two steps."""
    lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text("".join(lines[:-3]))


def test_doctor_says_what_run_would_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "study.yaml", "--format", "json"]) == Exit.USER_ERROR
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["comparisons"]["state"] == "missing"
    assert re.search(DIFFERS["rep3"]["copies"], lines["comparisons"]["found"])
    write(rep3="4+2")
    assert run(["doctor", "study.yaml", "--format", "json"]) == Exit.OK
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["comparisons"]["state"] == "warn"


def test_what_the_platform_cannot_do_is_said_by_all(capsys: pytest.CaptureFixture[str]) -> None:
    write(rep3="4+2", platform=", effects: {ghost: {speed: 2}}")
    for command in (["run"], ["run", "--dry-run"], ["study", "check"], ["doctor"]):
        assert run([*command, "study.yaml"]) == Exit.USER_ERROR
        out, err = capsys.readouterr()
        if command != ["doctor"]:
            assert kinds(err) == ["lane-unknown"], command
        assert "'ghost'" in out + err, command
    assert not Path("runs").exists()


def test_what_both_refuse_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    write(platform=", effects: {ghost: {speed: 2}}")
    assert run(["run", "study.yaml"]) == Exit.USER_ERROR
    err = capsys.readouterr().err
    assert kinds(err) == ["lane-unknown"]
    assert "'ghost'" in err
    warned = err.partition("warning: ")[2].splitlines()
    tells(warned[1], "rep3")
    tells(warned[2], "rep2")


def test_the_doctor_takes_the_quick_form(capsys: pytest.CaptureFixture[str]) -> None:
    write(rep3="4+2", more="quick:\n  lanes:\n    rep3: {conditions: {copies: 3}}\n")
    assert run(["doctor", "study.yaml"]) == Exit.OK
    assert run(["doctor", "study.yaml", "--quick"]) == Exit.USER_ERROR
    assert run(["doctor", "--quick"]) == Exit.USAGE


# --- one function before and after


def parsed(lanes: dict[str, dict[str, object]], platform: str = "{kind: fake}") -> Study:
    text = json.dumps({name: {"transport": "iscsi", "conditions": said} for name, said in lanes.items()})
    return parse_study(
        f"name: x\nplatform: {platform}\nbaseline: a\nlanes: {text}\nworkloads: {{main: {{kind: fio, bs: [4k, 8k]}}}}",
        "x.yaml",
    )


def afterwards(study: Study) -> Evidence:
    seen = tuple(
        Observation(cell.key, 0, lane, n, "", {"iops": 1000.0}, {}, {"fio": {"version": "fio-3.33"}})
        for cell in study.cells()
        for n, lane in enumerate(study.lanes)
    )
    return Evidence("run", study, "", 1, (), seen, {}, {}, ({"type": "start", "at": "2026-01-10T10:00:00Z"},))


VALUES = {
    "link_speed": ["10gbit", "25gbit"],
    "ramp": ["1s", "2s"],
    "tool_version": ["fio-3.33"],
    "disk_size": ["1g"],
    "date": ["2026-01-10"],
}
SAID = st.dictionaries(
    st.sampled_from(["copies", "flush", "write_ack", "link_speed", "ramp", "tool_version", "disk_size", "date"]),
    st.just("none"),
).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(VALUES.get(name, ["one", "other"])) for name in names})
)


@given(a=SAID, b=SAID, c=SAID)
@settings(max_examples=60)
def test_before_the_run_the_guard_says_what_it_says_after_it(a: object, b: object, c: object) -> None:
    """Of parameters that no machine tells; of the others only what both sides say."""
    study = parsed({"a": a, "b": b, "c": c})  # type: ignore[dict-item]
    check = registry.load("checks", "unmatched")
    assert list(check.foresee(study)) == [f for f in check.check(afterwards(study)) if f.refuses]


def test_what_the_machines_will_tell_is_not_held_against_a_lane_before() -> None:
    fake = parsed({"a": {"copies": 3}, "b": {"copies": 3, "tool_version": "3.33"}})
    assert not outlook(fake).refusals
    cluster = load_study("study-000-fio")[0]
    first, second = list(cluster.lanes)[:2]
    told = {first: cluster.lanes[first].model_copy(update={"conditions": {"copies": 3}}), second: cluster.lanes[second]}
    bare = {name: lane.model_copy(update={"conditions": {}}) for name, lane in told.items() if name != first}
    one = cluster.model_copy(update={"lanes": {first: told[first], **bare}, "baseline": first, "conditions": {}})
    assert not [f for f in outlook(one).refusals if "copies" in f.evidence]  # the class may tell it
    both = {first: told[first], second: told[second].model_copy(update={"conditions": {"copies": 2}})}
    assert [f for f in outlook(one.model_copy(update={"lanes": both})).refusals if "copies" in f.evidence]


def test_a_study_of_a_control_alone_is_not_in_vain() -> None:
    study = parse_study(
        "name: x\nplatform: {kind: fake}\nbaseline: a\n"
        "lanes: {a: {transport: iscsi}, b: {transport: iscsi, copy_of: a}}\nworkloads: {main: {kind: fio}}",
        "x.yaml",
    )
    assert not outlook(study).hopeless
    assert outlook(study).error() is None


def test_a_stand_in_alone_leaves_nothing_and_no_key_would_help() -> None:
    study = load_study("protocols", quick=True)[0]
    lanes = {name: study.lanes[name] for name in ("iscsi", "nvme-rdma")}
    error = outlook(study.model_copy(update={"lanes": lanes})).error()
    assert error is not None
    assert error.code == Exit.NOT_DECIDED
    assert error.kind == "nothing-to-compare"
    assert "soft-RoCE" in error.message
    assert "vary" not in error.hint


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", presets())
def test_no_preset_is_refused_but_where_it_says_so(name: str, quick: bool) -> None:
    try:
        seen = outlook(load_study(name, quick=quick)[0])
    except FairlaneError as error:
        assert error.kind == "no-quick-form"  # noqa: PT017 - some presets are short as they are
        return
    assert {finding.check for finding in seen.refusals} <= ({"stand_in"} if name == "protocols" else set())


def test_replicate_asks_the_same_and_its_own_studies_pass() -> None:
    for lab in catalogue().labs.values():
        for quick in (False, True):
            study = lab.form(quick=quick)
            assert study is None or not outlook(study).refusals
    with pytest.raises(FairlaneError, check=kind("nothing-to-compare")) as raised:
        _refuse(load_study("study.yaml")[0])
    assert raised.value.code == Exit.NOT_DECIDED


def test_the_plan_of_a_load_that_cannot_be_run_yet_says_so(capsys):
    """357 hours are planned, and not one can be run."""
    assert run(["study", "check", "study-000-oltp"]) == Exit.OK
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert {line.split(": ")[1] for line in warnings} == {"workloads.mariadb", "workloads.postgresql"}
    assert all("not run yet" in line for line in warnings)
