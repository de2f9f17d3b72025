"""``fairlane pilot`` on real runs of the fake platform."""

import json
import shutil

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.stats.effects import blocks_needed
from fairlane.study.load import parse_study
from tests.words import kinds

STUDY = """\
name: small
platform: {kind: fake, noise: {sd: 2%}}
lanes: {a: {transport: iscsi}, b: {transport: iscsi}, c: {transport: nvme_tcp}}
baseline: a
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [5]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("pilots")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--out", str(place / "done")]) == Exit.OK
    return place / "done"


def told(capsys, *args):
    capsys.readouterr()
    assert run(["pilot", *map(str, args), "--format", "json"]) == Exit.OK
    return json.loads(capsys.readouterr().out)


def test_every_primary_comparison_has_its_number(folder, capsys):
    plan = told(capsys, folder, "--half-width", "2%", "--jobs", "1")
    assert [(c["cell"], c["lane"]) for c in plan["cells"]] == [
        (f"4k randread qd{depth}", lane) for depth in (1, 16) for lane in "bc"
    ]
    assert plan["level"] == pytest.approx(0.05 / 4)
    for cell in plan["cells"]:
        assert cell["blocks"] == 5
        assert cell["needed"] < cell["needed_upper"]
        assert cell["needed"] == blocks_needed(cell["spread"], 0.0198026, plan["level"])
        assert cell["seconds"] == pytest.approx(cell["needed"] * 3 * 0.005)  # blocks, lanes, one trial of the platform
    assert plan["looks"] == [max(c["needed"] for c in plan["cells"])]
    assert plan["seconds"] == pytest.approx(plan["looks"][0] * 2 * 3 * 0.005)


def test_the_last_lines_are_a_design_that_a_study_takes(folder, capsys):
    capsys.readouterr()
    assert run(["pilot", str(folder)]) == Exit.OK
    out = capsys.readouterr().out
    design = out[out.index("design:") :]
    study = parse_study(STUDY[: STUDY.index("design:")] + design, "advised.yaml")
    assert study.design.looks == tuple(told(capsys, folder)["looks"])


def test_an_unfinished_run_will_do(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "half")
    journal = tmp_path / "half" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:20]))
    plan = told(capsys, tmp_path / "half")
    assert {c["blocks"] for c in plan["cells"]} <= {2, 3, 4}
    journal.write_text("".join(lines[:4]))
    assert told(capsys, tmp_path / "half")["looks"] is None
    assert run(["pilot", str(tmp_path / "half")]) == Exit.OK
    assert "design:" not in capsys.readouterr().out


@pytest.mark.parametrize("bad", ["0%", "200", "x", "-1%", "150%"])
def test_a_bad_half_width_is_a_usage_error(folder, bad):
    assert run(["pilot", str(folder), f"--half-width={bad}"]) == Exit.USAGE


def test_trials_that_ran_apart_have_no_blocks(tmp_path, capsys):
    (tmp_path / "study.yaml").write_text(STUDY.replace("looks: [5]", "looks: [2], paired: false"))
    run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "apart")])
    assert run(["pilot", str(tmp_path / "apart")]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["not-paired"]


SERIES = """\
name: long
platform: {kind: fake, noise: {sd: 1%, seconds: 0.5%}, effects: {b: {speed: 1.1, warm: {speed: 1.2, time: 3s}}}}
lanes: {a: {transport: iscsi}, b: {transport: iscsi}}
baseline: a
workloads:
  main: {kind: fio, rw: [randread, randrw], bs: [4k], iodepth: [1], numjobs: [2], runtime: 60s, series: 1s}
  paced: {kind: fio, iodepth: [4], rate_iops: [100], runtime: 60s, series: 1s}
design: {seed: 3, looks: [8]}
"""


@pytest.mark.slow
def test_the_shortest_slot_is_one_that_a_planted_cache_does_not_reach(tmp_path, capsys):
    """Lane b is a fifth too fast in its first 3 s."""
    (tmp_path / "study.yaml").write_text(SERIES)
    assert run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run")]) == Exit.OK
    plan = told(capsys, tmp_path / "run")["slots"]
    assert plan["answer"] == {"ramp": 5, "runtime": 5, "load_seconds": 2 * 2 * 4 * 10}  # cells, lanes, blocks
    assert plan["now"] == {"seconds": 60, "load_seconds": 2 * 2 * 4 * 60}
    first = plan["tried"][0]
    assert (first["ramp"], first["runtime"], first["agrees"]) == (1, 1, False)
    for cell in first["cells"]:
        assert cell["verdict"] == "differs"
        assert cell["bias"] == pytest.approx(0.2, abs=0.02)
        assert cell["limit"] == pytest.approx(1.05**0.25 - 1)
    assert plan["left_out"] == ["paced.4k-randread-qd4-at-100"]
    assert run(["pilot", str(tmp_path / "run")]) == Exit.OK
    out = capsys.readouterr().out
    assert "ramp: 5s\nruntime: 5s\n" in out


@pytest.mark.slow
def test_without_the_cache_a_second_will_do(tmp_path, capsys):
    (tmp_path / "study.yaml").write_text(SERIES.replace(", warm: {speed: 1.2, time: 3s}", ""))
    run(["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run")])
    assert told(capsys, tmp_path / "run")["slots"]["answer"]["ramp"] == 1


def test_a_run_without_series_says_how_to_get_one(folder, capsys):
    assert told(capsys, folder)["slots"] is None
    run(["pilot", str(folder)])
    assert "series: 1s" in capsys.readouterr().out
