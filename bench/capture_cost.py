"""What a capture costs the load that it watches: IOPS and p99 with and without it.

    uv run python bench/capture_cost.py                  some 8 minutes on 2 cores (root for the trace)
    uv run python bench/capture_cost.py --on /mnt/disk   the file of the load in this folder

fio reads a file at random, 4 KiB with direct I/O: at 2,000 I/Os per second, then 16 in flight as fast as it can. Each
load runs in pairs, watched by ``fairlane.capture`` and not, both orders equally often; once watched by the counters
alone, once by the trace of every I/O. Prints the mean ratios, watched / unwatched, with 95 % intervals. No limit:
docs/capture.md has its figures.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scipy.stats import t as student

from fairlane.capture import target, watch

LOADS = {"2,000 per second": ("--rate_iops=2000", "--iodepth=1"), "as fast as it can": ("--iodepth=16",)}
SOURCES = ("counters", "events")


@contextmanager
def watched(file: Path, source: str) -> Iterator[None]:
    """A capture of the disk behind ``file`` until the end of the context, which begins with its second sample."""
    begun, ended = threading.Event(), threading.Event()

    def progress(passed: float) -> None:
        if passed > 1:
            begun.set()
        if ended.is_set():
            ended.clear()  # a second interrupt would throw the capture away
            raise KeyboardInterrupt

    thread = threading.Thread(target=watch.watch, args=(target.look(str(file)), 3600, source, progress))
    thread.start()
    begun.wait()
    yield
    ended.set()
    thread.join()


def fio(file: Path, runtime: str, *load: str) -> tuple[float, float]:
    """(IOPS, p99 in ns)."""
    words = ["fio", "--name=load", f"--filename={file}", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio",
             "--time_based", f"--runtime={runtime}", "--ramp_time=500ms", "--output-format=json", *load]  # fmt: skip
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    (job,) = json.loads(done.stdout)["jobs"]
    return float(job["read"]["iops"]), float(job["read"]["clat_ns"]["percentile"]["99.000000"])


def ratio(logs: list[float]) -> str:
    """The mean ratio with its 95 % interval."""
    mean, spread = statistics.mean(logs), statistics.stdev(logs)
    half = float(student.ppf(0.975, len(logs) - 1)) * spread / len(logs) ** 0.5
    return f"{math.exp(mean):.3f} ({math.exp(mean - half):.3f} to {math.exp(mean + half):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="pairs for each load and source (20)")
    parser.add_argument("--runtime", default="2s", help="of each (2s)")
    parser.add_argument("--on", help="a folder for the load's file of 256 MiB (that of temporary files)")
    asked = parser.parse_args()
    orders = [*((False, True), (True, False))] * (asked.pairs // 2)
    random.Random(1).shuffle(orders)  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory(prefix="capture-", dir=asked.on) as folder:
        file = Path(folder) / "file"
        file.write_bytes(os.urandom(256 << 20))
        subprocess.run(["sync", str(file)], check=True)
        for source in SOURCES:
            for name, load in LOADS.items():
                rates, tails, unwatched = [], [], []
                for order in orders:
                    found: dict[bool, tuple[float, float]] = {}
                    for watching in order:
                        if watching:
                            with watched(file, source):
                                found[watching] = fio(file, asked.runtime, *load)
                        else:
                            found[watching] = fio(file, asked.runtime, *load)
                    rates.append(math.log(found[True][0] / found[False][0]))
                    tails.append(math.log(found[True][1] / found[False][1]))
                    unwatched.append(found[False][0])
                print(f"{source}, {name} ({statistics.mean(unwatched):,.0f} IOPS unwatched): IOPS {ratio(rates)}, "
                      f"p99 {ratio(tails)}; {len(orders)} pairs", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
