"""What the report of 2,000 trials costs: time and memory of ``fairlane report``, against json and numpy by hand.

    uv run python bench/report_speed.py                 4 lanes x 25 cells x 20 blocks, made by the fake platform
    uv run python bench/report_speed.py --blocks 4      a quick look
    uv run python bench/report_speed.py --run DIR       of a run that is there, or made there and kept for the next time
    uv run python bench/report_speed.py --profile       where the time goes, by function, of each step

The trials are mixed reads and writes of 30 s with a far tail, so that each has as many latency bins as a file that fio
3.33 really wrote (bench/data: 1,702); how many is printed beside it. Wall time is of the command as a user runs it, CPU
time (user and system) of it alone: on a machine that others use too, only that one repeats. Memory is the highest
resident set of the process.

The comparison is what an analyst would write without Fairlane: tarfile, json.load, arrays of bins, geometric means
per lane and cell, p99 of the added bins; no check, no interval, no page.
"""

import argparse
import cProfile
import gzip
import io
import json
import math
import os
import pstats
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "data" / "fio-json-plus.json.gz"
STUDY = """\
name: report-speed
question: How long does a report of 2,000 trials take?
platform:
  kind: fake
  effects:
    iscsi: {tail: 8}
    iscsi-tuned: {tail: 8}
    nvme-tcp: {speed: 1.12, tail: 6}
    nvme-tcp-tuned: {speed: 1.14, tail: 6}
  noise: {sd: 2%}
lanes:
  iscsi: {transport: iscsi}
  iscsi-tuned: {transport: iscsi, sessions: 4}
  nvme-tcp: {transport: nvme_tcp}
  nvme-tcp-tuned: {transport: nvme_tcp, queues: 4}
baseline: iscsi
workloads:
  main: {kind: fio, rw: [randrw], bs: [4k, 8k, 16k, 64k, 256k], iodepth: [1, 2, 4, 8, 16], runtime: 30s, primary: iops}
design: {seed: 1, looks: [BLOCKS]}
"""
WANTED_SECONDS, WANTED_MIB = 5.0, 500.0


@dataclass(frozen=True)
class Cost:
    """Of one process: seconds of wall time and of CPU, MiB of memory at its highest."""

    wall: float
    cpu: float
    mib: float


def measured(args: list[str], environment: dict[str, str]) -> Cost:
    """Runs a Python command to its end."""
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, *args], stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{' '.join(args)}: exit code {process.returncode}"
    return Cost(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def made(folder: Path, blocks: int) -> Path:
    """The run, made by the fake platform if it is not there."""
    run = folder / f"run-{blocks}"
    if not (run / "run.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "study.yaml").write_text(STUDY.replace("BLOCKS", str(blocks)))
        command = ["-m", "fairlane", "run", str(folder / "study.yaml"), "--out", str(run)]
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return run


def bins_of(report: Any) -> int:
    """Latency bins in one fio.json."""
    sides = [job[way][kind] for job in report["jobs"] for way in ("read", "write") for kind in KINDS]
    return sum(len(side.get("bins", ())) for side in sides)


KINDS = ("slat_ns", "clat_ns", "lat_ns")


def opened(path: Path) -> Any:
    """The fio.json of a raw file."""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(path.read_bytes()))) as archive:
        file = archive.extractfile("fio.json")
        assert file
        return json.load(file)


def by_hand(run: Path) -> None:
    """The comparison: prints how many places it has figures for."""
    import numpy as np  # noqa: PLC0415 - not part of what the other steps cost

    rates: dict[tuple[str, str], list[float]] = {}
    bins: dict[tuple[str, str], list[Any]] = {}
    for path in sorted((run / "raw").iterdir()):
        cell, _, lane = path.name.removesuffix(".tar.gz").rsplit(".", 2)
        (job,) = opened(path)["jobs"]
        rates.setdefault((cell, lane), []).append(job["read"]["iops"] + job["write"]["iops"])
        for way in ("read", "write"):
            found = job[way]["lat_ns"]["bins"]
            both = np.array([list(map(int, found)), list(found.values())])
            bins.setdefault((cell, lane), []).append(both)
    means = {place: statistics.geometric_mean(found) for place, found in rates.items()}
    p99 = {}
    for place, parts in bins.items():
        ns, where = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
        counts = np.bincount(where, np.concatenate([part[1] for part in parts])).cumsum()
        p99[place] = ns[counts.searchsorted(math.ceil(0.99 * counts[-1]))]
    assert means.keys() == p99.keys()
    print(len(means))


def profiled(run: Path) -> None:
    """Each step in this process under cProfile: the 25 functions that cost most."""
    from fairlane.checks.base import run_all  # noqa: PLC0415
    from fairlane.report import html, markdown, model  # noqa: PLC0415
    from fairlane.runs.read import load_run  # noqa: PLC0415
    from fairlane.stats.judge import judge  # noqa: PLC0415

    held: dict[str, Any] = {}
    steps: dict[str, Callable[[], Any]] = {
        "load": lambda: load_run(run),
        "check": lambda: run_all(held["load"]),
        "judge": lambda: judge(held["load"], held["check"]),
        "model": lambda: model.build(held["load"], held["judge"], held["check"]),
        "html": lambda: html.render(held["model"]),
        "markdown": lambda: markdown.render(held["model"]),
    }
    for name, step in steps.items():
        profile = cProfile.Profile()
        begun = time.process_time()
        held[name] = profile.runcall(step)
        print(f"\n=== {name}: {time.process_time() - begun:.2f} s of CPU under the profiler")
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--run", type=Path, help="Folder of the run: made if missing, kept for the next time.")
    parser.add_argument("--times", type=int, default=3, help="Reports made; the one with the least CPU time counts.")
    parser.add_argument("--profile", action="store_true", help="Only the profile.")
    parser.add_argument("--by-hand", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.by_hand:
        by_hand(args.by_hand)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        run = made(args.run or Path(temporary) / "made", args.blocks)
        raw = sorted((run / "raw").iterdir())
        if args.profile:
            profiled(run)
            return 0
        bins = [bins_of(opened(path)) for path in raw[:: max(1, len(raw) // 50)]]
        real = bins_of(json.loads(gzip.decompress(RECORDED.read_bytes())))
        size = sum(path.stat().st_size for path in raw)
        print(
            f"{len(raw):,} trials, {size >> 20} MiB; {statistics.median(bins):,.0f} latency bins each, fio's: {real:,}"
        )
        print(f"{len(os.sched_getaffinity(0))} CPUs, load before: {os.getloadavg()[0]:.1f}")
        # Python keeps what it compiled, as where fairlane is installed
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = f"{temporary}/compiled"
        command = ["-m", "fairlane", "report", str(run), "--out", f"{temporary}/report"]
        measured(command, environment)
        costs, others = [], []
        for _ in range(args.times):  # in turn, so that both meet the same neighbours
            costs.append(measured(command, environment))
            others.append(measured([__file__, "--by-hand", str(run)], environment))
        best, other = (min(found, key=lambda cost: cost.cpu) for found in (costs, others))
        page = Path(temporary, "report", "report.html").stat().st_size
        print(
            f"{'report':15} {best.wall:6.1f} s, {best.cpu:6.1f} s of CPU, {best.mib:6.0f} MiB; page: {page >> 10} KiB"
        )
        print(f"{'json and numpy':15} {other.wall:6.1f} s, {other.cpu:6.1f} s of CPU, {other.mib:6.0f} MiB")
        print(f"fairlane / (json and numpy): {best.cpu / other.cpu:.2f} of the CPU time")
    return 0 if best.wall < WANTED_SECONDS and best.mib < WANTED_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
