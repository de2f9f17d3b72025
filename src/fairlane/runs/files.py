"""Write files that survive a crash; turn a failed write into an error with a remedy."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fairlane.errors import FairlaneError, RunFailed, unwritable

_KEPT = "no completed trial is lost"


def cache_dir() -> Path:
    """Folder of what can be made again (images, states, saved keys): FAIRLANE_CACHE, else XDG_CACHE_HOME/fairlane, else
    ~/.cache/fairlane."""
    if chosen := os.environ.get("FAIRLANE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlane"


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns an OSError of writing ``path`` into RunFailed: the run directory's disk failed, not the trial."""
    try:
        yield
    except OSError as error:
        reason, remedy = unwritable(error)
        then = f"{remedy}, then continue with --resume" if remedy else "continue with --resume"
        raise RunFailed("unwritable", f"cannot write: {reason}", where=str(path), hint=f"{_KEPT}; {then}") from error


@contextmanager
def creating(folder: Path) -> Iterator[None]:
    """Turns an OSError of making ``folder`` into FairlaneError: nothing has run yet."""
    try:
        yield
    except OSError as error:
        reason, remedy = unwritable(error)
        if error.errno == errno.ENOENT and folder.parent.is_dir():
            reason, remedy = f"{folder.parent} takes no new folders", ""
        hint = f"choose another --out, or {remedy}" if remedy else "choose another --out"
        raise FairlaneError(
            "unwritable", f"cannot create the run directory: {reason}", where=str(folder), hint=hint
        ) from error


def write_all(descriptor: int, data: bytes) -> None:
    """``os.write`` until everything is out: on a disk that fills up, the first call may write a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Makes the names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file that a reader sees whole, the old one or the new one; after a crash, too. Raises OSError.

    Several processes may write the same file (a report), one after the other: the last one wins. What a killed one
    leaves is written over by the next.
    """
    with replacing(path) as file:
        write_all(file.fileno(), data)
        os.fsync(file.fileno())
    file.close()
    sync_folder(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, to be written and read, that takes the name ``path`` at the end; after an error there is none. It
    stays open if the caller keeps it. Raises OSError."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = _locked(temporary)
        file = os.fdopen(descriptor, "w+b")
        try:
            os.truncate(descriptor, 0)
            yield file
            file.flush()
            temporary.replace(path)
        except BaseException:
            file.close()
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the name that the reader knows
        raise


def _locked(path: Path) -> int:
    """A descriptor of the file at ``path``, made if need be, which no other process writes. Raises OSError."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)  # the process that held it has given the file its name
