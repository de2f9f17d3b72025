"""Raw outputs of a trial: one archive per trial, with the same bytes for the same outputs."""

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.trial.files import storing, write_atomic

FOLDER = "raw"


class Damaged(FairlaneError):  # noqa: N818 - reads as what happened
    """A raw file is missing or not the one that the journal speaks of."""


def pack(outputs: Mapping[str, bytes], level: int = 6) -> bytes:
    """Outputs to a ``.tar.gz``: sorted, no times, no owners, so that equal outputs give equal bytes.

    ``level``: gzip's; 1 takes a quarter of the time for a tenth more bytes.
    """
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(outputs):
            member = tarfile.TarInfo(name)
            member.size = len(outputs[name])
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(outputs[name]))
    return gzip.compress(plain.getvalue(), compresslevel=level, mtime=0)


def unpack(data: bytes) -> dict[str, bytes]:
    """The reverse of ``pack``. Raises Damaged."""
    try:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data)), mode="r:") as archive:
            files = {m.name: archive.extractfile(m) for m in archive if m.isreg()}
            return {name: file.read() for name, file in files.items() if file}
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise Damaged(f"the raw file cannot be unpacked: {error}") from None


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
    """The outputs that the journal knows as ``name``. Raises Damaged if they are not there, or not those."""
    path = folder / FOLDER / name
    if Path(name).name != name:  # a journal made by others must not lead out of the run directory
        raise Damaged(f"{name!r} is not the name of a raw file", where=str(folder))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Damaged(f"the raw file cannot be read: {error.strerror}", where=str(path)) from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Damaged("the raw file is not the one that was journaled (its SHA-256 differs)", where=str(path))
    return unpack(data)
