"""Whether ``fairlane versus`` finds planted truth: two devices that differ by a known factor, compared many times.

    chrt -r 1 uv run python bench/planted.py                    both settings, 20 repeats of each truth (root)
    chrt -r 1 uv run python bench/planted.py --setting delay    files of this machine alone
    uv run python bench/planted.py --repeats 2                  the quick form

1. ``delay``: files of this machine, served by nbdkit through FUSE (nbdfuse), of which every read takes a whole number
   of milliseconds.
2. ``null``: null_blk devices of a virtual machine that ssh reaches, of which every I/O completes after a time known to
   the microsecond (irqmode 2, completion_nsec).

The baseline's I/Os take 100, 102, 112 or 130 ms, the other path's 100: it is 1.00, 1.02, 1.12 or 1.30 times as fast.
One read at a time (psync), judged by mean latency: a trial holds too few I/Os to count them as IOPS. The I/Os take so
long that what the system adds hardly matters: fio by hand measures that addition on the paths of 100 ms, before, after
every repeat, and after all. The truth that an interval must hold is (D + addition) / (100 ms + addition), with the
median of these: an emulated machine holds a single one up now and then. What fio takes with no delay at all is printed
beside it. ``chrt`` keeps the load of others out of the delays.

``fairlane versus`` plans each comparison and carries out the first repeat as a user would, from start to verdict. The
others are its study with another seed, by the product's runner and judge, on machines that stay connected; the truths
take turns, two comparisons at once. Nothing is left out: a repeat without an interval misses the truth.

Targets: 73 of 80 intervals hold the truth, nothing is called different at 1.00, nothing a tie at 1.12 and above.
Measured on two cores without KVM, on a busy machine: 77 of 80 and 79 of 80, no wrong word (docs/statistics.md).
"""

import argparse
import asyncio
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fairlane.checks.base import run_all
from fairlane.platforms.base import Notify, Opened
from fairlane.platforms.hosts import Hosts
from fairlane.records import Verdict
from fairlane.runs import plan as plans
from fairlane.runs.journal import Journal
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.trial.progress import Watch
from fairlane.trial.runner import Runner

sys.path.insert(0, str(Path(__file__).parents[1]))
from testkit.strangers import Array, Stand

BASE = 100
"""Milliseconds of the path that is judged."""
DELAYS = (100, 102, 112, 130)
"""Milliseconds of its baselines."""
WANTED = 73 / 80
CLEAR = 1.1
"""From this truth on a tie would be wrong."""
RUNTIME = "800ms"
BY_HAND = 40
"""I/Os of fio by hand, each time."""
LOAD = "kind: fio\nrw: [randread]\nbs: [4k]\niodepth: [1]\nengine: psync\nprimary: lat_mean\n"


@dataclass(frozen=True)
class Setting:
    """Paths to compare, by name, and the way to their machine."""

    title: str
    pairs: Mapping[int, tuple[str, str]]
    """Milliseconds of the baseline -> baseline and the other, as ``fairlane versus`` takes them."""
    undelayed: str
    """A path of the same kind whose I/Os wait for nothing."""
    environment: Mapping[str, str]
    shell: Sequence[str] = ()
    """Words before a shell command that runs on the machine as root; none: this machine."""

    def fio(self, path: str, ios: int) -> float:
        """Mean latency in ms of so many random reads of ``path``, by hand."""
        words = ["fio", "--name=hand", f"--filename={path.rpartition(':')[2]}", "--rw=randread", "--bs=4k",
                 "--direct=1", "--ioengine=psync", "--readonly", f"--number_ios={ios}", "--norandommap", "--size=16m",
                 "--io_size=1g", "--output-format=json"]  # fmt: skip
        command = [*self.shell, "sudo", "-n", *words] if self.shell else words
        done = subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True)
        (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
        return float(job["read"]["lat_ns"]["mean"]) / 1e6


def serve(held: ExitStack, file: Path, delay: int) -> str:
    """A file through FUSE whose reads take ``delay`` ms, until ``held`` is closed; its path."""
    file.touch()
    slow = (["--filter=delay"], [f"delay-read={delay}ms"]) if delay else ([], [])
    words = ["nbdfuse", str(file), "--command", "nbdkit", "-s", "--exit-with-parent", *slow[0], "memory", "16M"]
    words += slow[1]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    held.callback(process.wait)
    held.callback(subprocess.run, ["umount", str(file)], check=False)
    ends = time.monotonic() + 60
    while not file.stat().st_size:
        if process.poll() is not None or time.monotonic() > ends:
            raise SystemExit(f"{shlex.join(words)} serves nothing")
        time.sleep(0.1)
    return str(file)


@contextmanager
def served(folder: Path) -> Iterator[Setting]:
    """Files behind nbdkit's delay filter, a pair of its own for each truth."""
    with ExitStack() as held:
        pairs = {d: (serve(held, folder / f"base-{d}", d), serve(held, folder / f"other-{d}", BASE)) for d in DELAYS}
        undelayed = serve(held, folder / "undelayed", 0)
        yield Setting("delay: nbdkit's delay filter, files through FUSE", pairs, undelayed, os.environ)


@contextmanager
def null_blk(_: Path) -> Iterator[Setting]:
    """null_blk devices of a virtual machine; its figures are emulated where this machine has no KVM."""
    with Stand((), Array(furnished=False)) as stand:
        name = "storage1"

        def make(title: str, delay: int) -> str:
            device = f"/sys/kernel/config/nullb/{title}"
            values = {"size": 64, "irqmode": 2, "completion_nsec": delay * 10**6, "queue_mode": 2, "power": 1}
            writes = "\n".join(f"echo {value} > {device}/{key}" for key, value in values.items())
            stand.sh(name, f"modprobe null_blk nr_devices=0\nmkdir {device}\n{writes}\nudevadm settle || :")
            return f"{name}:/dev/{title}"

        pairs = {d: (make(f"base-{d}", d), make(f"other-{d}", BASE)) for d in DELAYS}
        undelayed = make("undelayed", 0)
        environment = stand.environment()
        os.environ["PATH"] = environment["PATH"]  # the repeats run in this process
        yield Setting("null: null_blk in a virtual machine, over ssh", pairs, undelayed, environment, ("ssh", name))


SETTINGS = {"delay": served, "null": null_blk}


class Kept(Hosts):
    """Machines that stay connected from one repeat to the next."""

    opened: Opened | None = None

    async def open(self, notify: Notify) -> Opened:
        if self.opened is None:
            self._first, self.opened = self.run_id, await super().open(notify)
        self.run_id = self._first
        return self.opened

    async def close(self) -> None:
        """Ends with ``leave``."""

    async def leave(self) -> None:
        await super().close()


@dataclass
class Truth:
    """One truth with what was said of it."""

    delay: int
    command: str = ""
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """From the first trial to the verdict."""
    additions: list[float] = field(default_factory=list)
    """What the system added to the delay, in ms, by hand, after each repeat."""
    whole: float = 0.0
    """Seconds of the command, from its start to its end."""

    def ratio(self, addition: float) -> float:
        """How many times as fast the other path is."""
        return (self.delay + addition) / (BASE + addition)

    def held(self, addition: float) -> int:
        """How many intervals hold the truth; of latency, so its inverse."""
        true = 1 / self.ratio(addition)
        return sum(v.low is not None and v.high is not None and v.low <= true <= v.high for v in self.verdicts)

    def wrong(self) -> int:
        """How many words must not be: a difference that matters where there is none, a tie where there is one.

        Different-but-small where there is none is an interval that misses the truth, and counts there.
        """
        if self.delay == BASE:
            return sum(v.verdict in ("faster", "slower") for v in self.verdicts)
        return sum(v.verdict in ("tie", "slower") for v in self.verdicts) if self.delay / BASE >= CLEAR else 0


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    repeats: int
    blocks: int
    at_once: int


async def compare(setting: Setting, delay: int, asked: Asked, folder: Path, room: asyncio.Semaphore) -> Truth:
    """All repeats of one truth, each when there is room for it."""
    folder.mkdir()
    (folder / "load.yaml").write_text(LOAD)
    options = ["--workload", "load.yaml", "--runtime", RUNTIME, "--blocks", str(asked.blocks), "--shared"]
    words = ["versus", *(f"{n}={p}" for n, p in zip(("base", "other"), setting.pairs[delay], strict=True)), *options]
    truth = Truth(delay, shlex.join(["fairlane", "versus", "base=PATH", "other=PATH", *options]))
    more = ["--save-study", "study.yaml", "--out", "run-1", "--seed", "1"]
    async with room:
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fairlane", *words, *more, cwd=folder, env=setting.environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
        if process.returncode:
            raise SystemExit(output.decode())
        truth.whole = time.monotonic() - begun
        truth.additions.append(await asyncio.to_thread(added, setting, delay))
    _take(truth, folder / "run-1", 1)
    text = (folder / "study.yaml").read_text()
    platform = Kept(parse_study(text, "bench"))
    try:
        for seed in range(2, asked.repeats + 1):
            plan = plans.make(parse_study(text, "bench"), text, seed=seed)
            run = folder / f"run-{seed}"
            plans.create(run, plan)
            async with room:
                with Journal(run) as journal:
                    await Runner(journal, plan, platform, Watch(), 1).run()
                truth.additions.append(await asyncio.to_thread(added, setting, delay))
            _take(truth, run, seed)
    finally:
        await platform.leave()
    return truth


def _take(truth: Truth, run: Path, number: int) -> None:
    """The verdict of a run, and its time; printed."""
    evidence = load_run(run)
    truth.verdicts += [v for v in judge(evidence, run_all(evidence)) if v.primary]
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    opened, ended = (next(_time(e) for e in events if e["type"] in types) for types in (("start", "resume"), ("end",)))
    truth.seconds.append(ended - opened)
    said = truth.verdicts[-1]
    print(f"{truth.delay} ms, repeat {number}: {said.verdict} {_shown(said)}, {truth.seconds[-1]:.0f} s", flush=True)


def _time(event: Mapping[str, str]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()


def _shown(verdict: Verdict) -> str:
    if verdict.low is None or verdict.high is None:
        return "(no interval)"
    return f"({1 / verdict.high:.3f} to {1 / verdict.low:.3f})"


def added(setting: Setting, delay: int) -> float:
    """What the system adds to the delay, in ms, on a truth's path of ``BASE`` ms."""
    return setting.fio(setting.pairs[delay][1], BY_HAND) - BASE


def by_hand(setting: Setting) -> list[float]:
    """``added`` of each truth."""
    return [added(setting, delay) for delay in setting.pairs]


async def compared(setting: Setting, asked: Asked, folder: Path) -> list[Truth]:
    """All truths."""
    room = asyncio.Semaphore(asked.at_once)
    return await asyncio.gather(*(compare(setting, d, asked, folder / f"{d}", room) for d in setting.pairs))


def table(setting: Setting, truths: Sequence[Truth], addition: float) -> bool:
    """Prints the table; returns whether the targets are met."""
    print(f"\n{setting.title}; {RUNTIME} trials\n")
    print("| truth | repeats | intervals that hold it | words | median interval | median time to a verdict |")
    print("|---|---|---|---|---|---|")
    for truth in truths:
        said = [v.verdict for v in truth.verdicts]
        words = ", ".join(f"{said.count(word)} {word}" for word in dict.fromkeys(sorted(said)))
        bounds = [(1 / v.high, 1 / v.low) for v in truth.verdicts if v.low and v.high]
        low, high = (statistics.median(side) for side in zip(*bounds, strict=True)) if bounds else (math.nan, math.nan)
        print(f"| {truth.ratio(addition):.3f} | {len(said)} | {truth.held(addition)} | {words} "
              f"| {low:.3f} to {high:.3f} | {statistics.median(truth.seconds):.0f} s |")  # fmt: skip
    held, all_ = sum(t.held(addition) for t in truths), sum(len(t.verdicts) for t in truths)
    wrong = sum(t.wrong() for t in truths)
    wanted = math.ceil(WANTED * all_) if all_ >= 40 else math.floor(WANTED * all_) - 1
    print(f"\n{held} of {all_} intervals hold the truth (wanted: {wanted}); {wrong} wrong words (wanted: 0)")
    print(f"the whole command took {statistics.median(t.whole for t in truths):.0f} s (median of {len(truths)}): "
          f"{truths[-1].command}")  # fmt: skip
    return held >= wanted and not wrong


def measure(name: str, asked: Asked) -> bool:
    """One setting, whole."""
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch, SETTINGS[name](Path(scratch)) as setting:
        floor = setting.fio(setting.undelayed, 20 * BY_HAND)
        additions = by_hand(setting)
        print(f"\n{setting.title}: {floor:.3f} ms without delay; load average {os.getloadavg()[0]:.1f}", flush=True)
        begun = time.monotonic()
        truths = asyncio.run(compared(setting, asked, Path(scratch)))
        took, load = time.monotonic() - begun, os.getloadavg()[0]
        additions += [*by_hand(setting), *(each for truth in truths for each in truth.additions)]
        addition = statistics.median(additions)
        met = table(setting, truths, addition)
    off = (truths[-1].ratio(floor) / truths[-1].ratio(addition) - 1) if truths else 0.0
    span = f"median of {len(additions)}, {min(additions):.2f} to {max(additions):.2f}"
    print(f"added to {BASE} ms by hand: {addition:.2f} ms ({span}); with the {floor:.2f} ms of no delay instead the "
          f"largest truth were {off:+.2%}")  # fmt: skip
    print(
        f"{took:.0f} s, {asked.at_once} comparisons at once, {os.cpu_count()} cores, load average {load:.1f} at the end"
    )
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=[*SETTINGS, "both"], default="both")
    parser.add_argument("--repeats", type=int, default=20, help="of each truth (20)")
    parser.add_argument("--blocks", type=int, default=6, help="of each comparison, at most (6)")
    parser.add_argument("--at-once", type=int, default=2, help="comparisons at once (2)")
    asked = parser.parse_args()
    names = [*SETTINGS] if asked.setting == "both" else [asked.setting]
    met = [measure(name, Asked(asked.repeats, asked.blocks, asked.at_once)) for name in names]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
