"""Read the frames (named archives) that a guest sends over its serial port. Pure; a stream may be cut anywhere."""

import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlane.errors import RunFailed

_HEADER = re.compile(rb"\n@@FAIRLANE (\S{1,200}) (\d{1,10}) ([0-9a-f]{64})\n")


@dataclass
class Frames:
    """An incremental reader: ``feed`` takes bytes and returns the frames that are now complete."""

    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[tuple[str, dict[str, bytes]]]:
        """Frames that ``data`` completes: (name, file name -> content); marks have no files. Raises RunFailed."""
        self._buffer += data
        out = []
        while header := _HEADER.search(self._buffer):
            size = int(header[2])
            body = bytes(self._buffer[header.end() : header.end() + size])
            if len(body) < size:
                break
            name = header[1].decode()
            if hashlib.sha256(body).hexdigest().encode() != header[3]:
                raise RunFailed("result-damaged", f"the guest's result {name!r} arrived damaged")
            out.append((name, unpack(body, name) if size else {}))
            del self._buffer[: header.end() + size]
        return out


def unpack(body: bytes, name: str) -> dict[str, bytes]:
    """The regular files of a gzipped tar. Raises RunFailed if ``body`` cannot be read."""
    try:
        with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as tar:
            files = {m.name.removeprefix("./"): tar.extractfile(m) for m in tar if m.isfile()}
            return {path: handle.read() for path, handle in files.items() if handle}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise RunFailed("result-damaged", f"the guest's result {name!r} cannot be read: {error}") from error


def text(files: Mapping[str, bytes], name: str) -> str:
    """A file as text, empty if it is missing."""
    return files.get(name, b"").decode(errors="replace")
