"""What an import of 10,000 trials costs: import, check and verdicts, time and memory, against plain json and pandas.

    uv run --group bench python bench/import_speed.py                10,000 trials, some 600 MB in a temporary folder
    uv run --group bench python bench/import_speed.py --trials 500   a quick look
    uv run --group bench python bench/import_speed.py --profile      where the time goes, by function, of each step

The files are made of one json+ report that fio 3.33 really wrote (bench/data): for every trial its bins move by lane,
depth and chance and keep fio's ladder, and all that follows from them is computed anew, so that no two are alike.

The whole job is `fairlane import` and `fairlane verdicts`, which runs every check before it judges. Wall time is of
each command as a user runs it; CPU time is of it and its children. Memory is the resident set of all its processes
together, sampled every 0.2 s. The comparison reads the same files in one process as an analyst would: json.load, bins
and figures into pandas frames, geometric means per lane and cell, p99 of the added bins. Its steps are timed apart,
because reading and parsing alone are already most of it.
"""

import argparse
import cProfile
import gzip
import json
import os
import pstats
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "data" / "fio-json-plus.json.gz"
LANES = {"iscsi": 0, "nvme-tcp": -3}
"""Steps on fio's ladder, each about 1.1 %, by which the lane's latencies lie apart."""
DEPTHS = (1, 2, 4, 8, 16)
SIZES = ("4k", "8k", "16k", "64k", "256k")
WANTED_SECONDS, WANTED_MIB = 30.0, 1024.0
KINDS = ("slat_ns", "clat_ns", "lat_ns")


# --- the files


def midpoint(index: int) -> int:
    """Of fio's latency bin (stat.c, plat_idx_to_val, 64 bins per power of two)."""
    if index < 128:
        return index
    bits = (index >> 6) - 1
    return (1 << (bits + 6)) + int((index % 64 + 0.5) * (1 << bits))


def index_of(ns: int) -> int:
    """The bin of a latency (stat.c, plat_val_to_idx)."""
    if ns < 128:
        return ns
    bits = ns.bit_length() - 7
    return ((bits + 1) << 6) + (63 & (ns >> bits))


def varied(report: dict[str, Any], rng: random.Random, shift: int, *, bs: str, depth: int, when: int) -> dict[str, Any]:
    """``report`` as of another trial: bins moved by about ``shift`` steps, counts by chance, figures made to match."""
    job = report["jobs"][0]
    busy = 0.0
    for way in ("read", "write"):
        side = job[way]
        ios = 0
        for kind in KINDS:
            lat = side[kind]
            own = shift + rng.choice((-1, 0, 0, 1))
            bins: dict[int, int] = {}
            for ns, count in lat["bins"].items():
                at = midpoint(max(1, index_of(int(ns)) + own))
                bins[at] = bins.get(at, 0) + max(1, round(count * 40 * rng.lognormvariate(0, 0.15)))
            total = sum(bins.values())
            ios = ios or total
            bins = {ns: max(1, n * ios // total) for ns, n in bins.items()}
            fullest = max(bins, key=lambda ns: bins[ns])
            bins[fullest] += ios - sum(bins.values())  # every kind is of the same I/Os
            lat |= {"min": min(bins), "max": max(bins), "N": ios, "bins": {str(ns): bins[ns] for ns in sorted(bins)}}
            lat["mean"] = sum(ns * n for ns, n in bins.items()) / ios
        side["total_ios"] = ios
        busy += ios * side["lat_ns"]["mean"]
    runtime = round(busy / depth / 1e6)
    for way in ("read", "write"):
        side, ios = job[way], job[way]["total_ios"]
        size = ios * int(bs.removesuffix("k")) * 1024
        side |= {"runtime": runtime, "iops": ios * 1000 / runtime, "io_bytes": size, "io_kbytes": size // 1024}
        side |= {"bw_bytes": size * 1000 // runtime, "bw": size * 1000 // runtime // 1024}
    job["job_runtime"] = runtime
    job["job options"] |= {"bs": bs, "iodepth": str(depth)}
    report["timestamp_ms"], report["timestamp"] = when, when // 1000
    return report


def write_some(folder: Path, numbers: range) -> int:
    """Trials ``numbers``: lane innermost, so that lanes alternate in time. Returns the bytes written."""
    recorded = gzip.decompress(RECORDED.read_bytes())
    total = 0
    for number in numbers:
        rest, lane_number = divmod(number, len(LANES))
        block, cell = divmod(rest, len(DEPTHS) * len(SIZES))
        lane, shift = list(LANES.items())[lane_number]
        bs, depth = SIZES[cell // len(DEPTHS)], DEPTHS[cell % len(DEPTHS)]
        rng = random.Random(number)  # noqa: S311 - files for a benchmark
        moved = shift + 64 * (depth.bit_length() - 1) // 2 + SIZES.index(bs) * 16
        report = varied(json.loads(recorded), rng, moved, bs=bs, depth=depth, when=1_790_000_000_000 + number * 61_000)
        path = folder / lane / f"{bs}-qd{depth}" / f"{block:03d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = as_fio(report)
        path.write_text(text)
        total += len(text)
    return total


def as_fio(report: dict[str, Any]) -> str:
    """In fio's own layout."""
    return json.dumps(report, indent=2, separators=(",", " : ")) + "\n"


def write_all(folder: Path, trials: int) -> int:
    parts = [range(start, min(start + 250, trials)) for start in range(0, trials, 250)]
    with ProcessPoolExecutor(2) as pool:
        return sum(pool.map(write_some, repeat(folder), parts))


# --- measuring


ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""Python keeps what it compiled, as where fairlane is installed."""


@dataclass(frozen=True)
class Cost:
    """Of one command: seconds of wall time and CPU, MiB of all its processes at their highest."""

    wall: float
    cpu: float
    mib: float


def measured(*args: str) -> Cost:
    """Runs a fairlane command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "fairlane", *args], stdout=subprocess.DEVNULL, env=ENVIRONMENT
    ) as process:
        highest = [0.0]
        watcher = threading.Thread(target=watch, args=(process, highest))
        watcher.start()
        code = process.wait()
        watcher.join()
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert code == 0, f"fairlane {' '.join(args)}: exit code {code}"
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, highest[0])


def watch(process: "subprocess.Popen[bytes]", highest: list[float]) -> None:
    while process.poll() is None:
        highest[0] = max(highest[0], sum(map(resident, family(process.pid))))
        time.sleep(0.2)


def family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def resident(pid: int) -> float:
    """MiB. Pages that processes share count in each: too much rather than too little. (The proportional set size would
    be exact, but to count it the kernel stops the process, which then took three times as long.)"""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


# --- the comparison


def plain(folder: Path) -> dict[str, float]:
    """Seconds: reading and parsing alone; with frames and figures, all of it."""
    import numpy as np  # noqa: PLC0415 - not part of what the other steps cost
    import pandas as pd  # noqa: PLC0415

    begun = time.perf_counter()
    rows, frames = [], []
    for path in sorted(folder.rglob("*.json")):
        with path.open() as file:
            job = json.load(file)["jobs"][0]
        rows.append((path.parts[-3], path.parts[-2], path.stem, job["read"]["iops"] + job["write"]["iops"]))
        for way in ("read", "write"):
            bins = job[way]["lat_ns"]["bins"]
            frame = pd.DataFrame({"ns": [int(ns) for ns in bins], "count": list(bins.values())})
            frame["lane"], frame["cell"] = path.parts[-3], path.parts[-2]
            frames.append(frame)
    read = time.perf_counter() - begun
    figures = pd.DataFrame(rows, columns=["lane", "cell", "block", "iops"])
    figures["log"] = np.log(figures["iops"])
    means = np.exp(figures.groupby(["lane", "cell"])["log"].mean())
    every = pd.concat(frames, ignore_index=True)
    added = every.groupby(["lane", "cell", "ns"], sort=True)["count"].sum().groupby(level=["lane", "cell"])
    p99 = added.apply(lambda n: n.index[int((n.cumsum() >= 0.99 * n.sum()).argmax())][-1])
    assert len(p99) == len(means)
    return {"read": read, "all": time.perf_counter() - begun}


# --- the whole


def profiled(folder: Path, run: Path) -> None:
    """Each step in this process under cProfile, one process only: the 25 functions that cost most."""
    from fairlane.checks.base import run_all  # noqa: PLC0415
    from fairlane.importers._run import import_files  # noqa: PLC0415
    from fairlane.runs.read import load_run  # noqa: PLC0415
    from fairlane.stats.judge import judge  # noqa: PLC0415

    held: dict[str, Any] = {}
    steps: dict[str, Callable[[], Any]] = {
        "import": lambda: import_files([folder], run, processes=0),
        "load": lambda: held.setdefault("evidence", load_run(run)),
        "check": lambda: held.setdefault("findings", run_all(held["evidence"])),
        "judge": lambda: judge(held["evidence"], held["findings"]),
    }
    for name, step in steps.items():
        profile = cProfile.Profile()
        profile.runcall(step)
        print(f"\n=== {name}")
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--files", type=Path, help="Folder of the files: made if missing, kept for the next time.")
    parser.add_argument("--profile", action="store_true", help="Only the profile.")
    parser.add_argument("--no-pandas", action="store_true", help="Without the comparison.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        files = args.files or Path(temporary) / "files"
        if not files.exists():
            print(f"{args.trials} files, {write_all(files, args.trials) >> 20} MiB", flush=True)
        run = Path(temporary) / "run"
        if args.profile:
            profiled(files, run)
            return 0
        steps = {
            "import": ("import", str(files), "--out", str(run)),
            "verdicts": ("verdicts", str(run), "--all"),
        }
        print(f"{len(os.sched_getaffinity(0))} CPUs, load before: {os.getloadavg()[0]:.1f}")
        ENVIRONMENT["PYTHONPYCACHEPREFIX"] = f"{temporary}/compiled"
        for warm in steps:
            measured(warm, "--help")
        measured("import", "--list")
        costs = {}
        for name, command in steps.items():
            costs[name] = cost = measured(*command)
            print(f"{name:10} {cost.wall:6.1f} s, {cost.cpu:6.1f} s of CPU, {cost.mib:6.0f} MiB", flush=True)
        # fairlane verdicts runs every check before it judges: the two commands are the whole job, done once
        wall, mib = sum(c.wall for c in costs.values()), max(c.mib for c in costs.values())
        cpu = sum(c.cpu for c in costs.values())
        print(f"{'together':10} {wall:6.1f} s, {cpu:6.1f} s of CPU, {mib:6.0f} MiB at most")
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        print(f"run directory: {size >> 20} MiB")
        check, report = measured("check", str(run)), measured("report", str(run))
        page = (run / "report.html").stat().st_size
        print(f"{'check':10} {check.wall:6.1f} s, {check.cpu:6.1f} s of CPU, {check.mib:6.0f} MiB")
        print(f"{'report':10} {report.wall:6.1f} s, {report.cpu:6.1f} s of CPU, {report.mib:6.0f} MiB")
        print(f"page: {page >> 10} KiB")
        shutil.rmtree(run)
        if not args.no_pandas:
            other = plain(files)
            print(f"json and pandas: {other['all']:.1f} s, of which reading {other['read']:.1f} s")
            print(f"fairlane / (json and pandas): {wall / other['all']:.2f} of the time")
    return 0 if wall < WANTED_SECONDS and mib < WANTED_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
