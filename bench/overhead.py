"""What Fairlane costs: the share of a warm demo under load, and fio's IOPS with and without Fairlane around it.

    uv run python bench/overhead.py              both, some 5 minutes on 2 cores
    uv run python bench/overhead.py --skip-demo  the second only

1. The demo is run twice; of the second, warm run: wall time during which fio runs in a worker's guest / (wall time of
   the whole command x workers). fio's own start-up (a clock calibration of 65 ms) counts as fio running.
2. fio through Fairlane (probes before and after, frames) against the bare fio command on the same job in the same
   guest, started from the same saved state after the same idle time; modelled figures. With one I/O at a time the two
   must be equal within 0.1 %. With 16 the instant at which fio starts against the kernel's tick moves a single trial by
   1-4 %, with or without Fairlane; so the mean over several starts is compared, with its 95 % interval, which must
   hold 1.
"""

import argparse
import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scipy.stats import t as student

from fairlane import registry
from fairlane.machines.script import block_script, device, jitter
from fairlane.platforms.lab import Lab
from fairlane.platforms.lab.virtual import saved
from fairlane.records import Block, Cell
from fairlane.study.load import parse_study
from fairlane.study.spec import Study

WANTED_SHARE = 0.60
WANTED_DIFFERENCE = 0.001
STARTS = 10

STUDY = """
name: overhead
platform: {{kind: lab}}
baseline: iscsi
lanes: {{local: {{transport: local}}, iscsi: {{transport: iscsi}}, nvme-tcp: {{transport: nvme_tcp}}}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k, 64k], iodepth: [{depth}], mem: mmaphuge, prefill: false,
         runtime: {runtime}, ramp: 50ms}}
"""


def demo_share() -> float:
    """Wall time under load / (wall time x workers) of a warm ``fairlane run demo``."""
    jobs = os.cpu_count() or 1
    command = [sys.executable, "-m", "fairlane", "run", "demo", "--jobs", str(jobs), "--out"]
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("first", "warm"):
            begun = time.monotonic()
            subprocess.run([*command, f"{scratch}/{name}"], check=True, capture_output=True)
            wall = time.monotonic() - begun
            print(f"demo, {name}: {wall:.1f} s wall")
        lines = (Path(scratch) / "warm" / "journal.jsonl").read_text().splitlines()
    loaded = sum(float(event["load_seconds"]) for event in map(json.loads, lines) if event["type"] == "trial")
    share = loaded / (wall * jobs)
    print(f"under load: {loaded:.1f} s on {jobs} workers = {share:.1%} of the whole (wanted: >= {WANTED_SHARE:.0%})")
    return share


class Pairs:
    """The two ways to run one trial, a few at a time."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.lab = Lab(study)
        self.room = asyncio.Semaphore(os.cpu_count() or 1)

    async def ratio(self, cell: Cell, lane: str, seed: int) -> float:
        """IOPS through Fairlane / IOPS of the bare command."""
        block = Block(cell, 0, (lane,), seed)
        load = registry.load("workloads", cell.kind).script(cell, (device(lane),), seed)
        start = self.lab.spec.settle / 1e9 + jitter(seed, "bare")
        bare = (
            f". /fairlane/lib.sh\nmkdir /run/bare && cd /run/bare\nsleep {start:.6f}\n{load}\nsend {lane} /run/bare\n"
        )
        ours = block_script(block, self.lab.spec.settle / 1e9)
        one, two = await asyncio.gather(self._iops(ours, lane), self._iops(bare, lane))
        return one / two

    async def _iops(self, script: str, lane: str) -> float:
        async with self.room:
            files = {name: got async for name, got in saved.VirtualGuest(self.lab.saved).run(script, timeout=600)}
        (job,) = json.loads(files[lane]["fio.json"])["jobs"]
        return float(job["read"]["iops"])


async def one_at_a_time() -> bool:
    """Whether every lane's IOPS are the same within WANTED_DIFFERENCE."""
    study = parse_study(STUDY.format(depth=1, runtime="1500ms"), "bench")
    pairs = Pairs(study)
    await pairs.lab.open(print)
    points = [(cell, lane) for cell in study.cells() for lane in study.lanes]
    ratios = await asyncio.gather(*(pairs.ratio(cell, lane, 1) for cell, lane in points))
    for (cell, lane), ratio in zip(points, ratios, strict=True):
        print(f"{cell.name:20} {lane:10} {ratio - 1:+.4%}")
    worst = max(abs(ratio - 1) for ratio in ratios)
    print(f"largest difference: {worst:.4%} (wanted: <= {WANTED_DIFFERENCE:.1%})")
    return worst <= WANTED_DIFFERENCE


async def sixteen() -> bool:
    """Whether the mean ratio's 95 % interval holds 1 for every transport."""
    study = parse_study(STUDY.format(depth=16, runtime="150ms"), "bench")
    pairs = Pairs(study)
    await pairs.lab.open(print)
    equal = True
    for cell in study.cells():
        for lane in ("iscsi", "nvme-tcp"):
            logs = [
                math.log(r) for r in await asyncio.gather(*(pairs.ratio(cell, lane, s) for s in range(1, STARTS + 1)))
            ]
            mean, half = (
                statistics.mean(logs),
                float(student.ppf(0.975, STARTS - 1)) * statistics.stdev(logs) / STARTS**0.5,
            )
            print(f"{cell.name:20} {lane:10} {math.expm1(mean):+.2%}, 95 % interval {math.expm1(mean - half):+.2%}"
                  f" to {math.expm1(mean + half):+.2%} ({STARTS} starts)")  # fmt: skip
            equal = equal and abs(mean) <= half
    return equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skip-demo", action="store_true", help="only compare IOPS")
    met = [parser.parse_args().skip_demo or demo_share() >= WANTED_SHARE]
    met += [asyncio.run(one_at_a_time()), asyncio.run(sixteen())]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
