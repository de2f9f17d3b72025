"""What imports of 1,000, 10,000 and 100,000 trials cost: CPU seconds of all processes, memory, and the goals for both.

    uv run python bench/import_speed.py                      1,000 and 10,000 trials, some 600 MB
    uv run python bench/import_speed.py --trials 100000      6 GB of files in a temporary folder, and a run
    uv run python bench/import_speed.py --profile            where the time goes, by function, of each step
    uv run python bench/import_speed.py --pandas             beside json and pandas, as an analyst would

The files are made of one json+ report that fio 3.33 really wrote (bench/data): for every trial its bins move by lane,
depth and chance and keep fio's ladder, and all that follows from them is computed anew, so that no two are alike.

The measure is CPU time, of each command and its children: wall time says more about what else the machine does. It is
given in seconds and as a multiple of a bare loop over the same files, open, read and orjson.loads, in the same run.
``verdicts`` comes twice: as after an import, and with the index of figures deleted. Memory is the resident set of all
processes of a command together, sampled every 0.2 s.
"""

import argparse
import cProfile
import gzip
import json
import math
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

import orjson

RECORDED = Path(__file__).parent / "data" / "fio-json-plus.json.gz"
LANES = {"iscsi": 0, "nvme-tcp": -3}
"""Steps on fio's ladder, each about 1.1 %, by which the lane's latencies lie apart."""
DEPTHS = (1, 2, 4, 8, 16)
SIZES = ("4k", "8k", "16k", "64k", "256k")
LOOPS, AIM, VERDICTS, MIB = 8.0, 3.0, 3.0, 1024.0
"""The goals: import in bare loops, and what it aims at; verdicts of 10,000 trials in seconds of CPU; memory."""
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


def bare(folder: Path) -> float:
    """CPU seconds of the least that an import must do: open, read and parse every file."""
    paths = [str(path) for path in sorted(folder.rglob("*.json"))]
    best = math.inf
    for _ in range(2):
        begun = time.process_time()
        for path in paths:
            with open(path, "rb") as file:  # noqa: PTH123 - nothing but the loop
                orjson.loads(file.read())
        best = min(best, time.process_time() - begun)
    return best


def told(goal: str, *, holds: bool) -> bool:
    print(f"  {'holds' if holds else 'MISSED':6}  {goal}")
    return holds


def priced(trials: int, place: Path, given: Path | None, *, pandas: bool) -> bool:
    """Measures one size, prints it, and returns whether its goals hold."""
    files, run = given or place / "files", place / "run"
    if not files.exists():
        print(f"{trials:,} files, {write_all(files, trials) >> 20} MiB", flush=True)
    loop = bare(files)
    print(f"{'bare loop':22} {loop:7.2f} s of CPU, {loop / trials * 1e3:.3f} ms a file", flush=True)
    costs = {}
    for name, command in {
        "import": ("import", str(files), "--out", str(run)),
        "verdicts": ("verdicts", str(run), "--all"),
        "check": ("check", str(run)),
        "report": ("report", str(run)),
        "verdicts, index deleted": ("verdicts", str(run), "--all"),
    }.items():
        if "deleted" in name:
            (run / "figures.index").unlink()
        costs[name] = cost = measured(*command)
        loops = f"{cost.cpu:7.2f} s of CPU, {cost.cpu / loop:5.1f} loops"
        print(f"{name:22} {loops}, {cost.wall:6.1f} s, {cost.mib:5.0f} MiB", flush=True)
    sizes = {part: sum(p.stat().st_size for p in (run / part).rglob("*") if p.is_file()) for part in ("raw", "")}
    print(f"run directory {sizes[''] >> 20} MiB, of which packs {sizes['raw'] >> 20} MiB")
    shutil.rmtree(run)
    ratio, verdicts = costs["import"].cpu / loop, costs["verdicts"].cpu
    highest = max(costs[name].mib for name in ("import", "verdicts"))
    goals = []
    if trials <= 10_000:
        goals.append(told(f"verdicts: {verdicts:.1f} s of CPU, at most {VERDICTS:.0f}", holds=verdicts <= VERDICTS))
    if trials >= 10_000:
        goals.append(told(f"import: {ratio:.1f} bare loops, at most {LOOPS:.0f}", holds=ratio <= LOOPS))
        told(f"import: {ratio:.1f} bare loops, and {AIM:.0f} are the aim", holds=ratio <= AIM)
    goals.append(told(f"memory: {highest:.0f} MiB, at most {MIB:.0f}", holds=highest <= MIB))
    if pandas:
        other = plain(files)
        print(f"json and pandas: {other['all']:.1f} s, of which reading {other['read']:.1f} s")
    return all(goals)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--files", type=Path, help="Folder of the files: made if missing, kept for the next time.")
    parser.add_argument("--profile", action="store_true", help="Only the profile.")
    parser.add_argument("--pandas", action="store_true", help="With the comparison.")
    args = parser.parse_args()
    if args.files and len(args.trials) > 1:
        parser.error("--files is of one number of trials")
    with tempfile.TemporaryDirectory() as temporary:
        if args.profile:
            files = args.files or Path(temporary) / "files"
            if not files.exists():
                write_all(files, args.trials[0])
            profiled(files, Path(temporary) / "run")
            return 0
        print(f"{len(os.sched_getaffinity(0))} CPUs, load before: {os.getloadavg()[0]:.1f}")
        ENVIRONMENT["PYTHONPYCACHEPREFIX"] = f"{temporary}/compiled"
        ENVIRONMENT["FAIRLANE_CACHE"] = f"{temporary}/cache"
        warm(Path(temporary) / "warm")
        good = []
        for trials in args.trials:
            with tempfile.TemporaryDirectory() as place:
                good.append(priced(trials, Path(place), args.files, pandas=args.pandas))
    return 0 if all(good) else 1


def warm(place: Path) -> None:
    """Every command once, so that Python has compiled what they import."""
    write_some(place / "files", range(12))
    run = str(place / "run")
    measured("import", str(place / "files"), "--out", run)
    for command in ("verdicts", "check", "report"):
        measured(command, run)


if __name__ == "__main__":
    sys.exit(main())
