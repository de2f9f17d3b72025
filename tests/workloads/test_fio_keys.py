"""Keys of workload fio beyond the matrix: syncs, the page cache, addresses, data, pauses. fio runs for real."""

import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.errors import FairlaneError
from fairlane.records import Cell, Figures
from fairlane.stats.histogram import SYNCS, percentile
from fairlane.study.load import parse_study
from fairlane.workloads.base import Invention
from fairlane.workloads.fio import PLUGIN, FioSpec
from tests.conftest import SIZE
from tests.words import kind, refused

needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")


def spec(**changes: Any) -> FioSpec:
    return FioSpec.model_validate({"kind": "fio", "runtime": "300ms", "size": "8m", "rw": ["randwrite"]} | changes)


def cells(**changes: Any) -> tuple[Cell, ...]:
    return spec(**changes).cells("main")


def cell(**changes: Any) -> Cell:
    (only,) = cells(**changes)
    return only


def sections(script: str) -> dict[str, dict[str, str]]:
    """The jobs of the job file that a script writes."""
    text = script.split("END-OF-JOB'\n")[1].split("\nEND-OF-JOB", maxsplit=1)[0]
    jobs: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            jobs[line[1:-1]] = {}
        else:
            key, _, value = line.partition("=")
            jobs[list(jobs)[-1]][key] = value
    return jobs


def job(point: Cell) -> dict[str, str]:
    return sections(PLUGIN.script(point, ("/dev/sdx",), 7))["job"]


def run(script: str, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["sh", "-eu", "-c", script], cwd=folder, check=False, timeout=60)
    outputs = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}
    assert done.returncode == 0, outputs
    return outputs


def counted(script: str) -> str:
    """``script`` for 2,000 I/Os, however long a busy disk takes."""
    assert "\ntime_based=1\nruntime=300ms\n" in script
    return script.replace("\ntime_based=1\nruntime=300ms\n", "\nnumber_ios=2000\nio_size=1g\n")


def figures(point: Cell, disk: Path, tmp_path: Path) -> tuple[Figures, Mapping[str, Any]]:
    return read(point, PLUGIN.script(point, (str(disk),), 3), tmp_path)


def read(point: Cell, script: str, tmp_path: Path) -> tuple[Figures, Mapping[str, Any]]:
    outputs = run(script, tmp_path / "out")
    return PLUGIN.observe(point, outputs), json.loads(outputs["fio.json"])


# --- the keys


def test_syncs_are_cells_of_what_writes() -> None:
    every = cells(rw=["randread", "randwrite"], fdatasync=[0, 1, 8])
    assert [c.name for c in every] == [
        "4k randread qd1", "4k randwrite qd1", "4k randwrite qd1 fdatasync 1", "4k randwrite qd1 fdatasync 8",
    ]  # fmt: skip
    assert len({c.key for c in every}) == 4
    assert {c.params["engine"] for c in every} == {"psync"}  # all cells of a workload alike
    assert [c.params.get("fdatasync") for c in every] == [None, None, 1, 8]
    assert cell(fsync=[4], sync="dsync", direct=False).name == "4k randwrite qd1 fsync 4 dsync cached"


def test_without_the_keys_nothing_is_new() -> None:
    plain = (
        "ioengine direct mem rw bs iodepth numjobs size time_based runtime ramp_time randrepeat randseed norandommap "
        "refill_buffers lat_percentiles clat_percentiles slat_percentiles filename"
    )
    assert set(job(cell())) == set(plain.split())
    params = "rw bs iodepth numjobs rwmixread rate_iops engine mem runtime ramp size prefill"
    assert set(cell().params) == set(params.split())
    defaults = {
        "sync": "none", "end_fsync": False, "direct": True, "offset": "0b", "random_distribution": "random",
        "percentage_random": 100, "thinktime": "0s", "thinktime_blocks": 1, "fsync": [0], "jobs": {},
    }  # fmt: skip
    assert cell(**defaults).params == cell().params


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ({"fsync": [8]}, {"fsync": "8", "ioengine": "psync"}),
        ({"fdatasync": [1], "engine": "libaio", "iodepth": [4]}, {"fdatasync": "1", "ioengine": "libaio"}),
        ({"sync": "dsync"}, {"sync": "dsync", "ioengine": "io_uring"}),
        ({"end_fsync": True}, {"end_fsync": "1"}),
        ({"direct": False}, {"direct": "0", "end_fsync": "1"}),
        ({"direct": False, "rw": ["randread"]}, {"direct": "0", "end_fsync": None}),
        ({"offset": "1m"}, {"offset": "1048576"}),
        ({"random_distribution": "zipf:1.2"}, {"random_distribution": "zipf:1.2"}),
        ({"random_distribution": "zoned:60/10:40/90"}, {"random_distribution": "zoned:60/10:40/90"}),
        ({"percentage_random": 30}, {"percentage_random": "30"}),
        ({"bssplit": "4k/60:64k/40"}, {"bssplit": "4k/60:64k/40", "bs": None}),
        ({"buffer_compress_percentage": 50, "dedupe_percentage": 20},
         {"buffer_compress_percentage": "50", "dedupe_percentage": "20"}),
        ({"thinktime": "2ms"}, {"thinktime": "2000us", "thinktime_blocks": "1"}),
    ],
)  # fmt: skip
def test_a_key_is_an_option_of_fios(keys: dict[str, Any], options: dict[str, str | None]) -> None:
    got = job(cell(**keys))
    assert {name: got.get(name) for name in options} == options


WRONG = [
    ({"fsync": [-1]}, "fsync", "0"),
    ({"fsync": [1], "fdatasync": [1]}, "fsync", "fdatasync"),
    ({"fdatasync": [8], "iodepth": [4]}, "fdatasync", "io_uring"),
    ({"rw": ["randread"], "fdatasync": [1]}, "fdatasync", "writes"),
    ({"rw": ["read"], "random_distribution": "zipf:1.2"}, "random_distribution", "random"),
    ({"random_distribution": "zipf:1.0"}, "random_distribution", "1.0"),
    ({"random_distribution": "pareto:1.5"}, "random_distribution", "1.5"),
    ({"random_distribution": "gauss:1"}, "random_distribution", "gauss"),
    ({"random_distribution": "zoned:60/10:30/20"}, "random_distribution", "90"),
    ({"bssplit": "4k/60:64k/50"}, "bssplit", "110"),
    ({"bssplit": "1000/100"}, "bssplit", "1000"),
    ({"bssplit": "4k/50:8k/50", "bs": ["8k"]}, "bssplit", "bs"),
    ({"thinktime": "1500ns"}, "thinktime", "microseconds"),
    ({"thinktime_blocks": 4}, "thinktime_blocks", "thinktime"),
    ({"offset": "100b"}, "offset", "512"),
    ({"direct": False, "engine": "libaio", "iodepth": [4]}, "iodepth", "libaio"),
    ({"primary": "sync_lat_p99"}, "primary", "sync_lat_p99"),
    ({"primary": "sync_lat_p99", "fdatasync": [1], "engine": "io_uring"}, "primary", "psync"),
    ({"primary": "sync_lat_p99", "fdatasync": [0, 1]}, "primary", "sync_lat_p99"),
    ({"judged": "log"}, "judged", "log"),
    ({"jobs": {"log": {"rw": "write"}}, "judged": "reader"}, "judged", "log"),
    ({"jobs": {"log": {"rw": "write", "engine": "psync", "iodepth": 4}}}, "jobs.log.iodepth", "psync"),
    ({"job_file": "a.fio"}, "job_file", "a.fio"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "key", "token"), WRONG)
def test_what_fio_would_misread_is_refused(change: dict[str, Any], key: str, token: str) -> None:
    with pytest.raises(ValidationError, check=refused(key, token)):
        spec(**change)


def test_the_guard_knows_them() -> None:
    asked = spec(direct=False, fdatasync=[4], offset="1m", thinktime="1ms")
    known = asked.known(*asked.cells("main"))
    assert (known["direct"], known["fdatasync"], known["offset"], known["thinktime"]) == (False, 4, 2**20, 10**6)
    assert spec().known(cell())["direct"] is True


def test_a_study_written_back_runs_the_same() -> None:
    for keys in ({"fdatasync": [1]}, {"bssplit": "4k/60:64k/40"}, {"jobs": {"log": {"rw": "write", "fdatasync": 1}}}):
        asked = spec(**keys)
        again = FioSpec.model_validate_json(asked.model_dump_json())
        assert [c.params for c in again.cells("m")] == [c.params for c in asked.cells("m")]


# --- fio


@needs_fio
def test_syncs_of_real_fio_are_metrics(disk: Path, tmp_path: Path) -> None:
    point = cell(rw=["write"], fdatasync=[1], numjobs=[2], ramp="50ms", series="100ms")
    seen, report = figures(point, disk, tmp_path)
    syncs = [j["sync"]["lat_ns"] for j in report["jobs"]]
    count = sum(s["N"] for s in syncs)
    assert count > 10
    assert seen.context["load"]["syncs"] == count == sum(seen.histograms[SYNCS].values())
    assert seen.metrics["sync_lat_mean"] == pytest.approx(sum(s["N"] * s["mean"] for s in syncs) / count)
    assert seen.metrics["sync_lat_p50"] == percentile(seen.histograms[SYNCS], 0.5)
    writes = sum(j["write"]["lat_ns"]["N"] for j in report["jobs"])
    assert abs(writes - count) <= 4  # one sync after every write
    assert sum(seen.histograms["write.lat"].values()) == writes  # no sync among the latencies of writes


@needs_fio
def test_syncs_of_other_engines_are_counted_and_not_timed(disk: Path, tmp_path: Path) -> None:
    seen, report = figures(cell(fdatasync=[1], engine="libaio"), disk, tmp_path)
    assert seen.context["load"]["syncs"] == report["jobs"][0]["sync"]["lat_ns"]["N"] > 0
    assert not [name for name in seen.metrics if name.startswith("sync_")]
    assert SYNCS not in seen.histograms


@needs_fio
def test_nothing_but_syncs_has_sync_latency(disk: Path, tmp_path: Path) -> None:
    """fio counts neither the flags of writes nor the sync at the end."""
    for keys in ({"sync": "dsync"}, {"end_fsync": True}, {}):
        seen, _ = figures(cell(engine="psync", **keys), disk, tmp_path)
        assert not [name for name in seen.metrics if name.startswith("sync_")]
        assert "syncs" not in seen.context["load"]


@needs_fio
def test_the_part_in_use_begins_at_the_offset(disk: Path, tmp_path: Path) -> None:
    before = disk.read_bytes()
    point = cell(offset="4m", size="2m", bs=["64k"], buffer_compress_percentage=100)
    assert PLUGIN.prepares(point, SIZE) == 2 * 2**20
    run(PLUGIN.prepare(point, str(disk)), tmp_path / "prefill")
    run(PLUGIN.script(point, (str(disk),), 3), tmp_path / "out")
    after = disk.read_bytes()
    assert after[: 4 * 2**20] == before[: 4 * 2**20]
    assert after[6 * 2**20 :] == before[6 * 2**20 :]
    blocks = range(4 * 2**20, 6 * 2**20, 65536)
    assert all(after[i : i + 65536] != before[i : i + 65536] for i in blocks)  # the prefill left none out


@needs_fio
def test_the_prefill_of_the_rest_of_a_device(disk: Path, tmp_path: Path) -> None:
    point = cell(offset="6m", size=None)
    before = disk.read_bytes()
    run(PLUGIN.prepare(point, str(disk)), tmp_path / "prefill")
    after = disk.read_bytes()
    assert PLUGIN.prepares(point, SIZE) == 2 * 2**20
    assert len(after) == SIZE
    assert after[: 6 * 2**20] == before[: 6 * 2**20]
    assert all(after[i : i + 4096] != before[i : i + 4096] for i in range(6 * 2**20, SIZE, 4096))


@needs_fio
def test_the_prefill_has_the_data_of_the_load(disk: Path, tmp_path: Path) -> None:
    run(PLUGIN.prepare(cell(buffer_compress_percentage=70), str(disk)), tmp_path / "compress")
    data = disk.read_bytes()
    assert len(zlib.compress(data, 1)) / len(data) == pytest.approx(0.3, abs=0.05)
    run(PLUGIN.prepare(cell(size="4k", dedupe_percentage=50, bs=["4k"]), str(disk)), tmp_path / "small")
    options = sections(PLUGIN.prepare(cell(dedupe_percentage=50), "/dev/x"))["prefill"]
    assert options["dedupe_percentage"] == "50"


@needs_fio
def test_a_hot_spot_is_hot(disk: Path, tmp_path: Path) -> None:
    point = cell(rw=["randread"], engine="psync", random_distribution="zoned:90/10:10/90")
    script = PLUGIN.script(point, (str(disk),), 3).replace("[job]\n", "[job]\nwrite_bw_log=log\nlog_offset=1\n")
    run(counted(script), tmp_path / "out")
    offsets = [int(line.split(",")[4]) for line in (tmp_path / "out" / "log_bw.1.log").read_text().splitlines()]
    hot = sum(offset < 0.1 * SIZE for offset in offsets) / len(offsets)
    assert hot == pytest.approx(0.9, abs=0.05)


@needs_fio
def test_sizes_are_mixed(disk: Path, tmp_path: Path) -> None:
    point = cell(rw=["randread"], engine="psync", bssplit="4k/60:64k/40")
    seen, _ = read(point, counted(PLUGIN.script(point, (str(disk),), 3)), tmp_path)
    assert seen.metrics["bw"] / seen.metrics["iops"] == pytest.approx(0.6 * 4096 + 0.4 * 65536, rel=0.1)


@needs_fio
def test_pauses_are_kept(disk: Path, tmp_path: Path) -> None:
    seen, _ = figures(cell(engine="psync", thinktime="10ms", thinktime_blocks=2), disk, tmp_path)
    assert 0 < seen.metrics["iops"] <= 2 / 0.010 * 1.1  # fewer where the machine is busy


@needs_fio
def test_through_the_page_cache(disk: Path, tmp_path: Path) -> None:
    seen, report = figures(cell(rw=["randread"], engine="psync", direct=False), disk, tmp_path)
    assert report["jobs"][0]["job options"]["direct"] == "0"
    assert seen.context["load"]["cached"] is True


# --- invented figures


def test_invented_syncs_take_their_time() -> None:
    plain, synced, rare = cells(rw=["write"], fdatasync=[0, 1, 100])
    seen = [PLUGIN.observe(c, PLUGIN.invented(c, Invention(80_000, 1.0, 1.0))) for c in (plain, synced, rare)]
    assert seen[0].metrics["iops"] > seen[2].metrics["iops"] > seen[1].metrics["iops"]
    every = 1e9 / (seen[1].metrics["lat_mean"] + seen[1].metrics["sync_lat_mean"])
    assert seen[1].metrics["iops"] == pytest.approx(every, rel=0.05)
    assert "sync_lat_p99" not in seen[0].metrics


# --- studies


STUDY = """\
name: keys
platform: {kind: fake, effects: {b: {speed: 1.5}}}
baseline: a
lanes: {a: {transport: local}, b: {transport: local}}
workloads:
  main: {kind: fio, rw: [write], runtime: 2s, fdatasync: [1], primary: sync_lat_p99}
"""


def test_a_study_names_the_metric_that_no_cell_has() -> None:
    with pytest.raises(FairlaneError, check=kind("no-syncs")) as raised:
        parse_study(STUDY.replace("fdatasync: [1]", "fdatasync: [0, 1]"), "s.yaml")
    assert re.search(r"s\.yaml:6", str(raised.value))
