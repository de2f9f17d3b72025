"""Cases made by real fio on a file of this machine: each is found by its check, and its sound twin is not.

Short jobs on a 16 MiB file in a temporary folder; the disk's counters are read by the probe that reads them in a guest.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairlane.formats.fio_figures import figures
from fairlane.probes.disk import PLUGIN as DISK
from fairlane.probes.machine import PLUGIN as MACHINE
from fairlane.records import Figures

if not shutil.which("fio"):
    pytest.skip("fio is not installed: run make setup", allow_module_level=True)

pytestmark = pytest.mark.speed

SIZE = 16 * 2**20
COMMON = ("--output-format=json+", "--lat_percentiles=1", "--clat_percentiles=1", "--slat_percentiles=1",
          "--randrepeat=0", "--norandommap", "--time_based", "--thinktime=0")  # fmt: skip
DIRECT = ("--direct=1", "--ioengine=libaio", "--iodepth=4")


@dataclass
class Bench:
    """A folder with a file that was written, ``full``, and one that was not, ``sparse``."""

    folder: Path
    device: str

    def fio(self, *options: str, runtime_ms: int = 300, stopped: float = 0) -> Figures:
        """What fio says of one run, and what the disk below the folder counted meanwhile. ``stopped``: seconds for
        which it is stopped once its load began."""
        out, began = self.folder / "out.json", self.folder / "began"
        command = ["fio", *COMMON, f"--runtime={runtime_ms}ms", f"--output={out}", *options]
        if stopped:
            command += ["--thread", f"--exec_prerun=touch {began}"]
        before = self.snapshot(DISK.capture)
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL) as process:
            if stopped:
                wait_for_load(process, began)
                process.send_signal(signal.SIGSTOP)
                time.sleep(stopped)
                process.send_signal(signal.SIGCONT)
        assert process.returncode == 0
        after = self.snapshot(DISK.capture)
        seen = figures(out.read_bytes())
        # counted by the probe, as in a guest, not by fio
        told = {key: value for key, value in seen.context.items() if key != "disk"}
        return replace(seen, context={**told, **DISK.observe(before, after, seen).context})

    def job(self, rw: str, *more: str, file: str = "full", bs: str = "4k") -> tuple[str, ...]:
        return (f"--name={rw}", f"--filename={file}", f"--size={SIZE}", f"--rw={rw}", f"--bs={bs}", *more)

    def snapshot(self, capture: str) -> str:
        environment = os.environ | {"DEVICE": self.device}
        return subprocess.run(
            ["sh", "-c", capture], env=environment, capture_output=True, text=True, check=False
        ).stdout


def wait_for_load(process: "subprocess.Popen[bytes]", began: Path) -> None:
    """Until fio has read something since ``began`` exists: its clock starts some time after that."""
    first: int | None = None
    while first is None or _bytes_read(process) - first < 64 * 2**10:
        assert process.poll() is None
        if first is None and began.exists():
            first = _bytes_read(process)
        time.sleep(0.01)


def _bytes_read(process: "subprocess.Popen[bytes]") -> int:
    rows = dict(line.split(": ") for line in Path(f"/proc/{process.pid}/io").read_text().splitlines())
    return int(rows["read_bytes"])


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("fio")
    number = folder.stat().st_dev
    below = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not below.exists():
        pytest.skip(f"{folder} lies on no block device, so O_DIRECT and disk counters say nothing here")
    with (folder / "full").open("wb") as full:
        full.write(os.urandom(SIZE))
        os.fsync(full.fileno())
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(SIZE)
    return Bench(folder, below.resolve().name)


@pytest.fixture(scope="module")
def direct(bench: Bench) -> Figures:
    """Direct reads of written space: what they should be."""
    return bench.fio(*bench.job("randread", *DIRECT))


@pytest.fixture
def find(beside, run_check):
    def told(check, odd, sound, workload="rw: [randread], iodepth: [4], engine: libaio, ramp: 0s", **keys):
        made = beside(odd, sound, workload, **keys)
        # for information: whatever else this machine does on its disk is in the disk's counters
        found = [f for f in run_check(check, made) if f.severity != "info"]
        assert {f.lanes for f in found} <= {("odd",)}, [f.message for f in found]
        return [(f.severity, f.kind, next(iter(f.evidence.values()))) for f in found]

    return told


def allocated(bench, seen, file):
    medium = {"allocated_bytes": (bench.folder / file).stat().st_blocks * 512}
    return replace(seen, context={**seen.context, "medium": medium})


def alone(load, judge):
    """The one finding on a load, which runs again where other programs' I/O on the disk hid it, at most twice."""
    for _ in range(3):
        if found := judge(load()):
            break
    (one,) = found
    return one


def test_a_load_that_was_stopped_ran_longer_than_asked(bench, find):
    job, workload = bench.job("randread", *DIRECT), "rw: [randread], iodepth: [4], engine: libaio, runtime: 2s"
    odd, sound = bench.fio(*job, runtime_ms=2000, stopped=3.5), bench.fio(*job, runtime_ms=2000)
    ((severity, kind, proof),) = find("prolonged", odd, sound, workload)
    assert (severity, kind) == ("warning", "longer")
    assert proof["ran_seconds"] > 3.4


def test_a_sparse_file_is_read_without_the_disk(bench, direct, find):
    def load():
        return allocated(bench, bench.fio(*bench.job("randread", *DIRECT, file="sparse")), "sparse")

    odd, sound = load(), allocated(bench, direct, "full")
    workload = f"rw: [randread], iodepth: [4], engine: libaio, size: {SIZE // 2**20}m, prefill: false"
    ((severity, kind, proof),) = find("unwritten_space", odd, sound, workload)
    assert (severity, kind) == ("critical", "allocated")
    assert (proof["allocated_bytes"] // 2**20, proof["size_bytes"], proof["reads"]) == (0, SIZE, True)
    severity, kind, proof = alone(load, lambda odd: find("cache_served", odd, sound))
    assert (severity, kind) == ("critical", "fewer-reads")
    assert proof["disk"] < proof["load"]


def test_a_buffered_run_reads_memory(bench, direct, find):
    bench.fio(*bench.job("read", "--direct=0", "--ioengine=psync", "--invalidate=0", bs="1m"))  # into the page cache
    job = bench.job("randread", "--direct=0", "--ioengine=psync", "--invalidate=0")
    severity, kind, proof = alone(lambda: bench.fio(*job), lambda odd: find("cache_served", odd, direct))
    assert (severity, kind) == ("critical", "fewer-reads")
    assert proof["disk"] < proof["load"]


CAPPED = "rw: [randrw], rwmixread: [70], rate_iops: [500], iodepth: [4], engine: libaio"


def test_seventy_thirty_under_one_cap_for_each_direction(bench, find):
    # without a disk: fio makes up for what a busy machine kept it from, which a busy disk would not let it do
    mix = ("--rwmixread=70", "--ioengine=null", "--iodepth=4")
    odd = bench.fio(*bench.job("randrw", *mix, "--rate_iops=500"), runtime_ms=800)
    sound = bench.fio(*bench.job("randrw", *mix, "--rate_iops=350,150"), runtime_ms=800)
    ((severity, kind, proof),) = find("achieved_mix", odd, sound, CAPPED)
    assert (severity, kind) == ("critical", "mix")
    assert (proof["asked_reads"], round(proof["reads"], 2), proof["half"]) == (0.7, 0.5, True)
    ((severity, *_),) = find("unequal_mix", odd, sound, CAPPED)
    assert severity == "critical"
    # a tier that sells half of what came of it, however much a busy machine let through
    modest = bench.fio(*bench.job("randrw", *mix, "--rate_iops=70,30"), runtime_ms=800)
    cap = int(odd.metrics["iops"] / 2)
    ((_, kind, proof),) = find("above_cap", odd, modest, CAPPED, lane=f", cap_iops: {cap}")
    assert (kind, proof["cap"], proof["double"]) == ("iops", cap, True)


def test_a_rate_out_of_reach_is_overrun(bench, beside, run_check):
    """200 I/Os per second are the most that thinking for 5 ms allows, on a fast machine and a busy one alike; the rate
    that was reached is none that was missed."""
    seen = bench.fio(*bench.job("randread", *DIRECT, "--iodepth=1", "--rate_iops=500", "--thinktime=5ms"))
    missed, reached = (
        run_check("overrun", beside(seen, seen, f"rw: [randread], iodepth: [1], engine: libaio, rate_iops: [{rate}]"))
        for rate in (500, int(seen.metrics["iops"]))
    )
    assert {f.severity for f in missed} == {"warning"}
    assert [proof["asked"] for f in missed for proof in f.evidence.values()] == [500, 500]
    assert {lane for f in missed for lane in f.lanes} == {"odd", "sound"}
    assert reached == []


def test_jobs_that_stonewall_kept_apart(bench, find):
    """Where fio's json tells the groups, they are read from there; the check needs no more than that."""
    apart = bench.fio(*bench.job("randread", *DIRECT), *bench.job("randwrite", *DIRECT, "--stonewall"))
    together = bench.fio(*bench.job("randread", *DIRECT), *bench.job("randwrite", *DIRECT))
    workload = "rw: [randrw], rwmixread: [50], iodepth: [4], engine: libaio"
    ((severity, kind, proof),) = find("added_up", apart, together, workload)
    assert (severity, kind) == ("critical", "parts")
    assert [part["name"] for part in proof["apart"]] == ["randread", "randwrite"]


def test_a_generator_without_a_disk_is_all_there_is(bench, find):
    deep = "rw: [randread], iodepth: [32], engine: libaio"
    sound = bench.fio(*bench.job("randread", *DIRECT, "--iodepth=32"))
    null = bench.fio(*bench.job("randread", "--ioengine=null", "--iodepth=32"))
    ((severity, kind, proof),) = find("littles_law", null, sound, deep)
    assert (severity, kind, proof["asked"]) == ("warning", "below", 32)
    # a quick disk takes a whole core at this depth, too: then fio is the limit, and the check says so
    calm = bench.fio(*bench.job("randread", *DIRECT, "--iodepth=32", "--rate_iops=1000"))
    ((severity, kind, _),) = find("generator_bound", undisturbed(null), calm, deep)
    assert (severity, kind) == ("warning", "generator")


def undisturbed(seen: Figures) -> Figures:
    """Without a disk fio never waits: the part of a core that it did not get had been taken by other programs."""
    used = {key: seen.context["fio"][key] for key in ("usr_cpu", "sys_cpu")}
    core = {key: 100 * share / sum(used.values()) for key, share in used.items()}
    return replace(seen, context={**seen.context, "fio": {**seen.context["fio"], **core}})


def test_a_late_starter(bench, find):
    """Three processes of fio stand for three machines, of which the last starts when the others have ended. The first
    two are told one instant, as from one gate: how far apart two processes start depends on what else runs here."""
    paths = [bench.folder / f"vm{i}.json" for i in range(3)]
    for group in (paths[:2], paths[2:]):
        running = [
            subprocess.Popen(
                ["fio", *COMMON, "--runtime=300ms", f"--output={path}", *bench.job("randread", *DIRECT)],
                cwd=bench.folder,
                stdout=subprocess.DEVNULL,
            )
            for path in group
        ]
        assert [process.wait() for process in running] == [0] * len(group)
    seen = [figures(path.read_bytes()) for path in paths]
    gate, late = started(paths[0]), started(paths[2])
    vms = [
        {"name": path.stem, "iops": f.metrics["iops"], "start_ms": start}
        for path, f, start in zip(paths, seen, (gate, gate, late), strict=True)
    ]
    apart, together = ({**seen[0].context, "vms": some} for some in (vms, vms[:2]))
    ((severity, _, proof),) = find("late_starters", Figures(context=apart), Figures(context=together))
    assert severity == "critical"
    assert (proof["last"], proof["skew_ms"]) == ("vm2", late - gate)


def started(path: Path) -> float:
    """When fio's jobs began, in ms of Unix time: when it wrote its file, less the time they ran."""
    report = json.loads(path.read_text())
    return float(report["timestamp_ms"] - report["jobs"][0]["job_runtime"])


def test_figures_that_hang_together_are_no_finding(direct, bench, beside, run_check):
    made = beside(allocated(bench, direct, "full"), allocated(bench, direct, "full"),
                  f"rw: [randread], iodepth: [4], engine: libaio, size: {SIZE // 2**20}m, ramp: 0s")  # fmt: skip
    for check in ("bandwidth", "missing_percentile", "achieved_mix", "added_up", "unwritten_space", "late_starters"):
        assert run_check(check, made) == [], check


def test_a_machine_whose_every_core_is_taken(bench, direct, find):
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    try:
        before = bench.snapshot(MACHINE.capture)
        time.sleep(0.5)
        after = bench.snapshot(MACHINE.capture)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    machine = MACHINE.observe(before, after, direct).context["machine"]
    del machine["window_ms"]  # these snapshots were taken around nothing but the hogs
    machine["steal"] = 0.0  # of this machine, by its own hypervisor: no part of the case
    ((severity, kind, _),) = find("cpu_bound", replace(direct, context={"machine": machine}), direct)
    assert (severity, kind) == ("warning", "busy")


def test_bandwidth_of_another_block_size_is_found(bench, direct, find):
    eight = bench.fio(*bench.job("randread", *DIRECT, bs="8k"))
    ((severity, kind, proof),) = find("bandwidth", eight, direct)
    assert (severity, kind, proof["bs"]) == ("critical", "product", 4096)
    assert proof["factor"] == pytest.approx(2, rel=0.005)


def test_rate_and_latency_of_more_jobs_than_were_told(bench, direct, find):
    two = bench.fio(*bench.job("randread", *DIRECT, "--numjobs=2"))
    ((severity, kind, _),) = find("littles_law", two, direct)
    assert (severity, kind) == ("critical", "above")


def test_fio_tells_its_own_samples(bench, find):
    """Two seconds make four samples, too few to judge, and no test may last a minute: number and spread are put in."""
    seen = bench.fio(*bench.job("randread", "--ioengine=null", "--rate_iops=200"), runtime_ms=2100)
    told = seen.context["load"]["samples"]["read"]
    assert told["count"] >= 3
    assert 0 < told["mean"] <= 240  # less where the machine is busy
    switching = {**seen.context["load"], "samples": {"read": {**told, "count": 120, "stddev": 0.5 * told["mean"]}}}
    steady = {**seen.context["load"], "samples": {"read": {**told, "count": 120, "stddev": 0.1 * told["mean"]}}}
    ((severity, *_),) = find("unsteady", Figures(context={"load": switching}), Figures(context={"load": steady}))
    assert severity == "warning"
