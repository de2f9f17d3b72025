import json
import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fairlane.errors import FairlaneError
from fairlane.records import Cell, Figures
from fairlane.stats.histogram import latency, percentile
from fairlane.workloads.base import Garbage, Invention
from fairlane.workloads.fio import PLUGIN, FioSpec
from tests.words import kind, refused

needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")


def spec(**changes: Any) -> FioSpec:
    return FioSpec.model_validate(
        {"kind": "fio", "engine": "psync", "runtime": "200ms", "size": "4m", "rw": ["randread"], "bs": ["4k"]} | changes
    )


def cell(**changes: Any) -> Cell:
    (only,) = spec(**changes).cells("main")
    return only


def job(script: str) -> dict[str, str]:
    """The options of the job file that a script writes."""
    lines = script.split("END-OF-JOB'\n")[1].split("\nEND-OF-JOB", maxsplit=1)[0].splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.fixture
def disk(quick: Path) -> Path:
    path = quick / "disk:with a colon"
    path.write_bytes(bytes(4 * 2**20))
    return path


def run(script: str, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    status = subprocess.run(["sh", "-eu", "-c", script], cwd=folder, check=False, timeout=60).returncode
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()} | {"status": str(status).encode()}


def test_cells_are_every_combination_in_a_stable_order() -> None:
    matrix = spec(rw=["randread", "randrw"], bs=["4k", "8k"], engine="io_uring", iodepth=[1, 8], rwmixread=[70, 50])
    names = [c.name for c in matrix.cells("main")]
    assert names == [
        "4k randread qd1", "4k randread qd8", "8k randread qd1", "8k randread qd8",
        "4k randrw 70/30 qd1", "4k randrw 70/30 qd8", "8k randrw 70/30 qd1", "8k randrw 70/30 qd8",
        "4k randrw 50/50 qd1", "4k randrw 50/50 qd8", "8k randrw 50/50 qd1", "8k randrw 50/50 qd8",
    ]  # fmt: skip
    assert len({c.key for c in matrix.cells("main")}) == len(names)
    assert cell(rw=["randrw"], numjobs=[4]).key == "main.4k-randrw-70-30-qd1-x4"  # no slash: it becomes a file's name
    assert len(spec(bs=["4k", "4096b"]).cells("main")) == 1


MISREAD = [
    ({"iodepth": [1, 8]}, "iodepth", "psync"),
    ({"iodepth": [0]}, "iodepth", "65536"),
    ({"numjobs": [0]}, "numjobs", "100"),
    ({"rwmixread": [101]}, "rwmixread", "100"),
    ({"bs": ["1000b"]}, "bs", "512"),
    ({"runtime": "500us"}, "runtime", "1ms"),
    ({"runtime": "0s"}, "runtime", "1ms"),
    ({"ramp": "100us"}, "ramp", ""),
    ({"series": "300ms"}, "series", ""),
    ({"series": "10ms"}, "series", ""),
    ({"series": "1s"}, "series", "runtime"),
    ({"size": "4k", "numjobs": [2]}, "size", "4k"),
    ({"rw": ["rw"], "rate_iops": [2]}, "rate_iops", "70/30"),
    ({"rw": ["randrw", "randread"], "primary": "bw_read"}, "primary", "randread"),
    ({"rw": ["write"], "slo": {"lat_p99": "2ms", "lat_write_p99": "2ms"}}, "slo", "lat_write_p99"),
]
"""Keys, the one that is wrong, and what its message has."""


@pytest.mark.parametrize(("change", "key", "token"), MISREAD)
def test_what_fio_would_misread_is_refused(change: dict[str, Any], key: str, token: str) -> None:
    with pytest.raises(ValidationError, check=refused(key, token)):
        spec(**change)


def test_a_mix_may_be_judged_by_one_direction() -> None:
    asked = spec(rw=["randrw", "rw"], primary="lat_read_p99", slo={"lat_write_p99": "2ms"})
    assert (asked.primary, dict(asked.slo)) == ("lat_read_p99", {"lat_write_p99": 2 * 10**6})


def test_script_asks_for_what_the_statistics_need() -> None:
    options = job(PLUGIN.script(cell(runtime="30s", ramp="5s"), ("/dev/sdx",), 7))
    for key in ("direct", "time_based", "lat_percentiles", "clat_percentiles", "slat_percentiles", "refill_buffers"):
        assert options[key] == "1"
    assert options["runtime"] == "30000ms"
    assert options["ramp_time"] == "5000ms"
    assert "group_reporting" not in options


def test_rate_is_split_by_the_mix() -> None:
    assert job(PLUGIN.script(cell(rw=["randrw"], rate_iops=[500]), ("/dev/sdx",), 1))["rate_iops"] == "350,150"
    assert job(PLUGIN.script(cell(rate_iops=[500]), ("/dev/sdx",), 1))["rate_iops"] == "500,500"


@pytest.mark.parametrize(
    "device", ["sdx", "/dev/a\nb", "/dev/a;b", "/dev/a#b", "/dev/$HOME", "/dev/a\\b", "/dev/a ", ""]
)
def test_device_that_a_job_file_cannot_carry_is_refused(device: str) -> None:
    with pytest.raises(FairlaneError):
        PLUGIN.script(cell(), (device,), 1)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_device_name_reaches_the_shell_or_another_option(name: str) -> None:
    try:
        script = PLUGIN.script(cell(), (f"/dev/{name}",), 1)
    except FairlaneError:
        return
    assert len(script.splitlines()) == len(PLUGIN.script(cell(), ("/dev/x",), 1).splitlines())
    assert script.count("<<'END-OF-JOB'\n") == 1


@needs_fio
def test_real_fio_is_read(disk: Path, tmp_path: Path) -> None:
    point = cell(rw=["randrw"], numjobs=[2], ramp="50ms")
    outputs = run(PLUGIN.script(point, (str(disk),), 3), tmp_path / "out")
    assert outputs["status"] == b"0", outputs["fio.err"]
    figures = PLUGIN.observe(point, outputs)
    context, load = figures.context["fio"], figures.context["load"]
    fio = json.loads(outputs["fio.json"])
    assert context["version"].startswith("fio-3")
    assert context["jobs"] == len(fio["jobs"]) == 2
    assert 150 <= load["runtime_ms"] <= 400
    reported = sum(j[way]["iops"] for j in fio["jobs"] for way in ("read", "write"))
    assert figures.metrics["iops"] == pytest.approx(reported, rel=0.05)
    assert figures.metrics["bw"] == pytest.approx(figures.metrics["iops"] * 4096)
    assert sum(sum(h.values()) for n, h in figures.histograms.items() if n.endswith(".lat")) == sum(
        j[way]["lat_ns"]["N"] for j in fio["jobs"] for way in ("read", "write")
    )
    bins = latency(figures.histograms)
    mean = sum(ns * n for ns, n in bins.items()) / sum(bins.values())
    assert figures.metrics["lat_mean"] == pytest.approx(mean, rel=0.01)
    assert figures.metrics["lat_p50"] == percentile(bins, 0.5)
    # fio's own p50 of one side of one job lies among the merged I/Os
    assert min(bins) <= figures.metrics["lat_p50"] <= max(bins)
    # two processes on real time cannot use more CPU than two cores have
    generator = figures.context["generator"]
    assert 0 < sum(generator.values()) * figures.metrics["iops"] <= 2.2e9


def offsets(script: str, folder: Path) -> list[list[int]]:
    """Offsets of the I/Os of each job, as fio logs them."""
    ended_by_count = re.sub(r"^(time_based|runtime)=.*\n", "", script, flags=re.MULTILINE)
    run(ended_by_count.replace("[job]\n", "[job]\nwrite_bw_log=log\nlog_offset=1\nnumber_ios=20\n"), folder)
    logs = sorted(folder.glob("log_bw.*.log"))
    return [[int(line.split(",")[4]) for line in log.read_text().splitlines()[:20]] for log in logs]


@needs_fio
def test_block_seed_decides_the_addresses(disk: Path, tmp_path: Path) -> None:
    """The heart of common random numbers: lanes of a block see the same addresses, the next block sees others."""
    point = cell(numjobs=[2])
    first = offsets(PLUGIN.script(point, (str(disk),), 7), tmp_path / "a")
    again = offsets(PLUGIN.script(point, (str(disk),), 7), tmp_path / "b")
    other = offsets(PLUGIN.script(point, (str(disk),), 8), tmp_path / "c")
    zero = offsets(PLUGIN.script(point, (str(disk),), 0), tmp_path / "d")
    assert first == again
    assert len(first) == 2
    assert first[0] != first[1]
    assert first[0] != other[0]
    assert first[1] != other[1]
    assert zero[0] != zero[1]


@needs_fio
@pytest.mark.parametrize("size", ["4m", None])
def test_sequential_jobs_work_on_regions_of_their_own(disk: Path, tmp_path: Path, size: str | None) -> None:
    point = cell(rw=["read"], numjobs=[3], size=size)
    logs = offsets(PLUGIN.script(point, (str(disk),), 7), tmp_path / "out")
    starts = sorted(min(log) for log in logs)
    assert starts[0] == 0
    assert all(b - a >= 4 * 2**20 // 3 - 65536 for a, b in pairwise(starts))


@needs_fio
def test_rate_split_holds_in_a_real_run(disk: Path, tmp_path: Path) -> None:
    point = cell(rw=["randrw"], rate_iops=[1000], runtime="1s")
    figures = PLUGIN.observe(point, run(PLUGIN.script(point, (str(disk),), 3), tmp_path / "out"))
    ios = figures.context["load"]["ios"]
    assert ios["read"] / sum(ios.values()) == pytest.approx(0.7, abs=0.03)
    assert figures.metrics["iops"] <= 1100  # of both together; less where the machine is busy


@needs_fio
def test_prefill_writes_the_whole_part(disk: Path, tmp_path: Path) -> None:
    script = PLUGIN.prepare(cell(size="2m"), str(disk))
    assert run(script, tmp_path / "out")["status"] == b"0"
    content = disk.read_bytes()
    assert all(any(content[i : i + 4096]) for i in range(0, 2 * 2**20, 4096))
    assert not any(content[2 * 2**20 :])
    assert PLUGIN.prepare(cell(prefill=False), str(disk)) == ""


@needs_fio
def test_missing_device_fails_with_fios_reason(tmp_path: Path) -> None:
    outputs = run(PLUGIN.script(cell(size=None), (str(tmp_path / "absent"),), 1), tmp_path / "out")
    assert outputs["status"] != b"0"
    with pytest.raises(Garbage):
        PLUGIN.observe(cell(), outputs)


# --- what may stand in fio.json -----------------------------------------------------------------------------------


def side(ios: int, lat: float, bins: dict[str, int]) -> dict[str, Any]:
    return {
        "io_bytes": ios * 4096, "runtime": 1000 if ios else 0, "total_ios": ios, "short_ios": 0, "drop_ios": 0,
        "lat_ns": {"mean": lat, "N": ios, "bins": bins},
    }  # fmt: skip


def whole(*jobs: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {
        "fio version": "fio-3.33",
        "jobs": [{"jobname": "j", "error": 0, "read": r, "write": w, "usr_cpu": 1.0, "sys_cpu": 2.0} for r, w in jobs],
    }


GOOD = whole((side(900, 1000.0, {"1000": 900}), side(100, 9000.0, {"9000": 100})))


def read(report: Any) -> Figures:
    raw = report if isinstance(report, bytes) else json.dumps(report).encode()
    return PLUGIN.observe(cell(), {"fio.json": raw})


def test_percentiles_come_from_merged_bins_and_the_mean_is_weighted_by_ios() -> None:
    figures = read(GOOD)
    assert figures.metrics["iops"] == 1000
    assert figures.metrics["lat_mean"] == 0.9 * 1000 + 0.1 * 9000
    assert figures.metrics["lat_p50"] == 1000
    assert figures.metrics["lat_p99"] == 9000  # the mean of the two p99s would be 5000, weighted 1800
    assert "lat_p999" not in figures.metrics  # one I/O beyond it
    assert figures.histograms["read.lat"] == {1000: 900}
    assert figures.context["load"]["iops"] == {"read": 900.0, "write": 100.0}
    assert figures.context["generator"] == {"user": 10_000.0, "kernel": 20_000.0}  # 1 % and 2 % of a second, 1000 I/Os


def test_iops_are_completions_not_submissions() -> None:
    """A trial of the demo, 64k randread qd16 on iscsi: 15 I/Os were in flight when the ramp ended."""
    trial = {**side(375, 6_912_861.8, {"6914048": 375}), "runtime": 157, "total_ios": 360, "io_bytes": 375 * 65536}
    report = whole((trial, side(0, 0.0, {})))
    report["jobs"][0] |= {"job_runtime": 156, "usr_cpu": 0.0, "sys_cpu": 5.769231}  # 9 ms
    figures = read(report)
    assert figures.metrics["iops"] == pytest.approx(375 / 0.157)
    assert figures.metrics["bw"] == pytest.approx(figures.metrics["iops"] * 65536)  # fio's own iops and bw do not agree
    assert figures.context["fio"]["submitted"] == {"read": 360, "write": 0}
    assert figures.context["generator"] == pytest.approx({"user": 0.0, "kernel": 9e6 / 375})
    assert figures.context["generator_step"] == pytest.approx(1e6 / 375)
    assert figures.steps == pytest.approx(dict.fromkeys(("iops", "bw"), 1 / 375 + 0.5 / 157))


@needs_fio
def test_iops_and_bandwidth_of_real_fio_agree_after_a_ramp(disk: Path, tmp_path: Path) -> None:
    point = cell(engine="libaio", iodepth=[16], ramp="50ms")
    outputs = run(PLUGIN.script(point, (str(disk),), 7), tmp_path / "out")
    figures = PLUGIN.observe(point, outputs)
    ios = sum(figures.context["load"]["ios"].values())
    # one I/O may be in the bytes alone: it was being counted when fio's ramp ended
    assert figures.metrics["bw"] == pytest.approx(figures.metrics["iops"] * 4096, rel=2 / ios)


def test_warnings_before_the_report_are_tolerated_and_kept() -> None:
    figures = read(b"fio: warning, something {odd}\nnote: both iodepth\n" + json.dumps(GOOD).encode() + b"\n")
    assert figures.metrics == read(GOOD).metrics
    assert "something {odd}" in figures.context["fio"]["warnings"]


def edited(path: str, value: Any) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(json.dumps(GOOD))
    *steps, last = path.split("/")
    place: Any = report
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[last] = value
    return report


GARBAGE = [
    (b"", "empty"),
    (b"  \n", "empty"),
    (b"\xff\xfa", "not-text"),
    (b"Segmentation fault", "no-report 'Segmentation"),
    (json.dumps(GOOD).encode()[:300], "cut-off 300"),
    (json.dumps(GOOD).encode() * 2, "several-reports 2"),
    (b"[]", "no-report '[]'"),
    (b"{}", "not-fio jobs"),
    ({"jobs": []}, "no-jobs"),
    ({"jobs": [1]}, "not-an-object"),
    (b'{"a":' * 100_000, "nested"),
    (b'{"jobs": ' + b"9" * 5000 + b"}", "cut-off"),
    (edited("jobs/0/error", 5), "tool-error 5 'j'"),
    (whole((side(0, 0.0, {}), side(0, 0.0, {}))), "no-io"),
    (edited("jobs/0/read/runtime", -1), "not-a-number runtime '-1'"),
    (edited("jobs/0/read/total_ios", 1.5), "not-a-number total_ios 1.5"),
    (edited("jobs/0/read/total_ios", True), "not-a-number total_ios"),
    (edited("jobs/0/read/total_ios", 10**400), "not-a-number total_ios"),
    (edited("jobs/0/read/lat_ns/mean", float("nan")), "mean-missing lat_ns"),
    (edited("jobs/0/read/lat_ns/bins", {"x": 1}), "unknown-bin 'x'"),
    (edited("jobs/0/read/lat_ns/bins", {"-1": 1}), "unknown-bin '-1'"),
    (edited("jobs/0/read/lat_ns/bins", {"1": -1}), "not-a-number -1"),
    (whole((side(9, 1.0, {}), side(0, 0.0, {}))), "bins-missing"),
]
"""Report, kind of the error with names and figures."""


@pytest.mark.parametrize(("report", "reason"), GARBAGE)
def test_garbage_is_named(report: Any, reason: str) -> None:
    expected, *tokens = reason.split()
    with pytest.raises(Garbage, check=kind(expected)) as raised:
        read(report)
    assert [token for token in tokens if token not in str(raised.value)] == []


def test_no_file_is_garbage() -> None:
    with pytest.raises(Garbage, check=kind("output-missing")):
        PLUGIN.observe(cell(), {})


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PATHS = (
    "jobs", "fio version", "jobs/0/error", "jobs/0/jobname", "jobs/0/usr_cpu", "jobs/0/read", "jobs/0/read/total_ios",
    "jobs/0/read/runtime", "jobs/0/read/io_bytes", "jobs/0/read/lat_ns", "jobs/0/read/lat_ns/mean",
    "jobs/0/read/lat_ns/N", "jobs/0/read/lat_ns/bins", "jobs/0/read/lat_ns/bins/1000", "jobs/0/write/slat_ns",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), plain, st.builds(edited, st.sampled_from(PATHS), plain)))
def test_hostile_output_is_read_or_garbage_and_nothing_else(report: Any) -> None:
    try:
        figures = read(report)
    except Garbage:
        return
    assert all(0 <= value < float("inf") for value in figures.metrics.values())
    json.dumps(figures.context, allow_nan=False)


def test_a_series_is_logged_by_fio_and_is_no_condition() -> None:
    logged = cell(runtime="2s", series="500ms")
    options = job(PLUGIN.script(logged, ("/dev/a",), 1))
    assert {k: options[k] for k in ("write_iops_log", "log_avg_msec", "per_job_logs")} == {
        "write_iops_log": "series",
        "log_avg_msec": "500",
        "per_job_logs": "0",
    }
    assert "write_iops_log" not in job(PLUGIN.script(cell(), ("/dev/a",), 1))
    without = cell(runtime="2s")
    assert "series" not in without.params  # runs begun before there was one are read as they were
    assert spec().known(logged) == spec().known(without)


@needs_fio
def test_real_fio_leaves_a_series_of_all_its_jobs(tmp_path: Path) -> None:
    files = []
    for name in ("a:1", "b"):
        (tmp_path / name).write_bytes(os.urandom(4 * 2**20))
        files.append(str(tmp_path / name))
    keys: dict[str, Any] = {"rw": ["randrw"], "rwmixread": [50], "numjobs": [2], "rate_iops": [100]}
    logged = cell(runtime="1200ms", ramp="300ms", series="200ms", **keys)
    outputs = run(PLUGIN.script(logged, files, 3), tmp_path / "out")
    assert outputs["status"] == b"0"
    figures = PLUGIN.observe(logged, outputs)
    series = figures.context["load"]["series"]
    assert series["interval_ms"] == 200
    assert 5 <= len(series["iops"]) <= 7  # of 6, the ramp cut off
    rows = outputs["series_iops.log"].decode().splitlines()
    assert {row.split(", ")[2] for row in rows} == {"0", "1"}
    assert sum(series["iops"]) == pytest.approx(sum(int(row.split(", ")[1]) for row in rows), rel=0.5)
    rates = [figures.context["load"]["iops"][way] for way in ("read", "write")]
    assert sum(series["iops"]) / 6 == pytest.approx(sum(rates), rel=0.5)  # both directions of all four jobs


def test_series_of_a_fleet_are_added_up_second_by_second() -> None:
    logged = cell(runtime="3s", series="1s")
    each = [
        PLUGIN.observe(logged, {**_invented(logged), "series_iops.log": text})
        for text in (b"1000, 10, 0, 0\n2000, 20, 0, 0\n", b"1001, 1, 0, 0\n2001, 2, 0, 0\n3000, 3, 0, 0\n")
    ]
    machines = {f"vm{n}": figures for n, figures in enumerate(each)}
    assert PLUGIN.merge(logged, machines).context["load"]["series"] == {"interval_ms": 1000, "iops": [11, 22]}
    machines["vm2"] = PLUGIN.observe(logged, {**_invented(logged), "series_iops.log": b""})
    assert "series" not in PLUGIN.merge(logged, machines).context["load"]


def _invented(of: Cell) -> dict[str, bytes]:
    return dict(PLUGIN.invented(of, Invention(80_000, 1.0, 1.0)))


def test_a_rate_of_mixed_sizes_is_asked_for_as_fio_counts_it() -> None:
    """fio paces bytes: the rate times the smallest size. Run for real, 1000 came out as 782."""
    keys: dict[str, Any] = {"rw": ["randwrite"], "bs": None, "bssplit": "8k/50:24k/50", "rate_iops": [100]}
    one = FioSpec.model_validate({"kind": "fio", **{k: v for k, v in keys.items() if v}})
    (only,) = one.cells("main")
    assert job(PLUGIN.script(only, ("/dev/sdx",), 1))["rate_iops"] == "200,200"
