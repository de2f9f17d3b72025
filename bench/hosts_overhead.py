"""What Fairlane costs on machines that are there already: IOPS with and without it, and the share of time under load.

    chrt -r 1 uv run python bench/hosts_overhead.py                some 12 minutes on 2 cores (root)
    chrt -r 1 uv run python bench/hosts_overhead.py --part share   one part: share, delayed, memory or machine

1. An uncapped job (4k random reads, one at a time) through Fairlane's platform ``hosts`` against the same job file run
   by hand with fio on the same machine, in pairs, both orders equally often: on this machine a file of which reads take
   1 ms, and one in memory, which is the quickest storage there is; in a virtual machine over ssh a null_blk device. The
   95 % interval of the mean ratio of IOPS must lie within 0.99 to 1.01, in the virtual machine within 0.98 to 1.02.
   What fio does in its first half second is left out (ramp): through Fairlane it waits then, by hand it does not.
2. Two files, trials of 10 s: the share of the wall time from the end of the opening to the last verdict's trial during
   which a load runs, by the journal, must be 90 % or more. fio's own start and end count as load.

Measured on two cores without KVM under a load average of 10 to 17: docs/statistics.md.
"""

import argparse
import asyncio
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import planted  # type: ignore[import-not-found] # beside this file
from scipy.stats import t as student

from fairlane import registry
from fairlane.platforms.hosts import Hosts
from fairlane.records import Block
from fairlane.study.load import parse_study
from testkit.strangers import Array, Stand  # ``planted`` made it known

WANTED_SHARE = 0.90

STUDY = """
name: overhead
platform: {{kind: hosts, machines: {{here: {machine}}}, settle: 200ms, alone: false}}
baseline: one
lanes: {{one: {one}, two: {two}}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [1], engine: psync, runtime: {runtime}, ramp: 500ms,
         prefill: false, direct: {direct}}}
design: {{looks: [2]}}
"""


@dataclass(frozen=True)
class Place:
    """Where fio runs."""

    title: str
    study: str
    path: str
    within: float
    hand: Callable[[str], str]
    """Runs a shell script on the machine, in a folder of its own; the text of its ``fio.json``."""


def _local(title: str, files: Sequence[str], runtime: str, direct: str = "true") -> Place:
    one, two = (f'{{transport: file, path: "{file}"}}' for file in files)

    def hand(script: str) -> str:
        with tempfile.TemporaryDirectory() as own:
            subprocess.run(["bash", "-c", script], cwd=own, check=True)
            return (Path(own) / "fio.json").read_text()

    text = STUDY.format(machine="local", one=one, two=two, runtime=runtime, direct=direct)
    return Place(title, text, files[0], 0.01, hand)


@contextmanager
def memory(runtime: str) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="overhead-", dir="/dev/shm") as folder:
        files = [str(_file(Path(folder) / name, 64)) for name in ("one", "two")]
        yield _local("this machine, a file in memory", files, runtime, "false")  # tmpfs is a page cache


@contextmanager
def delayed(runtime: str) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder, ExitStack() as held:
        files = [planted.serve(held, Path(folder) / name, 1) for name in ("one", "two")]
        yield _local("this machine, a file behind nbdkit that takes 1 ms", files, runtime)


@contextmanager
def machine(runtime: str) -> Iterator[Place]:
    with Stand((), Array(furnished=False)) as stand:
        for name in ("one", "two"):
            device = f"/sys/kernel/config/nullb/{name}"
            values = {"size": 64, "irqmode": 0, "queue_mode": 2, "power": 1}
            writes = "\n".join(f"echo {value} > {device}/{key}" for key, value in values.items())
            stand.sh("storage1", f"modprobe null_blk nr_devices=0\nmkdir {device}\n{writes}")
        one, two = (f'{{transport: device, identity: "nullb:{name}"}}' for name in ("one", "two"))
        os.environ["PATH"] = stand.environment()["PATH"]

        def hand(script: str) -> str:
            text = f"set -e\ncd $(mktemp -d)\n{{ {script}\n}} >&2\ncat fio.json"
            return subprocess.run(
                ["ssh", "storage1", "sudo -n bash"], input=text, check=True, capture_output=True, text=True
            ).stdout

        study = STUDY.format(machine="storage1", one=one, two=two, runtime=runtime, direct="true")
        yield Place("a virtual machine over ssh, null_blk", study, "/dev/one", 0.02, hand)


PLACES = {"delayed": delayed, "memory": memory, "machine": machine}


def _file(path: Path, mib: int) -> Path:
    path.write_bytes(os.urandom(mib * 2**20))
    return path


def iops(text: str | bytes) -> float:
    """IOPS of a trial's fio.json."""
    (job,) = json.loads(text)["jobs"]
    return float(job["read"]["iops"])


async def ratio(place: Place, pairs: int) -> bool:
    """Whether the interval of IOPS through Fairlane / by hand lies within the place's limits."""
    study = parse_study(place.study, "bench")
    platform = Hosts(study)
    workload, (cell,) = registry.load("workloads", "fio"), study.cells()
    logs: list[float] = []
    orders = [*(["ours", "hand"], ["hand", "ours"])] * (pairs // 2)
    random.Random(1).shuffle(orders)  # noqa: S311 - no secret
    try:
        await platform.open(lambda _: None)
        for seed, order in enumerate(orders, 1):
            found: dict[str, float] = {}
            for way in order:
                if way == "ours":
                    (trial,) = [raw async for raw in platform.run_block(Block(cell, 0, ("one",), seed))]
                    found[way] = iops(dict(trial.outputs)["fio.json"])
                else:
                    script = f"sleep 0.5\n{workload.script(cell, (place.path,), seed)}"  # a login has its aftermath
                    found[way] = iops(await asyncio.to_thread(place.hand, script))
            logs.append(math.log(found["ours"] / found["hand"]))
            print(f"pair {seed:3}: {found['ours']:12,.0f} through, {found['hand']:12,.0f} by hand, {logs[-1]:+.2%}")
    finally:
        await platform.close()
    mean, spread = statistics.mean(logs), statistics.stdev(logs)
    half = float(student.ppf(0.975, len(logs) - 1)) * spread / len(logs) ** 0.5
    low, high = math.exp(mean - half), math.exp(mean + half)
    print(f"{place.title}: through / by hand {math.exp(mean):.4f}, 95 % interval {low:.4f} to {high:.4f} "
          f"({len(logs)} pairs; wanted: within {1 - place.within} to {1 + place.within})")  # fmt: skip
    return 1 - place.within <= low and high <= 1 + place.within


def share(blocks: int) -> bool:
    """Whether trials of 10 s are under load for ``WANTED_SHARE`` of the time from the first to the last."""
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        files = [str(_file(Path(folder) / name, 64)) for name in ("one", "two")]
        command = [sys.executable, "-m", "fairlane", "versus", *files, "--shared", "--rw", "randread", "--rate-iops",
                   "200", "--runtime", "10s", "--blocks", str(blocks), "--out", f"{folder}/run"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        events = [json.loads(line) for line in (Path(folder) / "run" / "journal.jsonl").read_text().splitlines()]
    times = {event["type"]: datetime.fromisoformat(event["at"]).timestamp() for event in events}
    loaded = sum(float(event["load_seconds"]) for event in events if event["type"] == "trial")
    wall = times["trial"] - times["start"]
    trials = sum(event["type"] == "trial" for event in events)
    print(f"under load: {loaded:.1f} of {wall:.1f} s = {loaded / wall:.1%}, {trials} trials of 10 s "
          f"(wanted: >= {WANTED_SHARE:.0%}); load average {os.getloadavg()[0]:.1f}")  # fmt: skip
    return loaded / wall >= WANTED_SHARE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40, help="pairs of trials for a ratio (40)")
    parser.add_argument("--runtime", default="1s", help="of one of them (1s)")
    parser.add_argument("--blocks", type=int, default=4, help="of the run for the share (4)")
    parser.add_argument("--part", choices=["share", *PLACES], action="append", help="this part alone")
    asked = parser.parse_args()
    parts = asked.part or ["share", *PLACES]
    met = [share(asked.blocks)] if "share" in parts else []
    for name, place in PLACES.items():
        if name in parts:
            with place(asked.runtime) as made:
                met.append(asyncio.run(ratio(made, asked.pairs)))
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
