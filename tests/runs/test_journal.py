import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.runs import journal
from fairlane.runs.journal import Journal
from tests.words import kind


def events(folder: Path) -> list[int]:
    return [event["n"] for event in journal.read(folder)]


def fill(folder: Path, *numbers: int) -> None:
    with Journal(folder) as book:
        for n in numbers:
            book.append("step", n=n, text="ä" * 10)


def test_lines_are_there_in_order_with_their_time(tmp_path: Path) -> None:
    fill(tmp_path, 1, 2)
    fill(tmp_path, 3)
    assert events(tmp_path) == [1, 2, 3]
    assert all(event["type"] == "step" and event["at"].endswith("+00:00") for event in journal.read(tmp_path))


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert journal.read(tmp_path) == ()


def test_last_line_torn_at_every_byte(tmp_path: Path) -> None:
    fill(tmp_path, 1, 2)
    path = tmp_path / journal.NAME
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        assert events(tmp_path) == [1]  # reading passes over it
        assert path.stat().st_size == end  # and changes nothing
        with Journal(tmp_path) as book:
            assert book.torn == (end > first)
            assert path.read_bytes() == whole[:first]
            book.append("step", n=3)
        assert events(tmp_path) == [1, 3]


@pytest.mark.parametrize("line", [b"{broken", b"\0\0\0", b"[1]", b"{}", b'{"type": 1}', b"", b"[" * 100_000, b"\xff"])
def test_damage_in_the_middle_is_told_with_its_line(tmp_path: Path, line: bytes) -> None:
    fill(tmp_path, 1, 2)
    path = tmp_path / journal.NAME
    first, second = path.read_bytes().splitlines()
    damaged = b"\n".join([first, line, second, b""])
    path.write_bytes(damaged)
    for use in (lambda: journal.read(tmp_path), lambda: fill(tmp_path, 3)):
        with pytest.raises(FairlaneError, check=kind("journal-damaged", where=f"{path}:2")):
            use()
    assert path.read_bytes() == damaged


def test_two_writers_are_kept_apart_and_readers_are_not(tmp_path: Path) -> None:
    with Journal(tmp_path) as book:
        book.append("step", n=1)
        with pytest.raises(FairlaneError, check=kind("run-busy")), Journal(tmp_path):
            pass
        assert events(tmp_path) == [1]
    fill(tmp_path, 2)  # the lock is gone with the context


def _hold(folder: Path, ready: "multiprocessing.synchronize.Event") -> None:
    with Journal(folder):
        ready.set()
        signal.pause()


def test_lock_dies_with_its_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    other = context.Process(target=_hold, args=(tmp_path, ready))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(FairlaneError, check=kind("run-busy")), Journal(tmp_path):
            pass
    finally:
        assert other.pid
        os.kill(other.pid, signal.SIGKILL)
        other.join()
    fill(tmp_path, 1)


FILL_UP = """
import sys
from pathlib import Path
from fairlane.errors import RunFailed
from fairlane.runs.journal import Journal
with Journal(Path(sys.argv[1])) as book:
    try:
        for n in range(10_000):
            book.append("step", n=n, text="x" * 300)
    except RunFailed as error:
        print(n, error, "|", error.hint)
        try:
            book.append("step", n=n, text="x" * 300)
        except RunFailed:
            print("still full")
"""


def fill_up(folder: Path, *under: str) -> list[str]:
    done = subprocess.run(
        [*under, sys.executable, "-c", FILL_UP, folder], stdout=subprocess.PIPE, text=True, check=True, timeout=240
    )
    return done.stdout.splitlines()


def check_full(folder: Path, said: list[str], words: str) -> None:
    count = int(said[0].split()[0])
    assert words in said[0]
    assert "--resume" in said[0]
    assert said[1] == "still full"
    whole = (folder / journal.NAME).read_bytes()
    assert whole.endswith(b"\n")  # cut back to the last whole line, not left torn
    assert [json.loads(line)["n"] for line in whole.splitlines()] == list(range(count))


def test_file_that_may_not_grow_is_cut_back_to_its_last_whole_line(tmp_path: Path) -> None:
    check_full(tmp_path, fill_up(tmp_path, "prlimit", "--fsize=10000"), "largest size allowed")
    fill(tmp_path, 99)  # room again
    assert events(tmp_path)[-1] == 99


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_disk_is_cut_back_to_its_last_whole_line(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "fairlane-test", tmp_path], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode()}")
    try:
        check_full(tmp_path, fill_up(tmp_path), "disk is full")
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_value_that_is_no_json_leaves_no_trace(tmp_path: Path) -> None:
    with Journal(tmp_path) as book:
        book.append("step", n=1)
        with pytest.raises(ValueError, match="JSON"):
            book.append("step", n=float("nan"))
    assert events(tmp_path) == [1]
