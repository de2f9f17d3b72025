"""Safe access to run directories that others made: regular files only, never through a symbolic link.

A run directory can come from anywhere. A link in it could show any file that this process may read, and a FIFO would
keep it waiting for ever; so both are refused, wherever they lead.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from fairlane.errors import FairlaneError
from fairlane.runs import journal
from fairlane.runs.raw import FOLDER as RAW

FIXED = ("run.json", "study.yaml", "schedule.jsonl", journal.NAME, "description.json", "fingerprint.json")
"""Files of a run, beside its raw files."""
DERIVED = ("observations.jsonl", "verdicts.json", "report.md")
"""Files derived from a run."""
LARGEST = 4 * 2**20
"""Bytes of the largest small file that the list of runs reads."""
_DEEPEST = 3
"""Folders below the root in which runs are looked for."""


def held() -> frozenset[tuple[int, int, int]] | None:
    """Major, minor and inode of every file locked on this machine; None without ``/proc/locks``.

    Reading the kernel's list disturbs no process. Trying the lock, even for a moment, could refuse it to the run that
    takes it at that moment.
    """
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    locks = set()
    for line in lines:
        parts = line.split()
        if len(parts) > 5 and parts[1] == "FLOCK" and parts[3] == "WRITE":  # a waiting process has -> in parts[1]
            major, minor, inode = parts[5].split(":")
            locks.add((int(major, 16), int(minor, 16), int(inode)))
    return frozenset(locks)


_FRESH = 600.0
"""Seconds after its last event for which a run counts as running without ``/proc/locks``."""


def at_work(folder: Path, locks: frozenset[tuple[int, int, int]] | None, age: float) -> bool:
    """Whether a process of this machine executes the run in ``folder``; ``age``: seconds since its last event."""
    if locks is None:
        return age < _FRESH
    try:
        status = folder.stat()
    except OSError:
        return False
    place = os.major(status.st_dev), os.minor(status.st_dev)
    # btrfs and overlays report another device in stat than in /proc/locks: there only the inode is compared
    return any(i == status.st_ino and (not place[0] or place == (a, b)) for a, b, i in locks)


def runs_below(root: Path) -> Iterator[tuple[str, Path]]:
    """Name below ``root`` and folder of every run, in no order; hidden folders, links and runs are not entered."""
    waiting = [("", root, 0)]
    while waiting:
        above, folder, depth = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:  # folders that cannot be listed are skipped
            for entry in entries:
                if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                    continue
                name, path = f"{above}{entry.name}", Path(entry.path)
                if stamp(path / "run.json"):
                    yield name, path
                elif depth + 1 < _DEEPEST:
                    waiting.append((f"{name}/", path, depth + 1))


def stamp(path: Path) -> tuple[int, int] | None:
    """Modification time in ns and size of a regular file; None for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def vet(folder: Path, *, raw: bool = True) -> None:
    """Raises FairlaneError unless all files of a run are plain files in plain folders; missing ones are accepted.

    ``raw``: check its raw files too.
    """
    for name in FIXED:
        _plain(folder / name, stat.S_ISREG)
    _plain(folder / RAW, stat.S_ISDIR)
    if raw and (folder / RAW).is_dir():
        with os.scandir(folder / RAW) as entries:
            odd = next((e for e in entries if not e.is_file(follow_symlinks=False)), None)
        if odd:
            raise _refused(Path(odd.path))


def vet_raw(folder: Path, name: str) -> None:
    """``vet`` for one raw file; an empty name is accepted."""
    if Path(name).name:
        _plain(folder / RAW / Path(name).name, stat.S_ISREG)


def _plain(path: Path, kind: Callable[[int], bool]) -> None:
    with suppress(FileNotFoundError):
        if not kind(path.lstat().st_mode):
            raise _refused(path)


def _refused(path: Path) -> FairlaneError:
    return FairlaneError(
        "not-a-file",
        "not a plain file or folder; the viewer follows no links",
        where=str(path),
        hint="put the file itself in its place: everything of a run belongs in its directory",
    )


def open_plain(folder: Path, *parts: str) -> BinaryIO:
    """A regular file below ``folder``, for reading; no part of ``parts`` may be a link. Raises OSError."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for n, part in enumerate(parts, start=1):
            if part in ("", ".", "..") or "/" in part or "\0" in part:
                raise FileNotFoundError(part)
            # O_NONBLOCK: a FIFO opens at once, and is refused below
            kind = os.O_DIRECTORY if n < len(parts) else os.O_NONBLOCK
            below = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | kind, dir_fd=at)
            os.close(at)
            at = below
        if not stat.S_ISREG(os.fstat(at).st_mode):
            raise FileNotFoundError(parts[-1])
        return os.fdopen(at, "rb")
    except BaseException:
        os.close(at)
        raise
