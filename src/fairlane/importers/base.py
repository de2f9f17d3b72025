"""The contract of an importer: it recognises a tool's files and turns them into records."""

import codecs
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Self

from pydantic import BaseModel

from fairlane.errors import FairlaneError
from fairlane.formats.record import Record

HEAD = 65536
"""Bytes of a file that ``claims`` may look at."""
LARGEST = 256 * 2**20
"""Most bytes of a file that is read as a whole."""
_PART = 2**18
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Unreadable(FairlaneError):  # noqa: N818 - reads as what happened
    """The file is of another kind, cut off, or has impossible values. ``where``: file or file:line.

    Such a file is reported and left out; it never ends an import of several.
    """


@dataclass(frozen=True)
class Source:
    """One file to import: its name for messages, and its bytes. All text of files comes from ``text``, ``head`` and
    ``read``, as UTF-8 without byte order mark: importers do not decode."""

    name: str
    """Path relative to what the user named, with forward slashes."""
    open: Callable[[], BinaryIO]
    """Its bytes as they are, to hash and to keep."""

    def text(self) -> BinaryIO:
        """Its bytes as UTF-8 without byte order mark, streamed: PowerShell redirects as UTF-16, others add a mark.
        What is no text comes as it is."""
        file = self.open()
        first = _peeked(file)
        if encoding := _UTF16.get(first[:2]):
            file.read(2)
            return io.BufferedReader(_Transcoded(file, encoding), _PART)
        if first == codecs.BOM_UTF8:
            file.read(3)
        return file

    def head(self) -> bytes:
        """The first ``HEAD`` bytes of its text."""
        with self.text() as file:
            return file.read(HEAD)

    def read(self, largest: int = LARGEST) -> bytes:
        """All of its text. Raises Unreadable if there is more than ``largest``."""
        parts: list[bytes] = []
        left = largest
        with self.text() as file:
            while part := file.read(min(_PART, left + 1)):  # read(n) takes n bytes of memory, whatever there is
                parts.append(part)
                left -= len(part)
                if left < 0:
                    raise Unreadable("too-large", f"larger than {largest >> 20} MiB", where=self.name)
        return b"".join(parts)


def _peeked(file: BinaryIO) -> bytes:
    """The first 3 bytes of a file, which stays at its beginning."""
    if isinstance(file, io.BufferedReader):
        return file.peek(3)[:3]
    first = file.read(3)
    file.seek(0)
    return first


class _Transcoded(io.RawIOBase):
    """The rest of ``file``, which is UTF-16, as UTF-8; what is no UTF-16 becomes U+FFFD. Closing it closes ``file``."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._file, self._ready = file, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        while not self._ready:
            data = self._file.read(2**14)
            self._ready = self._decoder.decode(data, final=not data).encode(errors="replace")
            if not data:
                break
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


class Importer(ABC):
    """Which files are a tool's, and the trials in them.

    ``PLUGIN`` of each file in this package is one instance."""

    title: ClassVar[str]
    """The files it reads, for lists: ``fio json and json+, 2.x to 3.x, client/server included``."""
    source: ClassVar[str] = ""
    """Where the format is documented: the tool's manual page or source file, in words."""
    explicit: ClassVar[bool] = False
    """Only used when the user names it (a generic table), never by looking at files."""

    Options: ClassVar[type[BaseModel] | None] = None
    """Model of the options under the importer's name in an import map; None: no options."""

    def __init__(self, options: Any = None) -> None:
        self.options = options

    def configured(self, options: Any) -> Self:
        """This importer with ``options``, an instance of ``Options``."""
        return type(self)(options)

    def again(self, files: Sequence[tuple[str, Callable[[], BinaryIO]]], options: str) -> Iterable[Record]:
        """The trials in files that were imported with ``options`` (JSON; empty: none): name and content of each."""
        plugin = self.configured(self.Options.model_validate_json(options)) if options and self.Options else self
        return plugin.read([Source(name, content) for name, content in files])

    @abstractmethod
    def claims(self, name: str, head: bytes) -> bool:
        """Whether a file with this name and beginning (``Source.head``) is one of the tool's. Raises nothing."""

    def group(self, name: str) -> str:
        """Name of the trial that this file belongs to; files of one group are read together. Default: by itself."""
        return name

    @abstractmethod
    def read(self, files: Sequence[Source]) -> Iterable[Record]:
        """The trials in one group of files, sorted by name. Pure; memory bounded by ``LARGEST`` and what a trial needs.

        Raises Unreadable, and nothing else, for any content.
        """
