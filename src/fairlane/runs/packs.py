"""Packs: zip files in ``raw`` that hold the files of an import, a few hundred in each, instead of an archive per trial.

Any program that knows zip opens them. Without times and owners, so that equal files give equal bytes; the journal has
the SHA-256 of each pack, and of each file in it.
"""

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self

from fairlane.runs.files import storing
from fairlane.runs.raw import FOLDER, Damaged

SUFFIX = ".zip"
_NAME = re.compile(r"[0-9]{4,9}\.zip")
_LEVEL = 1
"""Of deflate: a third of the time of the usual 6, for a fifth more bytes. With isal (Intel's ISA-L, deflate like
zlib's) a quarter of that time, for a tenth fewer bytes."""
try:
    from isal import isal_zlib as deflate
except ImportError:  # no wheel for this machine
    import zlib as deflate  # type: ignore[no-redef]
_PART = 2**20
_HELD = 2**24
"""Most bytes of a file that is held in memory while it is read."""


class Pack:
    """Writes one pack; without a member it leaves no file. As a context manager. Raises RunFailed (disk full)."""

    def __init__(self, folder: Path, number: int) -> None:
        self.name = f"{number:04d}{SUFFIX}"
        self._path = folder / FOLDER / self.name
        self._zip: zipfile.ZipFile | None = None
        self._spoiled: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._zip is not None:
            with storing(self._path):
                self._zip.close()
            if self._spoiled:
                drop(self._path, self._spoiled)

    def add(self, member: str, content: BinaryIO) -> tuple[str, int]:
        """Stores one file under a name that is not yet taken. Returns SHA-256 and size. Raises what reading raises;
        the member is then left out."""
        with storing(self._path):
            if self._zip is None:
                self._zip = zipfile.ZipFile(self._path, "x", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)
            if isinstance(content, io.BytesIO):
                return _add_whole(self._zip, member, content.getvalue())
            # by its name: a member of 1980, with the level above
            target = self._zip.open(member, "w", force_zip64=True)
            # zipfile has no public way to choose the compressor
            target._compressor = deflate.compressobj(_LEVEL, deflate.DEFLATED, -15)  # type: ignore[attr-defined]
        try:
            return measure(content, partial(self._write, target))
        except BaseException:
            self._spoiled.append(member)
            raise
        finally:
            with storing(self._path):
                target.close()

    def _write(self, target: IO[bytes], data: bytes) -> None:
        with storing(self._path):
            target.write(data)


def _add_whole(archive: zipfile.ZipFile, member: str, data: bytes) -> tuple[str, int]:
    """Adds a file that is held in memory, as ``ZipFile.open`` would, in a third of the time: that begins with a header
    without sizes, and goes back to it."""
    info = zipfile.ZipInfo(member)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
    packed = deflate.compress(data, _LEVEL, -15)
    info.file_size, info.compress_size, info.CRC = len(data), len(packed), deflate.crc32(data)
    target = archive.fp
    assert target is not None  # noqa: S101 - it is open
    info.header_offset = archive.start_dir
    archive.start_dir += target.write(info.FileHeader(zip64=False) + packed)
    archive.filelist.append(info)
    archive.NameToInfo[member] = info
    archive._didModify = True  # type: ignore[attr-defined]
    return hashlib.sha256(data).hexdigest(), len(data)


def measure(content: BinaryIO, copy: Callable[[bytes], None] | None = None) -> tuple[str, int]:
    """SHA-256 and size of what can be read; ``copy`` is given all of it. Raises what reading raises."""
    digest, size = hashlib.sha256(), 0
    while data := content.read(_PART):
        digest.update(data)
        size += len(data)
        if copy:
            copy(data)
    return digest.hexdigest(), size


def drop(path: Path, members: Collection[str]) -> None:
    """Writes the pack anew without ``members``; one that has no others is removed. Raises RunFailed (disk full)."""
    new = path.with_suffix(".new")
    with storing(path):
        with (
            zipfile.ZipFile(path) as old,
            zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as kept,
        ):
            names = [name for name in old.namelist() if name not in members]
            for name in names:
                with old.open(name) as source, kept.open(name, "w") as target:
                    while data := source.read(_PART):
                        target.write(data)
        if names:
            new.replace(path)
        else:
            new.unlink()
            path.unlink()


def sha256(path: Path) -> str:
    """Of a whole file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path, packs: Mapping[str, str]) -> None:
    """Raises Damaged, with its path, for the first pack that is missing or whose SHA-256 is not the journal's."""
    for name, wanted in packs.items():
        path = folder / FOLDER / name
        if not _NAME.fullmatch(name):  # a forged journal must not lead out of the run directory
            raise Damaged("raw-damaged", f"{name[:80]!r} is not the name of a pack", where=str(folder))
        try:
            found = sha256(path)
        except OSError as error:
            raise Damaged("raw-unreadable", f"cannot be read: {error.strerror}", where=str(path), hint=_AGAIN) from None
        if found != wanted:
            raise Damaged(
                "raw-changed",
                "the pack has changed since it was written (its SHA-256 differs from the journal's)",
                where=str(path),
                hint=_AGAIN,
            )


_AGAIN = "restore the run directory from a copy, or import the files again"


class Reader:
    """Reads members of the packs of a run; keeps the last pack open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder
        self._zip: zipfile.ZipFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._zip is not None:
            self._zip.close()

    def content(self, pack: str, member: str, wanted: str) -> Callable[[], BinaryIO]:
        """Opens one file; a large one is not held in memory. Raises Damaged: missing, or its SHA-256 is not
        ``wanted``."""
        path = self._folder / FOLDER / pack
        if not _NAME.fullmatch(pack):
            raise Damaged("raw-damaged", f"{pack[:80]!r} is not the name of a pack", where=str(self._folder))
        try:
            archive = self._opened(path)
            if archive.getinfo(member).file_size <= _HELD:
                data = archive.read(member)
                found = hashlib.sha256(data).hexdigest()
                content: Callable[[], BinaryIO] = partial(io.BytesIO, data)
            else:
                digest = hashlib.sha256()
                with archive.open(member) as file:
                    while part := file.read(_PART):
                        digest.update(part)
                found = digest.hexdigest()
                content = partial(_reopened, archive, member)
        except OSError as error:
            raise Damaged("raw-unreadable", f"cannot be read: {error.strerror}", where=str(path), hint=_AGAIN) from None
        except (
            zipfile.BadZipFile,
            zlib.error,
            KeyError,
            ValueError,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise Damaged(
                "raw-damaged", f"{member[:80]!r} cannot be unpacked: {error}", where=str(path), hint=_AGAIN
            ) from None
        if found != wanted:
            raise Damaged(
                "raw-changed",
                f"{member} has changed since it was written (its SHA-256 differs from the journal's)",
                where=str(path),
                hint=_AGAIN,
            )
        return content

    def _opened(self, path: Path) -> zipfile.ZipFile:
        if self._zip is None or self._path != path:
            if self._zip is not None:
                self._zip.close()
                self._zip = None
            self._zip, self._path = zipfile.ZipFile(path), path
        return self._zip


def _reopened(archive: zipfile.ZipFile, member: str) -> BinaryIO:
    return io.BufferedReader(archive.open(member))  # type: ignore[type-var]
