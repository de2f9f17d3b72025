"""Loads of known shape on a loop device, and what may stay behind: nothing."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairlane.capture import target, watch
from fairlane.capture.record import Capture
from fairlane.machines.child import signal_group

BUSY = 0.35
"""Part of its rate that fio falls behind on a busy machine, at most; what is taken for another load is off by more."""

TRACEFS = Path("/sys/kernel/tracing")


def traced() -> bool:
    """Whether this machine lets us trace; mounts tracefs if root may."""
    if os.geteuid() or not all(map(shutil.which, ("fio", "losetup", "findmnt"))):
        return False
    if not (TRACEFS / "instances").is_dir():
        subprocess.run(["mount", "-t", "tracefs", "none", str(TRACEFS)], check=False, capture_output=True)
    return (TRACEFS / "events/block/block_rq_issue").is_dir() and os.access("/dev/loop-control", os.W_OK)


needs_trace = pytest.mark.skipif(not traced(), reason="needs root, tracefs, loop devices and fio")


def left() -> list[str]:
    """Trace instances of ours."""
    return [path.name for path in (TRACEFS / "instances").glob("fairlane-capture-*")]


@contextmanager
def loop_device(file: Path, size: int = 256 << 20) -> Iterator[str]:
    with file.open("xb") as new:
        new.truncate(size)
    made = subprocess.run(["losetup", "-f", "--show", str(file)], check=True, capture_output=True, text=True)
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def stat(device: str) -> list[int]:
    return [int(n) for n in Path("/sys/class/block", Path(device).name, "stat").read_text().split()]


@contextmanager
def load(device: str, *jobs: str) -> Iterator[None]:
    """fio at work on ``device``; each of ``jobs`` is options with spaces between them."""
    # threads: jobs that are processes leave fio's group, and would outlive it
    common = [
        "--thread",
        "--direct=1",
        "--time_based",
        "--runtime=600",
        "--norandommap",
        "--randrepeat=0",
        f"--filename={device}",
    ]
    words = [word for i, job in enumerate(jobs) for word in (f"--name=j{i}", *(f"--{o}" for o in job.split()))]
    with subprocess.Popen(["fio", *common, *words], stdout=subprocess.DEVNULL, start_new_session=True) as process:
        before = stat(device)
        try:
            while stat(device) == before:
                assert process.poll() is None
                time.sleep(0.05)
            time.sleep(0.5)  # all jobs are there
            yield
        finally:
            signal_group(process.pid, signal.SIGKILL)


def captured(device: str, *jobs: str, seconds: int = 4, source: str = "auto") -> Capture:
    with load(device, *jobs):
        return watch.watch(target.look(device), seconds, source)
