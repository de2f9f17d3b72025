"""Imports carried out for real: tables of figures become run directories, and are read back as any run."""

import gzip
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.errors import FairlaneError
from fairlane.guard.conditions import conditions
from fairlane.guard.parameters import parameter
from fairlane.importers import _read
from fairlane.importers._map import ImportMap, parse_map
from fairlane.importers._run import Summary, import_files
from fairlane.runs import index
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from tests.figures import figures
from tests.words import kind

MAP = """\
tool: table
table:
  block: run
  started: start
  params: {bs: bs, iodepth: qd, runtime: {column: secs, unit: s}}
  figures: [{column: iops, metric: iops}]
"""
BARE = ImportMap.model_validate({})
HEAD = "run,start,bs,qd,secs,iops\n"


def mapped(extra: str = "", text: str = MAP) -> ImportMap:
    return parse_map(text + extra, "map.yaml")


def table(path: Path, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + "".join(f"{row}\n" for row in rows))
    return path


def alternating(folder: Path, lanes: dict[str, float], blocks: int = 6) -> Path:
    """One file per trial, minute by minute, the lanes in turn."""
    for block in range(blocks):
        for place, (lane, level) in enumerate(lanes.items()):
            minute = block * len(lanes) + place
            figure = level * (1 + 0.01 * ((block * 7 + place * 3) % 5 - 2))
            table(folder / lane / f"{block}.csv", f"{block},2026-02-27T10:{minute:02d}:00,4k,16,60,{figure:.1f}")
    return folder


def done(tmp_path: Path, source: Path, chosen: ImportMap | None = None, **options: Any) -> Summary:
    return import_files([source], tmp_path / "out", chosen or mapped(), **options)


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [line for line in lines if line["type"] == kind]


def test_folders_are_lanes_files_are_blocks_and_alternating_lanes_are_compared_block_by_block(tmp_path):
    done(tmp_path, alternating(tmp_path / "in", {"iscsi": 1000, "nvme": 1300}))
    evidence = load_run(tmp_path / "out")
    assert list(evidence.study.lanes) == ["iscsi", "nvme"]
    assert [cell.name for cell in evidence.cells()] == ["4k qd16"]
    assert evidence.complete
    assert evidence.study.design.paired
    assert len(evidence.observations) == 12
    assert {o.position for o in evidence.observations if o.lane == "nvme"} == {1}
    (verdict,) = judge(evidence, run_all(evidence))
    assert verdict.ratio == pytest.approx(1.3, rel=0.02)
    assert verdict.blocks == 6
    assert not [f for f in run_all(evidence) if f.check == "sequential"]


def test_lanes_one_after_the_other_are_not_paired_and_said_to_be_so(tmp_path):
    for lane, hour in (("a", 10), ("b", 15)):
        for block in range(3):
            table(
                tmp_path / "in" / lane / f"{block}.csv", f"{block},2026-02-27T{hour}:0{block}:00,4k,1,60,{1000 + block}"
            )
    done(tmp_path, tmp_path / "in")
    evidence = load_run(tmp_path / "out")
    assert not evidence.study.design.paired
    (finding,) = [f for f in run_all(evidence) if f.check == "sequential"]
    assert finding.severity == "warning"
    assert finding.kind == "not-interleaved"
    day = "2026-02-27T"
    ends = {lane: re.findall(rf"{day}([\d:]+)\+00:00", span) for lane, span in finding.evidence.items()}
    assert ends == {"a": ["10:00:00", "10:02:00"], "b": ["15:00:00", "15:02:00"]}
    assert all(time in finding.message for times in ends.values() for time in times)


def test_without_times_nothing_is_said_to_be_interleaved(tmp_path):
    for lane in "ab":
        for block in range(2):
            table(tmp_path / "in" / lane / f"{block}.csv", f"{block},,4k,1,60,{1000 + block + ord(lane)}")
    done(tmp_path, tmp_path / "in")
    evidence = load_run(tmp_path / "out")
    assert not evidence.study.design.paired
    (finding,) = [f for f in run_all(evidence) if f.check == "sequential"]
    assert (finding.severity, finding.kind, finding.evidence) == ("warning", "not-interleaved", {})


def test_the_map_may_say_that_lanes_were_interleaved_and_that_is_told(tmp_path):
    for lane in "ab":
        for block in range(2):
            table(tmp_path / "in" / lane / f"{block}.csv", f"{block},,4k,1,60,{1000 + block + ord(lane)}")
    done(tmp_path, tmp_path / "in", mapped("paired: true\n"))
    evidence = load_run(tmp_path / "out")
    assert evidence.study.design.paired
    (finding,) = [f for f in run_all(evidence) if f.check == "sequential"]
    assert (finding.severity, finding.kind) == ("warning", "not-interleaved")
    import_files([tmp_path / "in"], tmp_path / "unclaimed", mapped())
    (other,) = [f for f in run_all(load_run(tmp_path / "unclaimed")) if f.check == "sequential"]
    assert finding.message != other.message


def test_blocks_are_in_order_of_time_whatever_the_files_are_called(tmp_path):
    for name, minute in (("z", 1), ("m", 2), ("a", 3)):
        table(tmp_path / "in" / "x" / f"{name}.csv", f"0,2026-02-27T10:0{minute}:00,4k,1,60,{1000 + minute}")
    summary = done(tmp_path, tmp_path / "in", mapped(text=MAP.replace("  block: run\n", "")))
    assert [place.trial.files[0] for place in summary.layout.placed] == ["x/z.csv", "x/m.csv", "x/a.csv"]


def test_names_with_numbers_are_in_order_of_the_numbers(tmp_path):
    text = MAP.replace("  block: run\n", "").replace("  started: start\n", "")
    for number in (10, 9, 2):
        table(tmp_path / "in" / "x" / f"run-{number}.csv", f"0,,4k,1,60,{1000 + number}")
    summary = done(tmp_path, tmp_path / "in", mapped(text=text))
    assert [place.trial.files[0] for place in summary.layout.placed] == ["x/run-2.csv", "x/run-9.csv", "x/run-10.csv"]


def test_a_missing_repetition_leaves_its_block_and_moves_no_other(tmp_path):
    table(tmp_path / "in" / "a" / "t.csv", "1,,4k,1,60,10", "2,,4k,1,60,11", "3,,4k,1,60,12")
    table(tmp_path / "in" / "b" / "t.csv", "1,,4k,1,60,20", "3,,4k,1,60,22")
    summary = done(tmp_path, tmp_path / "in")
    assert [(p.lane, p.block) for p in summary.layout.placed if p.lane == "b"] == [("b", 0), ("b", 2)]


def test_one_repetition_twice_in_a_lane_is_an_error(tmp_path):
    table(tmp_path / "in" / "a" / "t.csv", "1,,4k,1,60,10", "1,,4k,1,60,11")
    with pytest.raises(FairlaneError, check=kind("block-twice", "a/t.csv")) as raised:
        done(tmp_path, tmp_path / "in")
    assert all(part in raised.value.message for part in ("'1'", "'a'", "4k qd1"))


def test_what_varies_within_a_lane_makes_cells_what_differs_between_lanes_is_for_the_guard(tmp_path):
    table(tmp_path / "in" / "a" / "t.csv", "1,,4k,1,60,10", "1,,4k,1,300,11")
    table(tmp_path / "in" / "b" / "t.csv", "1,,4k,1,60,20", "1,,4k,1,300,22")
    summary = done(tmp_path, tmp_path / "in")
    assert [p.name for p in summary.layout.points] == ["4k qd1 runtime 1m", "4k qd1 runtime 5m"]
    table(tmp_path / "in2" / "a" / "t.csv", "1,,4k,1,60,10")
    table(tmp_path / "in2" / "b" / "t.csv", "1,,4k,1,300,22")
    import_files([tmp_path / "in2"], tmp_path / "out2", mapped())
    evidence = load_run(tmp_path / "out2")
    assert [cell.name for cell in evidence.cells()] == ["4k qd1"]
    (verdict,) = judge(evidence, run_all(evidence))
    assert verdict.verdict == "refused"
    assert any("runtime" in note for note in verdict.notes)


def test_the_same_bytes_twice_are_one_trial(tmp_path):
    table(tmp_path / "in" / "a" / "1.csv", "1,,4k,1,60,10")
    table(tmp_path / "in" / "a" / "2.csv", "1,,4k,1,60,10")
    (tmp_path / "in" / "a" / "3.csv.gz").write_bytes(gzip.compress((tmp_path / "in" / "a" / "1.csv").read_bytes()))
    summary = done(tmp_path, tmp_path / "in")
    assert len(summary.layout.placed) == 1
    assert [gone.kind for gone in summary.left_out] == ["same-bytes"] * 2
    assert all("a/1.csv" in gone.reason for gone in summary.left_out)
    assert len(list((tmp_path / "out" / "raw").iterdir())) == 1


def test_files_that_cannot_be_read_are_told_counted_and_in_the_report(tmp_path):
    for block in range(3):
        table(tmp_path / "in" / "a" / f"{block}.csv", f"{block},,4k,1,60,1{block}")
    table(tmp_path / "in" / "a" / "bad.csv", "3,,4k,1,60,1.0.0")
    (tmp_path / "in" / "a" / "cut.csv.gz").write_bytes(gzip.compress(b"run,start\n" * 1000)[:-20])
    (tmp_path / "in" / "a" / "notes.md").write_text("hello")
    summary = done(tmp_path, tmp_path / "in")
    told = {gone.where: gone for gone in summary.unreadable}
    assert told["a/bad.csv:2"].kind == "column-value"
    assert all(part in told["a/bad.csv:2"].reason for part in ("'iops'", "'1.0.0'"))
    assert told["a/cut.csv"].kind == "cut-off"
    assert [gone.files for gone in summary.left_out if not gone.reason] == [("a/notes.md",)]
    (finding,) = [f for f in run_all(load_run(tmp_path / "out")) if f.check == "left_out"]
    assert figures(finding.message)[:2] == ["2", "5"]
    assert finding.evidence == {gone.where: gone.reason for gone in summary.unreadable}


def test_if_nothing_can_be_read_it_is_one_error_and_no_folder(tmp_path):
    table(tmp_path / "in" / "a" / "bad.csv", "3,,4k,1,60,x")
    with pytest.raises(FairlaneError, check=kind("files-left-out", "a/bad.csv:2")) as raised:
        done(tmp_path, tmp_path / "in")
    assert all(part in raised.value.message for part in ("'iops'", "'x'"))
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_originals_are_kept_as_they_were_and_import_to_the_same_figures_again(tmp_path):
    source = alternating(tmp_path / "in", {"a": 10, "b": 20}, 2)
    done(tmp_path, source)
    kept = {event["name"]: event for event in events(tmp_path / "out", "original")}
    assert len(kept) == 4
    for name, event in kept.items():
        with zipfile.ZipFile(tmp_path / "out" / event["kept"]) as pack:
            assert pack.read(event["member"]) == (source / name).read_bytes()
    shutil.unpack_archive(tmp_path / "out" / "raw" / "0000.zip", tmp_path / "unpacked")
    import_files([tmp_path / "unpacked"], tmp_path / "again", mapped())
    first, second = load_run(tmp_path / "out"), load_run(tmp_path / "again")
    assert first.observations == second.observations
    import_files([source], tmp_path / "without", mapped(), originals=False)
    with zipfile.ZipFile(tmp_path / "without" / "raw" / "0000.zip") as pack:
        assert {name.partition("/")[0] for name in pack.namelist()} == {"~records"}
    assert load_run(tmp_path / "without").observations == first.observations


def test_several_processes_make_the_same_bytes_as_one(tmp_path, monkeypatch):
    source = alternating(tmp_path / "in", {"a": 10, "b": 20}, 15)
    done(tmp_path, source)
    monkeypatch.setattr(_read, "FEW", 4)
    import_files([source], tmp_path / "two", mapped(), name="out", processes=2)
    one = {p.relative_to(tmp_path / "out"): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    two = {p.relative_to(tmp_path / "two"): p.read_bytes() for p in (tmp_path / "two").rglob("*") if p.is_file()}
    timed = {Path("journal.jsonl"), Path("run.json"), Path(index.NAME)}  # the index is of that journal
    assert {k: v for k, v in one.items() if k not in timed} == {k: v for k, v in two.items() if k not in timed}


@pytest.mark.parametrize("hostile", ["../../escape", "..", "/etc/passwd", "a\x1b[31mb\nc", "ü" * 200, "CON", "-rf"])
def test_no_name_leads_out_of_the_run(tmp_path, hostile):
    text = MAP + "  lane: lane\n  cell: cell\n  labels: [lane]\n"
    rows = [{"run": "1", "start": "", "bs": "4k", "qd": 1, "secs": 60, "iops": 5, "lane": hostile, "cell": hostile}]
    place = tmp_path / "in"
    place.mkdir()
    (place / "t.json").write_text(json.dumps(rows))
    before = set(tmp_path.rglob("*"))
    done(tmp_path, place, mapped(text=text))
    made = {path.relative_to(tmp_path) for path in set(tmp_path.rglob("*")) - before}
    assert {path.parts[0] for path in made} == {"out"}
    assert load_run(tmp_path / "out").observations[0].metrics == {"iops": 5.0}


def test_an_existing_folder_is_not_touched(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("x")
    table(tmp_path / "in" / "a" / "1.csv", "1,,4k,1,60,10")
    with pytest.raises(FairlaneError, check=kind("run-exists")):
        done(tmp_path, tmp_path / "in")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["precious"]


def test_lanes_of_the_map_by_files_by_labels_and_by_name(tmp_path):
    for name in ("x/1", "y/deep/2", "z/3"):
        table(tmp_path / "in" / f"{name}.csv", f"1,,4k,1,60,{len(name)}")
    chosen = mapped(
        "lanes:\n  first: {files: [x]}\n  second: {files: ['*/deep/*.csv'], cap_iops: 500}\n  z: {label: Zed}\n"
    )
    done(tmp_path, tmp_path / "in", chosen, baseline="second")
    study = load_run(tmp_path / "out").study
    assert list(study.lanes) == ["first", "second", "z"]
    assert study.lanes["second"].cap_iops == 500
    assert study.lanes["z"].label == "Zed"
    assert study.baseline == "second"


def test_a_file_of_two_lanes_a_lane_without_files_and_a_baseline_that_is_none(tmp_path):
    table(tmp_path / "in" / "x" / "1.csv", "1,,4k,1,60,10")
    with pytest.raises(FairlaneError, check=kind("lane-ambiguous", "x/1.csv")) as raised:
        done(tmp_path, tmp_path / "in", mapped("lanes: {one: {files: [x]}, two: {files: ['*.csv']}}\n"))
    assert "one, two" in raised.value.message
    with pytest.raises(FairlaneError, check=kind("lane-empty"), match="'w'"):
        done(tmp_path, tmp_path / "in", mapped("lanes: {w: {files: [w]}}\n"))
    with pytest.raises(FairlaneError, check=kind("lane-unknown"), match="'y'"):
        done(tmp_path, tmp_path / "in", baseline="y")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path):
    source = alternating(tmp_path / "in", {"a": 10, "b": 20}, 2)
    dry = import_files([source], None, mapped())
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
    real = done(tmp_path, source)
    assert dry.layout.points == real.layout.points
    assert [(p.lane, p.cell, p.block) for p in dry.layout.placed] == [
        (p.lane, p.cell, p.block) for p in real.layout.placed
    ]


def test_text_that_looks_like_numbers_survives_the_study(tmp_path):
    table(tmp_path / "in" / "a" / "1.csv", "1,,4k,1,60,10")
    extra = """question: '1e3'
conditions: {backend: '010', host_cpu: 'no', notes: "a: b # c\\n\\u0007d", tool_version: '3.10'}
"""
    done(tmp_path, tmp_path / "in", mapped(extra))
    study = load_run(tmp_path / "out").study
    assert study.question == "1e3"
    assert study.conditions["backend"] == "010"
    assert study.conditions["tool_version"] == "3.10"
    assert study.conditions["notes"] == "a: b # c\n\x07d"


def test_what_was_wrong_is_told_by_the_name_that_the_user_gave(tmp_path):
    source = alternating(tmp_path / "in", {"iscsi": 1000, "nvme": 1300}, 2)
    with pytest.raises(FairlaneError, check=kind("name-invalid"), match="'Bad Name!'") as error:
        done(tmp_path, source, name="Bad Name!")
    assert error.value.hint.split()[-1] == "bad-name"
    done(tmp_path, source, mapped("margins: {iops: 200%}\n"))
    assert load_run(tmp_path / "out").study.design.margins == {"iops": 2.0}
    with pytest.raises(FairlaneError, check=kind("run-exists")) as error:
        done(tmp_path, source)
    assert "--resume" not in error.value.hint


def test_the_day_that_a_file_tells_is_a_condition_of_its_lane(tmp_path):
    done(tmp_path, alternating(tmp_path / "in", {"iscsi": 1000, "nvme": 1300}, 2))
    known = conditions(load_run(tmp_path / "out"))
    assert {parameter("date").shown(found["date"]) for found in known.values()} == {"2026-02-27"}


# --- lanes of real fio files


def fio(path: Path, **job: str) -> None:
    """A file in the form of fio 3.33's json, of one job with 1,000 reads of 4 KiB in a second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    side = {"total_ios": 1000, "io_bytes": 4096000, "runtime": 1000, "iops": 1000.0}
    lat = {"min": 1000, "max": 9000, "mean": 1000.0 + len(str(path)), "stddev": 1.0, "N": 1000}
    empty = {"total_ios": 0, "io_bytes": 0, "runtime": 0, "iops": 0.0}
    report = {
        "fio version": "fio-3.33",
        "timestamp": 1764000000,
        "timestamp_ms": 1764000000000,
        "global options": {},
        "jobs": [
            {
                "jobname": "j",
                "groupid": 0,
                "error": 0,
                "elapsed": 2,
                "job options": {"rw": "randread", "bs": "4k", "direct": "1", **job},
                "read": {**side, "lat_ns": lat, "clat_ns": lat, "slat_ns": {**lat, "N": 0}},
                "write": empty,
                "trim": empty,
                "job_runtime": 1000,
            }
        ],
    }
    path.write_text(json.dumps(report))


def test_a_wrapper_folder_of_an_unzipped_archive_is_no_lane(tmp_path):
    for lane in ("iscsi", "nvme-tcp"):
        for run in (1, 2):
            fio(tmp_path / "in" / "results-2026" / "fio" / lane / f"run-{run}.json", filename=f"/dev/x{run}")
    layout = done(tmp_path, tmp_path / "in", BARE).layout
    assert list(layout.lanes) == ["iscsi", "nvme-tcp"]
    assert [(place.lane, place.block) for place in layout.placed] == [
        ("iscsi", 0), ("nvme-tcp", 0), ("iscsi", 1), ("nvme-tcp", 1),
    ]  # fmt: skip


def test_the_same_bytes_below_a_wrapper_folder_are_a_trial_of_each_lane(tmp_path):
    for lane in ("iscsi", "nvme"):
        table(tmp_path / "in" / "wrapper" / lane / "1.csv", "1,,4k,1,60,10")
    assert len(done(tmp_path, tmp_path / "in").layout.placed) == 2


def test_a_flat_folder_has_a_lane_per_name(tmp_path):
    for name in ("iscsi-1", "iscsi-2", "nvme-tcp-1", "nvme-tcp-2"):
        fio(tmp_path / "in" / f"{name}.json")
    assert list(done(tmp_path, tmp_path / "in", BARE).layout.lanes) == ["iscsi", "nvme-tcp"]


def test_lanes_by_the_engine_may_differ_in_it(tmp_path):
    for n, engine in enumerate(("libaio", "io_uring") * 2):
        fio(tmp_path / "in" / f"{n}.json", ioengine=engine, iodepth="8")
    done(tmp_path, tmp_path / "in", BARE)
    evidence = load_run(tmp_path / "out")
    assert {lane: spec.label for lane, spec in evidence.study.lanes.items()} == {"libaio": "", "io-uring": "io_uring"}
    assert evidence.study.design.vary == ("engine",)
    assert {v.verdict for v in judge(evidence, run_all(evidence)) if v.primary} != {"refused"}


def test_a_description_tells_lanes_apart(tmp_path):
    for n, text in enumerate(("ceph rep3", "ceph ec")):
        fio(tmp_path / "in" / f"{n + 1}.json", description=text)
    assert list(done(tmp_path, tmp_path / "in", BARE).layout.lanes.values()) == ["rep3", "ec"]


def test_a_map_that_names_folders_finds_them_below_a_wrapper(tmp_path):
    for lane in ("old", "new"):
        fio(tmp_path / "in" / "w" / lane / "1.json")
    chosen = parse_map("baseline: old\nlanes: {new: {label: The new one}, old: {}}\n", "m.yaml")
    summary = done(tmp_path, tmp_path / "in", chosen)
    assert dict(summary.layout.lanes) == {"new": "The new one", "old": ""}
    assert summary.baseline == "old"
    assert summary.layout.proposal is not None
    ruled = parse_map("lanes: {a: {files: [old]}, b: {files: [new]}}\n", "m.yaml")
    assert import_files([tmp_path / "in"], None, ruled).layout.proposal is None
