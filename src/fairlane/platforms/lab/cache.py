"""The cache of images and saved states: outside the tree, shared by processes, bounded.

Each entry is a folder with a lock file beside it: held exclusively while the entry is made or removed, shared while a
run uses it.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import IO

from fairlane.errors import FairlaneError

_HALF_MADE = "build-"


def cache_dir() -> Path:
    """Where images and states are kept: FAIRLANE_CACHE, else XDG_CACHE_HOME/fairlane, else ~/.cache/fairlane."""
    if chosen := os.environ.get("FAIRLANE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlane"


def _lock_file(entry: Path) -> IO[str]:
    entry.parent.mkdir(parents=True, exist_ok=True)
    return Path(f"{entry}.lock").open("w", encoding="utf-8")


@asynccontextmanager
async def locked(entry: Path) -> AsyncIterator[None]:
    """Hold ``entry`` exclusively: two processes do not make the same thing. Waits so that Ctrl-C still works.

    Only for an entry that is missing: one that is in use is held by its users until they end."""
    with _lock_file(entry) as handle:
        while True:
            try:
                flock(handle, LOCK_EX | LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield


@contextmanager
def making(entry: Path) -> Iterator[Path]:
    """A scratch folder that becomes ``entry`` if all goes well, and is gone otherwise. Call it under ``locked``."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=entry.parent, prefix=_HALF_MADE))
    try:
        with use(scratch) as handle:
            yield scratch
            Path(handle.name).unlink()
        shutil.rmtree(entry, ignore_errors=True)
        scratch.rename(entry)
    except OSError as error:
        raise FairlaneError(
            f"cannot write to the lab's cache: {error.strerror or error}",
            where=str(entry.parent),
            hint="free some space there (`fairlane lab clean`), or set FAIRLANE_CACHE to a folder on another disk",
        ) from error
    finally:
        Path(f"{scratch}.lock").unlink(missing_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)


def use(entry: Path) -> IO[str]:
    """Mark ``entry`` as in use until the returned file is closed, and as the most recently used."""
    handle = _lock_file(entry)
    flock(handle, LOCK_SH)
    if entry.exists():
        os.utime(entry)
    return handle


def entries(kind: str) -> list[Path]:
    """The folders of ``kind`` (images, states), those a killed process left half-made included."""
    folder = cache_dir() / kind
    return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def size(entry: Path) -> int:
    """Bytes on disk."""
    return sum(p.stat().st_size for p in entry.rglob("*") if p.is_file())


def remove(entry: Path) -> bool:
    """Remove ``entry`` unless somebody uses it."""
    with _lock_file(entry) as handle:
        try:
            flock(handle, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(entry, ignore_errors=True)
        Path(handle.name).unlink(missing_ok=True)
    return True


def prune(kind: str, *, keep: int) -> None:
    """Remove all but the ``keep`` most recently used entries of ``kind``; what is in use stays."""
    for entry in sorted(entries(kind), key=lambda p: p.stat().st_mtime, reverse=True)[keep:]:
        remove(entry)
