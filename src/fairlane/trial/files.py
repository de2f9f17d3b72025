"""Writing files that survive a crash, and saying what to do when they cannot be written."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlane.errors import RunFailed

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file may not grow any further",
}


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turns an OSError of writing ``path`` into RunFailed: the run's own storage gave way, not the trial."""
    try:
        yield
    except OSError as error:
        reason = _FULL.get(error.errno or 0, error.strerror or str(error))
        raise RunFailed(
            f"cannot write: {reason}",
            where=str(path),
            hint="nothing measured so far is lost; make room, then continue with --resume",
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
    """Writes a file that is, after a crash, either the old one or the new one, whole. Raises OSError."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
