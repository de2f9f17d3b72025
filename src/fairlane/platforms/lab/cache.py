"""The cache of images and saved states: outside the tree, shared by processes, bounded.

Each entry is a folder with a lock file beside it: held exclusively while the entry is made or removed, shared while a
run uses it. An entry appears and disappears at once, by renaming: a killed process leaves a folder with a name of its
own, which the next user of the cache removes. The kernel frees a killed process's locks.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import IO
from uuid import uuid4

from fairlane.errors import FairlaneError
from fairlane.runs.files import cache_dir

_HALF_MADE = "build-"

Hold = IO[str]
"""An entry is locked until this file is closed or the process ends."""


async def hold(
    entry: Path, last: str, make: Callable[[Path], Awaitable[None]], *, keep: int, again: bool = False
) -> Hold:
    """Locks ``entry`` against removal; builds it first if it is missing, or if ``again``.

    ``make`` gets an empty folder and writes the file ``last`` last: without it the entry counts as missing. ``keep``
    entries of its kind stay, the most recently used. If another process builds the entry, this one waits; waiting can
    be cancelled. Raises FairlaneError if the cache cannot be written, and the errors of ``make``.
    """
    with _explained(entry.parent):
        while True:
            if not again:
                lock = await _locked(entry, LOCK_SH)
                if (entry / last).exists():
                    break
                lock.close()
            with await _locked(entry, LOCK_EX):
                if again or not (entry / last).exists():
                    with making(entry) as scratch:
                        await make(scratch)
                    again = False
            # Between the two locks another process may have pruned it: then it is built again.
        os.utime(entry)
        prune(entry.parent.name, keep=keep)
    return lock


def _lock(entry: Path, how: int) -> Hold | None:
    """The lock on ``entry``, shared or exclusive; None if others hold it."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    path = Path(f"{entry}.lock")
    while True:
        handle = path.open("w", encoding="utf-8")
        try:
            flock(handle, how | LOCK_NB)
        except BlockingIOError:
            handle.close()
            return None
        # Removing an entry removes its lock file: a lock on a removed file excludes nobody.
        if _same(handle, path):
            return handle
        handle.close()


def _same(handle: Hold, path: Path) -> bool:
    """Whether ``path`` still names the open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    return False


async def _locked(entry: Path, how: int) -> Hold:
    """The lock on ``entry``; waits while others hold a conflicting one. Ctrl-C works meanwhile."""
    while not (handle := _lock(entry, how)):
        await asyncio.sleep(0.1)
    return handle


@contextmanager
def making(entry: Path) -> Iterator[Path]:
    """An empty folder that becomes ``entry`` on success and is removed on failure. Call with ``entry`` locked."""
    scratch = entry.parent / f"{_HALF_MADE}{uuid4().hex}"
    with _explained(entry.parent):
        lock = _lock(scratch, LOCK_EX)  # before the folder exists: an unlocked one would count as abandoned
        try:
            scratch.mkdir(mode=0o700)
            yield scratch
            _sync(scratch)
            _discard(entry)
            scratch.rename(entry)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            if lock:
                _unlock(lock)


def _sync(folder: Path) -> None:
    """Syncs the files of ``folder``, so that after a power cut its name implies complete contents."""
    for path in folder.iterdir():
        with path.open("rb") as handle:
            os.fsync(handle.fileno())


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turns an OSError of the cache into a FairlaneError with the fix."""
    try:
        yield
    except OSError as error:
        raise FairlaneError(
            "cache-unwritable",
            f"cannot write to the lab's cache: {error.strerror or error}",
            where=str(folder),
            hint="free some space there (`fairlane lab clean`), or set FAIRLANE_CACHE to a folder on another disk",
        ) from error


def entries(kind: str) -> list[Path]:
    """The folders of ``kind`` (images, states), including incomplete ones of killed processes."""
    folder = cache_dir() / kind
    return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def size(entry: Path) -> int:
    """Bytes on disk."""
    total = 0
    for folder, _, names in os.walk(entry):  # skips entries that other processes remove meanwhile
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_size
    return total


def remove(entry: Path) -> bool:
    """Removes ``entry`` unless it is in use; returns whether it did."""
    if not (lock := _lock(entry, LOCK_EX)):
        return False
    _discard(entry)
    _unlock(lock)
    return True


def _discard(entry: Path) -> None:
    """Removes a locked entry, its name first, so that a part never looks like a complete entry."""
    dead = entry.parent / f"{_HALF_MADE}{uuid4().hex}"
    with suppress(FileNotFoundError):
        entry.rename(dead)
    shutil.rmtree(dead, ignore_errors=True)


def _unlock(lock: Hold) -> None:
    """Releases a lock and removes its file, once the entry is removed."""
    Path(lock.name).unlink(missing_ok=True)
    lock.close()


def prune(kind: str, *, keep: int) -> None:
    """Removes leftovers of killed processes and all but the ``keep`` most recently used entries, except those in
    use."""

    def used(entry: Path) -> float:
        with suppress(FileNotFoundError):
            return entry.stat().st_mtime
        return 0.0  # gone meanwhile

    whole = [p for p in entries(kind) if not p.name.startswith(_HALF_MADE)]
    leftovers = [p for p in entries(kind) if p.name.startswith(_HALF_MADE)]
    for entry in leftovers + sorted(whole, key=used, reverse=True)[keep:]:
        remove(entry)
