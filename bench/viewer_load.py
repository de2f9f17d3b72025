"""What pages that watch a study cost the viewer: requests, its CPU time, bytes, and the age of what they show.

    uv run python bench/viewer_load.py             1, 16 and 64 pages for 40 s each

A finished run of the platform fake is written again trial by trial, two a second, under the lock of a run that goes on.
Each page asks for state.json as a browser's does: every two seconds, with the tag of what it has.
"""

import argparse
import asyncio
import fcntl
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

STUDY = """\
name: watched
platform: {kind: fake, effects: {fast: {speed: 1.13}}, noise: {sd: 2%}}
lanes: {slow: {transport: iscsi}, fast: {transport: nvme_tcp}, third: {transport: nvme_tcp, queues: 4}}
baseline: slow
workloads: {main: {kind: fio, rw: [randread, randwrite], bs: [4k, 64k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [20]}
"""
THERE = 40
"""Lines of the journal at the beginning."""
EVERY = 2.0
"""Seconds after which a page asks again."""


@dataclass
class Tally:
    """What the pages asked and got."""

    requests: int = 0
    unchanged: int = 0
    size: int = 0
    appended: dict[int, float] = field(default_factory=dict)
    """Number of trials -> when the last of them was written."""
    ages: list[float] = field(default_factory=list)
    """Seconds from writing a trial until a page had it."""


def fairlane(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fairlane", *arguments]


async def page(port: int, begin: float, stop: float, tally: Tally) -> None:
    tag, done = b"", 0
    await asyncio.sleep(begin)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    while (asked := time.monotonic()) < stop:
        known = b"If-None-Match: " + tag + b"\r\n" if tag else b""
        writer.write(b"GET /runs/live/state.json HTTP/1.1\r\nHost: localhost\r\n" + known + b"\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        tally.requests += 1
        tally.size += len(head)
        if b" 304 " in head[:16]:
            tally.unchanged += 1
        else:
            assert b" 200 " in head[:16], head
            (length,) = re.findall(rb"content-length: (\d+)", head)
            (tag,) = re.findall(rb"etag: ([^\r]+)", head)
            body = await reader.readexactly(int(length))
            tally.size += len(body)
            now, (shown,) = time.monotonic(), map(int, re.findall(rb'"done": (\d+)', body))
            tally.ages += [now - tally.appended[n] for n in range(done + 1, shown + 1) if n in tally.appended]
            done = shown
        await asyncio.sleep(max(0.0, asked + EVERY - time.monotonic()))
    writer.close()


async def write(journal: Path, lines: list[bytes], stop: float, tally: Tally) -> None:
    with journal.open("ab") as file:
        for n, line in enumerate(lines[THERE:], start=THERE):
            if time.monotonic() > stop - 2 * EVERY:
                return
            file.write(line)
            file.flush()
            tally.appended[n] = time.monotonic()
            await asyncio.sleep(0.5)


async def watch(pages: int, seconds: float, port: int, journal: Path, lines: list[bytes]) -> Tally:
    tally, stop = Tally(), time.monotonic() + seconds
    asking = [page(port, EVERY * n / pages, stop, tally) for n in range(pages)]
    await asyncio.gather(*asking, write(journal, lines, stop, tally))
    return tally


def cpu(pid: int) -> float:
    """Seconds of CPU time that the process has taken."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def measure(finished: Path, pages: int, seconds: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "live"
        shutil.copytree(finished, run)
        for name in ("report.html", "report.md", "verdicts.json", "observations.jsonl"):
            (run / name).unlink()
        journal = run / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[:THERE]))
        lock = os.open(run, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = subprocess.Popen(fairlane("serve", folder, "--port", "0"), stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        port = int(server.stdout.readline().rstrip("/\n").rpartition(":")[2])
        time.sleep(1)
        begun = cpu(server.pid)
        tally = asyncio.run(watch(pages, seconds, port, journal, lines))
        share = (cpu(server.pid) - begun) / seconds
        server.terminate()
        server.wait()
        os.close(lock)
    ages = sorted(tally.ages)
    return (
        f"{pages:>5}  {tally.requests / seconds:>10.1f}  {tally.unchanged / tally.requests:>9.0%}  {share:>6.1%}  "
        f"{tally.size / seconds / 1024:>7.0f}  {statistics.median(ages):>10.2f}  {ages[int(0.95 * len(ages))]:>7.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=int, help="numbers of pages: 1 16 64")
    parser.add_argument("--seconds", type=float, default=40.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study, finished = Path(folder) / "study.yaml", Path(folder) / "finished"
        study.write_text(STUDY)
        subprocess.run(fairlane("run", str(study), "--out", str(finished)), check=True, capture_output=True)
        print("pages  requests/s  unchanged     CPU    KiB/s  median age  95 % (s)")
        for pages in asked.pages or (1, 16, 64):
            print(measure(finished, pages, asked.seconds), flush=True)


if __name__ == "__main__":
    main()
