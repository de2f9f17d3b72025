"""A plugin is one file: a small one of each kind is added to a copy of the package and used from the command line."""

import json

import pytest

from fairlane import registry
from fairlane.errors import Exit
from tests.plugins.scratched import SCRATCH, Copy, plugin
from tests.words import kinds

STUDY = """\
name: small
platform: {kind: PLATFORM}
baseline: a
lanes: {a: {transport: local}, b: {transport: local, label: the other}}
workloads: {main: WORKLOAD}
design: {looks: [2]}
"""
FIO = "{kind: fio, runtime: 100ms}"


def study(platform="fake", workload=FIO):
    return STUDY.replace("PLATFORM", platform).replace("WORKLOAD", workload)


def kinds_in_the_schema(copy, tag):
    return {
        part["properties"][tag]["const"]
        for part in json.loads(copy("schema"))["$defs"].values()
        if "const" in part["properties"].get(tag, {})
    }


def verdicts(copy, run):
    return json.loads(copy("verdicts", run, "--format", "json"))


def test_there_is_one_of_each_kind():
    assert {folder.name for folder in SCRATCH.iterdir() if folder.name != "__pycache__"} == {
        kind.package for kind in registry.KINDS
    }
    for kind in registry.KINDS:
        assert plugin(kind.package).stem not in registry.names(kind.package)


@pytest.mark.slow
@pytest.mark.lab
def test_a_transport_under_the_virtual_clock(tmp_path):
    copy = Copy(tmp_path, "lanes")
    text = """\
name: small
platform: {kind: lab}
baseline: iscsi
lanes: {iscsi: {transport: iscsi}, unmerged: {transport: nvme_unmerged, nomerges: 1}}
workloads: {main: {kind: fio, runtime: 50ms, prefill: false}}
design: {looks: [2]}
"""
    name = copy.write("study.yaml", text)
    assert "nvme_unmerged" in kinds_in_the_schema(copy, "transport")
    assert "nvme_unmerged" in copy("study", "check", name)
    copy("run", name, "--out", "run")
    described = json.loads((tmp_path / "run" / "description.json").read_text())["lanes"]["unmerged"]
    assert described["nomerges"] == "1"
    assert described["target.kind"].startswith("nvmet")
    assert {v["verdict"] for v in verdicts(copy, "run") if v["metric"] == "iops"} <= {"faster", "inconclusive"}
    assert "nvmet" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.slow
def test_a_transport_is_known_to_doctor_and_schema(tmp_path):
    copy = Copy(tmp_path, "lanes")
    assert "nvme_unmerged" in kinds_in_the_schema(copy, "transport")
    wrong = study("lab").replace("{transport: local, label: the other}", "{transport: nvme_unmergd}")
    copy("study", "check", copy.write("study.yaml", wrong), code=Exit.USER_ERROR)


@pytest.mark.slow
def test_a_platform_runs_what_there_is_for_real(tmp_path):
    """With a workload and a probe that are new, too: what it runs is a program of this machine."""
    copy = Copy(tmp_path, "platforms", "workloads", "probes")
    assert "here" in kinds_in_the_schema(copy, "kind")
    assert "here" in copy.completed("doctor", "--platform", "h")
    lines = json.loads(copy("doctor", "--platform", "here", "--format", "json"))
    assert "missing" not in {line["state"] for line in lines}
    name = copy.write("study.yaml", study("here", "{kind: dd, count: 64}"))
    assert "4k read" in copy("study", "check", name)
    copy("run", name, "--out", "run")
    found = {v["metric"]: v for v in verdicts(copy, "run")}
    assert found["bw"]["blocks"] == 2
    assert found["bw"]["lane_value"] > 0
    assert found["job_time"]["lane_value"] > 0  # by the probe
    copy("report", "run")
    assert "the other" in (tmp_path / "run" / "report.md").read_text()
    nowhere = study("here").replace("transport: local, label", "transport: iscsi, label")
    copy("study", "check", copy.write("nowhere.yaml", nowhere), code=Exit.USER_ERROR)


@pytest.mark.slow
def test_a_workload_says_how_its_output_is_invented(tmp_path):
    copy = Copy(tmp_path, "workloads")
    assert "dd" in kinds_in_the_schema(copy, "kind")
    effect = study("fake, effects: {b: {speed: 2}}, noise: {sd: 0%}", "{kind: dd}").replace("[2]", "[6]")
    name = copy.write("study.yaml", effect)
    assert "4k read" in copy("study", "check", name)
    copy("run", name, "--out", "run")
    (found,) = (v for v in verdicts(copy, "run") if v["metric"] == "iops")
    assert found["ratio"] == pytest.approx(2, rel=0.01)
    broken = study("fake, failures: 100%", "{kind: dd}")
    assert "exit code 1: dd: " in copy("run", copy.write("broken.yaml", broken), "--out", "no", code=Exit.RUN_FAILED)
    lab = copy.write("lab.yaml", study("lab", "{kind: dd}"))
    told = copy.python("-m", "fairlane", "study", "check", lab, code=Exit.USER_ERROR).stderr
    assert kinds(told) == ["platform-cannot"]
    assert all(part in told for part in ("workloads.main.kind: ", "'lab'", "'dd'", "fio"))


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["fake", "lab"])
def test_a_workload_that_a_platform_cannot_run_is_refused_by_study_check(tmp_path, platform):
    copy = Copy(tmp_path)
    name = copy.write("study.yaml", study(platform, "{kind: failover}"))
    told = copy.python("-m", "fairlane", "study", "check", name, code=Exit.USER_ERROR).stderr
    assert kinds(told) == ["platform-cannot"]
    assert all(part in told for part in ("workloads.main.kind: ", f"'{platform}'", "'failover'", "fio"))


@pytest.mark.slow
def test_a_check_is_heard(tmp_path):
    copy = Copy(tmp_path, "checks")
    copy("run", copy.write("study.yaml", study()), "--out", "run")
    assert "2 blocks are few" in copy("check", "run")
    assert "2 blocks are few" in (tmp_path / "run" / "report.md").read_text()
    assert 'name="few_blocks"' in copy("export", "run", "--to", "junit", "--out", "-")


@pytest.mark.slow
def test_an_importer_reads_its_files(tmp_path):
    copy = Copy(tmp_path, "importers")
    lines = [f"{lane} {block} {iops + block}\n" for lane, iops in (("old", 1000), ("new", 2000)) for block in range(6)]
    name = copy.write("tuesday.notes", "# notes of IOPS\n" + "".join(lines))
    assert "notes of IOPS, one trial a line" in copy("import", "--list")
    assert "Notes: a file `*.notes`" in " ".join(copy("import", "--help").split())
    copy("import", name, "--baseline", "old", "--out", "run")
    (found,) = verdicts(copy, "run")
    assert (found["lane"], found["blocks"]) == ("new", 6)
    assert found["lane_value"] == pytest.approx(2002.5, rel=0.001)
    broken = copy.write("broken.notes", "# notes of IOPS\nold 1 many\n")
    told = copy.python("-m", "fairlane", "import", name, broken, "--tool", "notes", "--out", "part").stderr
    assert "broken.notes:2: expected lane, block and IOPS" in told


@pytest.mark.slow
def test_an_export_format_is_written(tmp_path):
    copy = Copy(tmp_path, "export")
    assert copy.completed("export", "run", "--to", "t") == ["tally"]
    help_text = " ".join(copy("export", "--help").split())
    assert "Tally: how many verdicts there are of each word, a line each; for a chat message." in help_text
    copy("run", copy.write("study.yaml", study()), "--out", "run")
    told = copy("export", "run", "--to", "tally", "--out", "-")
    assert told.startswith("run (invented, complete)\n")
    copy("export", "run", "--to", "tally", "--to", "json")
    assert (tmp_path / "run" / "export" / "tally.txt").read_text() == told
