"""Process groups, and pids that the kernel gives away again: each test runs in a pid namespace of its own, where it
chooses the next pid."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses the next pid")

_COMMON = """
import asyncio, os, signal, subprocess, sys, time
from pathlib import Path
from fairlane.machines.child import end, signal_group

def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

def until(condition):
    while not condition():
        time.sleep(0.01)

def stranger(pid):
    '''A process with this very pid that leads its group and is no child of ours.'''
    script = f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid; setsid sleep 600 & echo $!; wait"
    parent = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    assert int(parent.stdout.readline()) == pid
    until(lambda: os.getsid(pid) == pid)
"""


def run(body: str) -> None:
    """Runs Python code in a pid namespace; all that it starts ends with it."""
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", _COMMON + body],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stranger_with_the_pid_of_an_ended_child_lives() -> None:
    run("""
async def main():
    child = await asyncio.create_subprocess_exec("sleep", "0", start_new_session=True)
    until(lambda: not Path(f"/proc/{child.pid}").exists())  # asyncio's thread waited for it, the loop has not heard
    assert child.returncode is None
    stranger(child.pid)
    await end(child)
    assert lives(child.pid)

asyncio.run(main())
""")


def test_what_an_ended_child_leaves_in_its_group_ends() -> None:
    run("""
child = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], stdout=subprocess.PIPE, start_new_session=True)
left = int(child.stdout.readline())
child.wait()
assert lives(left)
signal_group(child.pid, signal.SIGKILL)
until(lambda: not lives(left))
""")


def test_a_living_child_ends_with_its_group() -> None:
    run("""
async def main():
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 600 & echo $!; wait", stdout=subprocess.PIPE, start_new_session=True
    )
    other = int(await child.stdout.readline())
    await end(child)
    until(lambda: not lives(other))
    assert child.returncode == -signal.SIGKILL

asyncio.run(main())
""")


def test_pipes_are_closed_though_others_hold_them() -> None:
    run("""
import gc, warnings
warnings.simplefilter("error")
warned = []
sys.unraisablehook = lambda event: warned.append(event.exc_value)

async def main():
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", "setsid sh -c 'echo $$; exec sleep 600' & wait", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True
    )
    other = int(await child.stdout.readline())
    await end(child)
    assert lives(other)

asyncio.run(main())
gc.collect()
assert not warned, warned
""")
