"""List the files of an import in name order, and open them so that every error is Unreadable."""

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from fairlane.errors import FairlaneError
from fairlane.importers.base import Source, Unreadable

SMALL = 2**20
"""Most bytes, unpacked, of a file that is read once and held in memory during its import."""
_PACKED = b"\x1f\x8b"
"""First bytes of a gzip file."""
UNPACKED = 4 * 2**30
"""Most bytes that a compressed file may unpack to."""


@dataclass(frozen=True)
class InputFile:
    """One file to import."""

    name: str
    """``Source.name``: path below the user's path, with forward slashes and without ``.gz``. Of several paths, each
    begins with its last part (or as many parts as make it unique)."""
    path: Path
    folder: str
    """First folder of ``name`` below those that all files have in common; of a file that lies in none, the folder above
    it, or the file that the user named."""

    @property
    def source(self) -> Source:
        return Source(self.name, partial(_open, self.path, self.name))

    @property
    def content(self) -> Source:
        """``source``, a small file in memory: it is recognised, read, hashed and stored. Raises Unreadable."""
        try:
            with self.path.open("rb", buffering=0) as file:
                data = file.read(min(os.fstat(file.fileno()).st_size, SMALL) + 1)  # read(n) sets n bytes aside
        except OSError:
            data = _PACKED  # the slower way raises the error
        if data.startswith(_PACKED):
            with self.source.open() as unpacked:
                data = unpacked.read(SMALL + 1)
        return Source(self.name, partial(io.BytesIO, data)) if len(data) <= SMALL else self.source


def walk(paths: Sequence[Path]) -> tuple[tuple[InputFile, ...], tuple[tuple[str, str], ...]]:
    """The files in and below ``paths`` in the order of their names (``run-2`` before ``run-10``), and skipped ones
    as (name, reason): symbolic links that lead out of their path, and objects that are neither file nor folder.

    Hidden files and folders are not looked at. Raises FairlaneError for a path that is not there or not readable.
    """
    by_path: dict[Path, InputFile] = {}
    passed: list[tuple[str, str]] = []
    taken: set[str] = set()
    heads = _heads(paths)
    for path, head in zip(paths, heads, strict=True):
        if not path.exists():
            raise FairlaneError("file-missing", "no such file or folder", where=str(path))
        top = path.resolve()
        for file in _files(top) if top.is_dir() else iter((top,)):
            below = "" if file == top else str(file)[len(str(top)) :].lstrip("/")
            name = _text("/".join(part for part in (head or ("" if below else top.name), below) if part))
            ordinary = _ordinary(file)  # of nearly all files, nothing else need be asked
            if not ordinary and (reason := _no_file(file, top)):
                passed.append((name, reason))
                continue
            # only a link is elsewhere: ``top`` is resolved, and no link to a folder is followed
            real = file if ordinary else file.resolve()
            if real in by_path:
                continue  # named twice
            plain = name.removesuffix(".gz")
            if plain in taken:
                plain = name  # both x and x.gz are there
            taken.add(plain)
            by_path[real] = InputFile(plain, real, _text(top.name) if below else _stem(plain))
    files = _with_folders(sorted(by_path.values(), key=lambda f: natural(f.name)))
    return tuple(files), tuple(sorted(passed))


def _with_folders(files: Sequence[InputFile]) -> Iterator[InputFile]:
    depth = shared_folders(file.name for file in files)
    for file in files:
        folders = file.name.split("/")[:-1]
        yield replace(file, folder=folders[min(depth, len(folders) - 1)]) if folders else file


def shared_folders(names: Iterable[str]) -> int:
    """How many leading folders all ``names`` have in common."""
    common: list[str] | None = None
    for name in names:
        folders = name.split("/")[:-1]
        if common is None:
            common = folders
        elif folders[: len(common)] != common:
            common = common[: next(n for n in range(len(common)) if folders[n : n + 1] != common[n : n + 1])]
    return len(common or ())


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A key that sorts numbers in names by value."""
    return tuple((0, int(p)) if p.isdecimal() and len(p) < 19 else (1, p) for p in re.split(r"(\d+)", name) if p)


def matches(pattern: str, name: str) -> bool:
    """Whether ``pattern`` names the file ``name`` or a folder above it; see ``MappedLane.files``."""
    steps = name.split("/")
    if "/" not in pattern:
        return any(_pattern(pattern).fullmatch(step) for step in steps)
    return any(_pattern(pattern.rstrip("/")).fullmatch("/".join(steps[:n])) for n in range(1, len(steps) + 1))


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile("".join(words.get(part) or re.escape(part) for part in parts), re.DOTALL)


def _heads(paths: Sequence[Path]) -> list[str]:
    """Prefixes of names: empty for one path; of several, as many last parts as make them distinct."""
    if len(paths) == 1:
        return [""]
    parts = [path.resolve().parts[1:] or ("root",) for path in paths]
    most = max(map(len, parts))
    for length in range(1, most + 1):
        heads = ["/".join(p[-length:]) for p in parts]
        if len(set(heads)) == len(set(parts)):
            return heads
    return ["/".join(p) for p in parts]


def _files(folder: Path) -> Iterator[Path]:
    """Every file in ``folder`` that is not hidden, and links to folders (not followed)."""

    def refuse(error: OSError) -> None:
        raise FairlaneError("unreadable", f"cannot be read: {error.strerror}", where=str(error.filename))

    for here, folders, files in os.walk(folder, onerror=refuse):
        links = [name for name in folders if (Path(here) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(here) / name for name in sorted(files + links) if not name.startswith("."))


def _ordinary(file: Path) -> bool:
    """Whether it is a file and no link to one."""
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:
        return False


def _no_file(file: Path, top: Path) -> str:
    """Why ``file`` is not opened; empty if it is an ordinary file, or a link to one."""
    if file.is_symlink():
        real = file.resolve()
        if not real.exists():
            return "a symbolic link to nothing"
        if file != top and not real.is_relative_to(top):
            return "a symbolic link that leads out of the folder"
    if file.is_dir():
        return "a symbolic link to a folder"
    return "" if file.is_file() else "not an ordinary file"


def _text(name: str) -> str:
    """The name as text: bytes that are not UTF-8 are replaced."""
    return os.fsencode(name).decode(errors="replace")


def _stem(name: str) -> str:
    return name.partition(".")[0] or name


def _open(path: Path, name: str) -> BinaryIO:
    try:
        file = path.open("rb")
        packed = file.peek(2)[:2] == _PACKED
    except OSError as error:
        raise Unreadable("unreadable", f"cannot be read: {error.strerror}", where=name) from None
    plain: BinaryIO = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
    return io.BufferedReader(_Reader(plain, file, name, UNPACKED if packed else None), 2**18)


class _Reader(io.RawIOBase):
    """Reads ``plain``; raises Unreadable for every error. Closing it closes ``file`` below."""

    def __init__(self, plain: BinaryIO, file: BinaryIO, name: str, most: int | None) -> None:
        self._plain, self._file, self._name, self._left = plain, file, name, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        try:
            data = self._plain.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            if isinstance(error, EOFError):
                raise Unreadable("cut-off", "the file is cut off", where=self._name) from None
            raise Unreadable("damaged", f"the file is damaged: {reason}", where=self._name) from None
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise Unreadable("too-large", f"unpacks to more than {UNPACKED >> 30} GiB", where=self._name)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()
