"""Raw outputs of a trial: one archive per trial, with the same bytes for the same outputs."""

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.runs.files import storing, write_atomic

FOLDER = "raw"


class Damaged(FairlaneError):  # noqa: N818 - reads as what happened
    """A raw file is missing or differs from the journal's hash."""


def pack(outputs: Mapping[str, bytes], level: int = 6) -> bytes:
    """Outputs to a ``.tar.gz``: sorted, no times, no owners, so that equal outputs give equal bytes.

    ``level``: gzip's; 1 takes a quarter of the time for a tenth more bytes.
    """
    parts = []
    for name in sorted(outputs):
        member = tarfile.TarInfo(name)
        member.size = len(outputs[name])
        member.mode = 0o644
        parts += [member.tobuf(tarfile.PAX_FORMAT), outputs[name], bytes(-member.size % tarfile.BLOCKSIZE)]
    size = sum(map(len, parts)) + 2 * tarfile.BLOCKSIZE  # two empty blocks end an archive, whole records of 20 hold it
    parts.append(bytes(2 * tarfile.BLOCKSIZE + -size % tarfile.RECORDSIZE))
    return gzip.compress(b"".join(parts), compresslevel=level, mtime=0)


def unpack(data: bytes) -> dict[str, bytes]:
    """The reverse of ``pack``. Raises Damaged."""
    try:
        plain = gzip.decompress(data)
        ordinary = _ordinary(plain)
        if ordinary is not None:
            return ordinary
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            files = {m.name: archive.extractfile(m) for m in archive if m.isreg()}
            return {name: file.read() for name, file in files.items() if file}
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise Damaged("raw-damaged", f"the raw file cannot be unpacked: {error}") from None


def _ordinary(plain: bytes) -> dict[str, bytes] | None:
    """The files in an archive as ``pack`` makes it for short names, in a tenth of the time that tarfile takes: a run
    may have ten thousand. None: it has other members, and tarfile must read it. (POSIX.1-2001, ustar header.)
    """
    files: dict[str, bytes] = {}
    position = 0
    while header := plain[position : position + tarfile.BLOCKSIZE].rstrip(b"\0"):
        match = _HEADER.match(header)
        end = position + tarfile.BLOCKSIZE + (int(match["size"], 8) if match else 0)
        if match is None or len(header) > _PREFIX or end > len(plain):
            return None
        files[match["name"].decode()] = plain[position + tarfile.BLOCKSIZE : end]
        position = end + -end % tarfile.BLOCKSIZE
    return files


_PREFIX = 345
"""Offset in a header of the folder of a long name."""
_HEADER = re.compile(
    # name (100 bytes), mode, uid, gid (8 each), size and mtime in octal (12 each), checksum (8), ordinary file, no link
    rb"(?P<name>[!-~]{1,99})\0+(?<=\A.{100})[0-7]{7}\0[0-7]{7}\0[0-7]{7}\0(?P<size>[0-7]{11})\0[0-7]{11}\0.{8}0"
    rb"\0{100}ustar\x0000",
    re.DOTALL,
)


def store(folder: Path, trial: str, outputs: Mapping[str, bytes]) -> tuple[str, str]:
    """Writes the outputs of ``trial`` into run ``folder``; on return they are on disk.

    Returns file name and SHA-256 for the journal. Raises RunFailed (disk full).
    """
    name, data = f"{trial}.tar.gz", pack(outputs)
    with storing(folder / FOLDER):
        (folder / FOLDER).mkdir(exist_ok=True)
        write_atomic(folder / FOLDER / name, data)
    return name, hashlib.sha256(data).hexdigest()


def fetch(folder: Path, name: str, sha256: str) -> dict[str, bytes]:
    """The outputs in raw file ``name``. Raises Damaged if it is missing or its SHA-256 differs."""
    return unpack(_vouched(folder, name, sha256))


def whole(folder: Path, name: str, sha256: str) -> bool:
    """Whether raw file ``name`` is there and the one that was journaled."""
    try:
        _vouched(folder, name, sha256)
    except Damaged:
        return False
    return True


def _vouched(folder: Path, name: str, sha256: str) -> bytes:
    path = folder / FOLDER / name
    if Path(name).name != name:  # a forged journal must not lead out of the run directory
        raise Damaged("raw-damaged", f"{name!r} is not the name of a raw file", where=str(folder))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Damaged("raw-unreadable", f"the raw file cannot be read: {error.strerror}", where=str(path)) from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Damaged(
            "raw-changed",
            "the raw file has changed since it was written (its SHA-256 differs from the journal's)",
            where=str(path),
        )
    return data
