"""One run of a client's process, and what the system says of it."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.cluster.outcome import Process
from fairlane.machines.child import WITH_US

LOOK = 0.05
"""s between two looks at a process's memory. Its peak only grows, so what is missed is what came in the last one."""


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float) -> Process:
    """Runs it to its end with its output in ``folder/log``; RuntimeError with the end of that if it fails.

    Peak memory is looked up while it runs: what wait4 tells would have that of our own process in it, which was copied.
    """
    peak, over = 0, threading.Event()
    begun = time.time()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*WITH_US, str(os.getpid()), *command], cwd=folder, env=dict(environment), stdout=log, stderr=log
        )

    def look() -> None:
        nonlocal peak
        while not over.wait(LOOK):
            peak = max(peak, _peak(process.pid))

    watch = threading.Thread(target=look, daemon=True)
    alarm = threading.Timer(limit, process.kill)
    watch.start()
    alarm.start()
    _, status, used = os.wait4(process.pid, 0)
    ended = time.time()
    process.returncode = os.waitstatus_to_exitcode(status)
    alarm.cancel()
    over.set()
    watch.join()
    if process.returncode:
        tail = (folder / "log").read_text(errors="replace")[-3000:]
        raise RuntimeError(f"{command[0]} ended with {process.returncode}. The end of what it said:\n{tail}")
    return Process(begun, ended, used.ru_utime + used.ru_stime, peak)


def _peak(pid: int) -> int:
    """Bytes; 0 where the process is gone, or has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return found[0] * 1024 if found else 0
