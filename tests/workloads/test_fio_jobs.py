"""Several named jobs of fio at once, in a study or in a job file. fio runs for real."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fairlane.errors import FairlaneError, Invalid
from fairlane.formats.fio_job_file import parse
from fairlane.records import Cell
from fairlane.stats.histogram import SYNCS, percentile
from fairlane.workloads.base import Garbage, Invention, Stage
from fairlane.workloads.fio import PLUGIN, FioSpec
from tests.conftest import SIZE
from tests.words import kind, refused
from tests.workloads.test_fio_keys import run, sections

needs_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
LOG = {"rw": "write", "bs": "4k", "fdatasync": 1, "size": "2m"}
READER = {"rw": "randread", "bs": "8k", "iodepth": 4, "engine": "libaio", "numjobs": 2, "offset": "2m", "size": "6m"}
JOBS = {"log": LOG, "reader": READER}
FILE = """\
; a database
[global]
ioengine=psync
direct=1
runtime=300ms
group_reporting
filename=/dev/sdq

[Log writer]
rw=write ; of the log
blocksize=4k
fdatasync=1
size=2m

[reader]
rw=randread
bs=8k
numjobs=2
offset=2m
size=6m
latency_target=10s
"""


def spec(**changes: Any) -> FioSpec:
    return FioSpec.model_validate({"kind": "fio", "runtime": "300ms", "jobs": JOBS} | changes)


def of_file(text: str, **changes: Any) -> FioSpec:
    return FioSpec.model_validate({"kind": "fio", "job_file": text} | changes)


def cell(**changes: Any) -> Cell:
    (only,) = spec(**changes).cells("main")
    return only


@pytest.fixture
def disk(quick: Path) -> Path:
    path = quick / "disk"
    path.write_bytes(os.urandom(SIZE))
    return path


# --- jobs of a study


def test_each_job_has_its_keys_and_the_workloads() -> None:
    written = sections(PLUGIN.script(cell(thinktime="1ms"), ("/dev/sdx",), 7))
    assert list(written) == ["log", "reader"]
    log, reader = written["log"], written["reader"]
    assert (log["rw"], log["ioengine"], log["fdatasync"], log["size"]) == ("write", "psync", "1", str(2 * 2**20))
    assert (reader["rw"], reader["ioengine"], reader["iodepth"], reader["numjobs"]) == ("randread", "libaio", "4", "2")
    assert "fdatasync" not in reader
    assert log["thinktime"] == reader["thinktime"] == "1000us"
    two = sections(PLUGIN.script(cell(), ("/dev/sdx", "/dev/sdy"), 7))
    assert list(two) == ["log.0", "log.1", "reader.0", "reader.1"]
    assert [job["filename"] for job in two.values()] == ["/dev/sdx", "/dev/sdy"] * 2


def test_lists_of_the_workload_make_cells_of_jobs() -> None:
    jobs = {"log": LOG, "reader": {"rw": "randread"}}
    every = spec(jobs=jobs, iodepth=[1, 8], bs=["8k"], size="4m").cells("main")
    assert [c.name for c in every] == ["log+reader qd1", "log+reader qd8"]
    assert [c.params["jobs"]["reader"]["iodepth"] for c in every] == [1, 8]
    assert len({c.key for c in every}) == 2


def test_the_judged_job_is_what_the_cell_is_known_by() -> None:
    point = cell(judged="log")
    known = spec(judged="log").known(point)
    assert (known["rw"], known["bs"], known["fdatasync"], known["judged"]) == ("write", 4096, 1, "log")
    assert "reader" in known["jobs"]
    both = spec().known(cell())
    assert "rw" not in both
    assert both["numjobs"] == 3


def test_the_prefill_covers_what_all_jobs_use() -> None:
    assert PLUGIN.prepares(cell(), SIZE) == SIZE
    fill = sections(PLUGIN.prepare(cell(), "/dev/sdx"))["prefill"]
    assert (fill["size"], fill.get("offset")) == (str(SIZE), None)
    with pytest.raises(FairlaneError, check=kind("volume-small")):
        PLUGIN.prepares(cell(), SIZE // 2)
    assert PLUGIN.writes(cell())
    assert not PLUGIN.writes(cell(jobs={"a": READER, "b": READER}))


@needs_fio
def test_real_jobs_have_figures_each(disk: Path, tmp_path: Path) -> None:
    point = cell(judged="log", primary="sync_lat_p99", series="100ms")
    outputs = run(PLUGIN.script(point, (str(disk),), 3), tmp_path / "out")
    report = json.loads(outputs["fio.json"])
    seen = PLUGIN.observe(point, outputs)
    log, *readers = report["jobs"]
    assert [j["jobname"] for j in report["jobs"]] == ["log", "reader", "reader"]
    jobs = seen.context["jobs"]
    assert jobs["log"]["ios"] == log["write"]["lat_ns"]["N"]
    assert jobs["log"]["syncs"] == log["sync"]["lat_ns"]["N"]
    assert jobs["reader"]["ios"] == sum(j["read"]["lat_ns"]["N"] for j in readers)
    assert seen.metrics["iops"] == jobs["log"]["iops"]
    assert seen.metrics["lat_mean"] == pytest.approx(log["write"]["lat_ns"]["mean"])
    assert seen.metrics["sync_lat_p50"] == percentile(seen.histograms[SYNCS], 0.5)
    assert seen.context["load"]["ios"] == {"read": 0, "write": jobs["log"]["ios"]}
    assert seen.context["load"]["all"]["ios"] == {"read": jobs["reader"]["ios"], "write": jobs["log"]["ios"]}
    assert sum(seen.histograms["read.lat@reader"].values()) == jobs["reader"]["ios"]
    assert "read.lat" not in seen.histograms
    # CPU time of all jobs over the I/Os of all
    cpu = sum(j[key] / 100 * j["job_runtime"] for j in report["jobs"] for key in ("usr_cpu", "sys_cpu")) * 1e6
    assert sum(seen.context["generator"].values()) == pytest.approx(cpu / (jobs["log"]["ios"] + jobs["reader"]["ios"]))

    whole = PLUGIN.observe(cell(series="100ms"), outputs)
    longest = max(j[way]["runtime"] for j in report["jobs"] for way in ("read", "write"))
    assert whole.metrics["iops"] == pytest.approx((jobs["log"]["ios"] + jobs["reader"]["ios"]) / longest * 1000)


def test_a_job_that_did_not_run_is_garbage() -> None:
    outputs = PLUGIN.invented(cell(), Invention(80_000, 1.0, 1.0))
    with pytest.raises(Garbage, check=kind("no-jobs")):
        PLUGIN.observe(cell(jobs={"log": LOG, "other": READER}), outputs)


def test_invented_jobs_share_the_device() -> None:
    alone = cell(jobs={"log": LOG}, series="100ms")
    beside = cell(judged="log", series="100ms")
    first, second = (PLUGIN.observe(c, PLUGIN.invented(c, Invention(80_000, 1.0, 1.0))) for c in (alone, beside))
    assert first.metrics["iops"] > second.metrics["iops"]
    assert set(second.context["jobs"]) == {"log", "reader"}


def test_a_fleet_adds_its_jobs_up() -> None:
    point = cell(judged="log")
    one, two = (PLUGIN.observe(point, PLUGIN.invented(point, Invention(80_000, speed, 1.0))) for speed in (1.0, 2.0))
    both = PLUGIN.merge(point, {"vm1": one, "vm2": two})
    jobs = [seen.context["jobs"]["log"] for seen in (one, two, both)]
    assert jobs[2]["iops"] == jobs[0]["iops"] + jobs[1]["iops"]
    assert jobs[2]["syncs"] == jobs[0]["syncs"] + jobs[1]["syncs"]
    mean = sum(job["sync_lat_mean"] * job["syncs"] for job in jobs[:2]) / jobs[2]["syncs"]
    assert jobs[2]["sync_lat_mean"] == pytest.approx(mean) == pytest.approx(both.metrics["sync_lat_mean"])
    assert both.metrics["sync_lat_p99"] == percentile(both.histograms[SYNCS], 0.99)
    assert sum(both.histograms["write.lat@log"].values()) == jobs[2]["ios"]


# --- a job file


def test_a_job_file_is_parsed_as_fio_does() -> None:
    parsed = parse(FILE)
    assert list(parsed.jobs) == ["log-writer", "reader"]
    assert parsed.jobs["log-writer"] == {
        "ioengine": "psync", "direct": "1", "rw": "write", "bs": "4k", "fdatasync": "1", "size": "2m",
    }  # fmt: skip
    assert parsed.jobs["reader"]["latency_target"] == "10s"
    assert parsed.dropped == ("filename", "group_reporting", "runtime")
    assert (parsed.runtime, parsed.ramp) == (3 * 10**8, None)


LAST = len(FILE.splitlines()) + 1
"""The line behind the file."""

REFUSED = [
    ("stonewall", "stonewall"), ("wait_for=log", "wait_for"), ("startdelay=5", "startdelay"), ("loops=3", "loops"),
    ("number_ios=100", "number_ios"), ("io_size=1g", "io_size"), ("exec_prerun=sync", "exec_prerun"),
    ("verify=crc32c", "verify"), ("read_iolog=/tmp/x", "read_iolog"), ("nrfiles=4", "nrfiles"),
    ("ioengine=rbd", "ioengine"), ("rw=randtrim", "rw"), ("rw=read:-4k", "rw"), ("create_only=1", "create_only"),
    ("filename=/dev/other", "filename"), ("filename=/dev/a:/dev/b", "filename"), ("runtime=60", "runtime"),
    ("allow_mounted_write=1", "allow_mounted_write"), ("kb_base=1000", "kb_base"), ("wait_for_previous", "stonewall"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "option"), REFUSED)
def test_what_breaks_the_comparison_is_refused_by_name(line: str, option: str) -> None:
    with pytest.raises(Invalid, check=kind("job-file-option")) as raised:
        parse(FILE + line + "\n")
    assert str(raised.value).startswith(f"line {LAST}: {option}")
    assert raised.value.hint


NO_NUMBERS = ["bs=abc", "bs={{ size }}", "size=4*1024", "size=200%", "iodepth=0", "numjobs=0", "numjobs=200",
              "bssplit=4k/50:8k/x", "bssplit=x/100", "filesize=1g-2g", "rate=fast", "runtime=soon"]  # fmt: skip


@pytest.mark.parametrize("line", NO_NUMBERS)
def test_a_value_that_fio_would_not_take_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(Invalid, check=kind("job-file-value")) as raised:
        parse(FILE + line + "\n")
    assert str(raised.value).startswith(f"line {LAST}: {line.partition('=')[0]}: ")


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(Invalid, check=kind("several-problems")) as raised:
        parse("[global]\nbs=$SIZE\nverify=crc32c\n[a]\nrw=read\n[b]\nstonewall\nrw=write\n")
    head, *lines = str(raised.value).splitlines()
    assert head == "3 problems:"
    assert [line.split(": ")[0] for line in lines] == ["  line 2", "  line 3", "  line 7"]
    assert all("(" in line for line in lines), "each with its hint"


def test_one_problem_on_several_lines_is_one() -> None:
    jobs = "".join(f"[{name}]\nnrfiles=2\n" for name in "abcdefgh")
    with pytest.raises(Invalid, match=r"^lines 2, 4, 6, 8 and 4 more: nrfiles: breaks the comparison$"):
        parse(jobs)
    with pytest.raises(Invalid, match=r"^lines 2 and 4: nrfiles: breaks the comparison$"):
        parse(jobs[: len(jobs) // 4])


def test_an_engine_that_loads_no_device_is_all_that_matters() -> None:
    with pytest.raises(Invalid, match=r"^line 2: ioengine: 'http' does not load the lane's device$"):
        parse("[a]\nioengine=http\nhttp_host=x\nverify=md5\n")


HARMLESS = [
    "[a]\nfilename_format=f.$jobnum\ndirectory=${DIR}\ndescription=a $100 disk\n", "[a]\nstonewall\n[b]\nrw=read\n",
    "[a]\nstartdelay=5\n", "[a]\ntime_based\nloops=10000\n", "[a]\nunlink=1\nallow_file_create=0\nexitall_on_error\n",
    "[a]\nrandrepeat=1\n", "[a]\nruntime=10\n[b]\nruntime=10s\n", "[a]\nfileoffset=4k\n",
    "[a]\nbs=4k,,8k\nrate=,12500k\nbsrange=4k-8k\n",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_what_does_nothing_here_is_no_obstacle(text: str) -> None:
    assert parse(text).jobs


def test_jobs_of_one_name_or_one_beginning_are_told_apart() -> None:
    long = "random_read_four_threads_direct_io"
    assert list(parse(f"[a]\n[a]\n[{long}_small]\n[{long}_large]\n").jobs) == [
        "a", "a-2", "random-read-four-threads-direct", "random-read-four-threads-dir-2",
    ]  # fmt: skip


def test_the_size_of_a_jobs_file_is_the_part_that_it_loads() -> None:
    assert parse("[a]\nfilesize=64m\n").jobs["a"]["size"] == "64m"
    assert parse("[a]\nfilesize=64m\nsize=8m\n").jobs["a"]["size"] == "8m"


@pytest.mark.parametrize(
    ("text", "files"),
    [("[a]\n", False), ("[a]\nnumjobs=2\n", True), ("[a]\n[b]\n", True), ("[a]\nfilename=x\nnumjobs=2\n", False)],
)
def test_processes_that_would_have_files_of_their_own(text: str, *, files: bool) -> None:
    assert parse(text).files is files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[global]\nrw=read\n", "job-file-empty"), ("rw=read\n", "job-file-line"),
        ("[a]\nsize=${SIZE}\n", "job-file-environment"), ("[a]\ninclude other.fio\n", "job-file-line"),
        ("[a]\n[global-x]\n[Global]\n", "job-file-name"), ("[a]\nruntime=soon\n", "job-file-value"),
        ("[a]\nEND-OF-JOB\n", "job-file-line"), ("x" * 70_000, "job-file-size"),
    ],
)  # fmt: skip
def test_what_is_no_job_file_is_refused(text: str, expected: str) -> None:
    with pytest.raises(Invalid, check=kind(expected)):
        parse(text)


def test_options_of_the_load_are_not_lost() -> None:
    parsed = parse(FILE + "loops=1\nrandrepeat=0\nverify=0\nhipri\nmem=mmapshared\nbssplit=4k/60:64k/40\n")
    reader = parsed.jobs["reader"]
    assert (reader["hipri"], reader["mem"], reader["bssplit"]) == ("1", "mmapshared", "4k/60:64k/40")
    assert not reader.keys() & {"loops", "randrepeat", "verify"}


NAMES_A_FILE = [
    "mem=mmapshared:/tmp/x", "iomem=mmap:x", "mem=mmaphuge:/dev/sda", "buffer_pattern='/etc/passwd'",
    "buffer_pattern='x'", "ioengine=external:/tmp/x.so", "bssplit=/x", "cpus_allowed=../x", "write_hint=a:/b",
    "verify_state_load=1", "verify_state_save=1", "aux_path=/tmp", "replay_redirect=/dev/sda", "write_iolog=x",
    "profile=tiobench", "cgroup=x", "trigger=/x", "trigger_file=/x", "mount_fs=/x", "dump=x", "file_append=1",
    "iolog=x", "nbd=x", "verify_dump=1", "merge_blktrace_file=x", "new_in_fio_9=fast", "ioscheduler=none",
]  # fmt: skip


@pytest.mark.parametrize("line", NAMES_A_FILE)
def test_an_option_that_may_name_a_file_or_is_unknown_is_refused_by_name(line: str) -> None:
    with pytest.raises(Invalid, check=kind("job-file-option")) as raised:
        parse(FILE + line + "\n")
    assert str(raised.value).startswith(f"line {LAST}: {line.partition('=')[0].replace('iomem', 'mem')}")
    assert raised.value.hint


def test_the_files_options_go_to_fio_and_ours_are_ours() -> None:
    (point,) = of_file(FILE, judged="log-writer").cells("main")
    written = sections(PLUGIN.script(point, ("/dev/sdx",), 7))
    log, reader = written["log-writer"], written["reader"]
    assert (log["filename"], log["fdatasync"], log["randrepeat"], log["runtime"]) == ("/dev/sdx", "1", "0", "300ms")
    assert (reader["latency_target"], reader["offset"], reader["numjobs"]) == ("10s", "2m", "2")
    assert point.params["runtime"] == 3 * 10**8
    (longer,) = of_file(FILE, runtime="1s").cells("main")
    assert longer.params["runtime"] == 10**9
    again = FioSpec.model_validate_json(of_file(FILE).model_dump_json())
    assert again.cells("m")[0].params == of_file(FILE).cells("m")[0].params


def test_a_file_without_direct_is_of_the_page_cache() -> None:
    (point,) = of_file(FILE.replace("direct=1\n", "")).cells("main")
    assert point.params["direct"] is False
    assert point.name == "log-writer+reader cached"
    written = sections(PLUGIN.script(point, ("/dev/sdx",), 7))
    assert [job.get("end_fsync") for job in written.values()] == ["1", None]


@pytest.mark.parametrize(
    ("changes", "key", "token"),
    [
        ({"rw": ["read", "write"]}, "job_file", "rw"), ({"jobs": JOBS}, "job_file", "jobs"),
        ({"judged": "nobody"}, "judged", "reader"), ({"engine": "libaio"}, "job_file", "engine"),
    ],
)  # fmt: skip
def test_keys_that_are_the_files_are_refused(changes: dict[str, Any], key: str, token: str) -> None:
    with pytest.raises(ValidationError, check=refused(key, token)):
        of_file(FILE, **changes)


@needs_fio
def test_a_job_file_runs(disk: Path, tmp_path: Path) -> None:
    (point,) = of_file(FILE, judged="log-writer").cells("main")
    assert PLUGIN.prepares(point, SIZE) == SIZE
    run(PLUGIN.prepare(point, str(disk)), tmp_path / "prefill")
    seen = PLUGIN.observe(point, run(PLUGIN.script(point, (str(disk),), 3), tmp_path / "out"))
    assert seen.context["jobs"]["reader"]["ios"] > 0
    assert seen.metrics["sync_lat_mean"] == seen.context["jobs"]["log-writer"]["sync_lat_mean"] > 0


# --- the part of the device that jobs touch, and what fio does to a file that is smaller

READ = "ioengine=psync\nruntime=100ms\nrw=randread\nbs=4k\n"
REGIONS: list[tuple[dict[str, Any], int]] = [
    ({"size": "1m"}, 2**20),
    ({"size": "768k", "offset": "512k"}, 5 * 2**18),
    ({"offset": "512k"}, 2**19 + 4096),
    ({"size": "1m", "rw": ["read"], "numjobs": [4]}, 2**20),
    ({"jobs": {"a": {"size": "512k"}, "b": {"offset": "768k", "size": "512k"}}}, 5 * 2**18),
    ({"jobs": {"a": {}, "b": {"offset": "768k", "size": "256k"}}}, 2**20),
    ({"job_file": f"[a]\n{READ}size=512k\noffset_increment=256k\nnumjobs=3\n"}, 2**20),
    ({"job_file": f"[a]\n{READ}size=512k\noffset_increment=256k\nnumjobs=4\n"}, 5 * 2**18),
    ({"job_file": f"[a]\n{READ}size=25%\noffset_increment=25%\nnumjobs=4\n"}, 2**20),
    ({"job_file": f"[a]\n{READ}size=50%\noffset=75%\n"}, 5 * 2**18),
    ({"job_file": f"[a]\n{READ}size=512k\noffset=75%\n"}, 5 * 2**18),
    ({"job_file": f"[a]\n{READ}offset=75%\n"}, 3 * 2**18 + 4096),
    ({"job_file": f"[a]\n{READ}\n[b]\n{READ}size=2m\n"}, 2**21),
]


@needs_fio
@pytest.mark.parametrize(("keys", "extent"), REGIONS)
def test_no_job_goes_beyond_the_extent_of_its_cell(tmp_path: Path, keys: dict[str, Any], extent: int) -> None:
    file = tmp_path / "disk"
    file.write_bytes(os.urandom(2**20))
    before = file.stat()
    base = {} if "job_file" in keys else {"rw": ["randread"], "engine": "psync"}
    (point,) = FioSpec.model_validate({"kind": "fio", "runtime": "100ms"} | base | keys).cells("main")
    assert PLUGIN.extent(point, 2**20) == extent
    subprocess.run(["sh", "-c", PLUGIN.script(point, (str(file),), 3)], cwd=tmp_path, check=False)
    if extent <= 2**20:
        after = file.stat()
        assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("value", ["x%", "200%", "1.5g"])
def test_an_offset_that_is_no_place_is_refused(value: str) -> None:
    with pytest.raises(ValidationError, check=refused("job_file", "offset_increment")):
        of_file(f"[a]\n{READ}offset_increment={value}\n").cells("main")


class Somebodys(Stage):
    """A stage on volumes that are somebody's, as far as a load needs it."""

    readonly = True
    seconds, fleet, paths = 1.0, 1, 0
    text = ""

    async def load(
        self, script: Callable[[int], str], seconds: float, *, start: bool = True, setup: float = 0.0
    ) -> None:
        self.text = script(0)

    def gate(self, jobs: int = 1) -> str:
        return ""

    begun = after = offsets = lost = fault = clones = keep = None  # type: ignore[assignment]


def test_fio_is_forbidden_to_write_where_the_load_only_reads() -> None:
    for jobs, guarded in (({"a": READER}, True), (JOBS, False)):
        stage = Somebodys()
        asyncio.run(PLUGIN.drive(cell(jobs=jobs), lambda _: ("/dev/sdx",), 3, stage))
        assert ("fio --readonly " in stage.text) is guarded
    assert "readonly" not in PLUGIN.script(cell(jobs={"a": READER}), ("/dev/sdx",), 3)
