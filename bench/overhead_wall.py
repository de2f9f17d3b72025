"""What Fairlane costs under the wall clock, on this machine.

    uv run python bench/overhead_wall.py               all three, some 11 minutes on 2 cores without KVM
    uv run python bench/overhead_wall.py --pairs 80    more pairs, a narrower interval

1. fio through Fairlane (probes before and after, frames, a settling time) against the bare fio command over SSH in the
   same virtual machine, on the same disk with the same addresses: pairs in random order. The 95 % interval of the mean
   ratio of IOPS must lie within +-2 %.
2. Two lanes with trials of 5 s: the share of a trial's wall time during which its load runs must be 80 % or more. fio's
   own start and end count as load: so long as it takes, no other trial could run.
3. Four virtual machines under load together: how far apart they started, which is printed and judged by the reader.
"""

import argparse
import asyncio
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy.stats import t as student

from fairlane import registry
from fairlane.machines.script import device
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.records import Block
from fairlane.study.load import parse_study

WITHIN = 0.02
WANTED_SHARE = 0.80

STUDY = """
name: overhead
platform: {{kind: lab, clock: wall, memory: 512m, fleet: {fleet}, medium: {{size: 1g, latency: 100us}}}}
baseline: one
lanes: {{one: {{transport: local, initiator: hypervisor}}, two: {{transport: local, initiator: hypervisor}}}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: {runtime}, prefill: false}}
design: {{looks: [{blocks}]}}
"""


def iops(outputs: dict[str, bytes]) -> float:
    """IOPS of a trial's fio.json."""
    (job,) = json.loads(outputs["fio.json"])["jobs"]
    return float(job["read"]["iops"])


async def through_and_bare(pairs: int) -> bool:
    """Whether the interval of IOPS through Fairlane / bare lies within +-WITHIN."""
    study = parse_study(STUDY.format(fleet=1, runtime="3s", blocks=2), "bench")
    lab = WallLab(study)
    workload, (cell,) = registry.load("workloads", "fio"), study.cells()
    try:
        await lab.open(print)
        logs, order = [], random.Random(1)  # noqa: S311 - no secret
        for seed in range(1, pairs + 1):
            found: dict[str, float] = {}
            for way in order.sample(["ours", "bare"], 2):
                if way == "ours":
                    (trial,) = [raw async for raw in lab.run_block(Block(cell, seed, ("one",), seed))]
                    found[way] = iops(dict(trial.outputs))
                else:
                    found[way] = iops(await lab.guests[0].ask(workload.script(cell, (device("one"),), seed)))
            logs.append(math.log(found["ours"] / found["bare"]))
            print(
                f"pair {seed:2}: {found['ours']:8.1f} through, {found['bare']:8.1f} bare, {math.expm1(logs[-1]):+.2%}"
            )
    finally:
        await lab.close()
    mean, spread = statistics.mean(logs), statistics.stdev(logs)
    half = float(student.ppf(0.975, pairs - 1)) * spread / pairs**0.5
    low, high = math.expm1(mean - half), math.expm1(mean + half)
    kind = "emulated" if lab.emulated else "KVM"
    print(f"through / bare: {math.expm1(mean):+.2%}, 95 % interval {low:+.2%} to {high:+.2%} ({pairs} pairs, {kind})")
    return max(-low, high) <= WITHIN


def run(fleet: int, blocks: int) -> Path:
    """The folder of a run with ``fleet`` machines and trials of 5 s."""
    folder = Path(tempfile.mkdtemp(prefix="overhead-"))
    (folder / "s.yaml").write_text(STUDY.format(fleet=fleet, runtime="5s", blocks=blocks))
    command = [sys.executable, "-m", "fairlane", "run", str(folder / "s.yaml"), "--out", str(folder / "run")]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "run"


def share() -> bool:
    """Whether trials of 5 s are under load for WANTED_SHARE of their wall time."""
    lines = (run(1, 6) / "journal.jsonl").read_text().splitlines()
    trials = [event for event in map(json.loads, lines) if event["type"] == "trial"]
    # the first trial's time holds the machines' boot
    loaded, wall = (sum(float(event[key]) for event in trials[1:]) for key in ("load_seconds", "seconds"))
    print(f"under load: {loaded:.1f} of {wall:.1f} s = {loaded / wall:.1%} (wanted: >= {WANTED_SHARE:.0%})")
    return loaded / wall >= WANTED_SHARE


def skew() -> None:
    """Prints how far apart four machines started."""
    observations = [json.loads(line) for line in (run(4, 3) / "observations.jsonl").read_text().splitlines()]
    apart = []
    for seen in observations:
        starts = [vm["start_ms"] for vm in seen["context"].get("vms", [])]
        apart.append(max(starts) - min(starts))
    print(f"4 machines started within {statistics.median(apart):.1f} ms (median of {len(apart)} trials), "
          f"{max(apart):.1f} ms at most")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40, help="pairs of trials for the ratio (40)")
    met = [asyncio.run(through_and_bare(parser.parse_args().pairs)), share()]
    skew()
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
