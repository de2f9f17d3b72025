"""The contract of an importer: it recognises a tool's files and turns them into records."""

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


class Unreadable(FairlaneError):  # noqa: N818 - reads as what happened
    """The file is of another kind, cut off, or has impossible values. ``where``: file or file:line.

    Such a file is reported and left out; it never ends an import of several.
    """


@dataclass(frozen=True)
class Source:
    """One file to import: its name for messages, and its bytes."""

    name: str
    """Path relative to what the user named, with forward slashes."""
    open: Callable[[], BinaryIO]

    def head(self) -> bytes:
        """The first ``HEAD`` bytes."""
        with self.open() as file:
            return file.read(HEAD)

    def read(self, largest: int = LARGEST) -> bytes:
        """All of it. Raises Unreadable if there is more than ``largest``."""
        parts: list[bytes] = []
        left = largest
        with self.open() as file:
            while part := file.read(min(_PART, left + 1)):  # read(n) takes n bytes of memory, whatever there is
                parts.append(part)
                left -= len(part)
                if left < 0:
                    raise Unreadable("too-large", f"larger than {largest >> 20} MiB", where=self.name)
        return b"".join(parts)


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

    @abstractmethod
    def claims(self, name: str, head: bytes) -> bool:
        """Whether a file with this name and beginning (up to ``HEAD`` bytes) is one of the tool's. Raises nothing."""

    def group(self, name: str) -> str:
        """Name of the trial that this file belongs to; files of one group are read together. Default: by itself."""
        return name

    @abstractmethod
    def read(self, files: Sequence[Source]) -> Iterable[Record]:
        """The trials in one group of files, sorted by name. Pure; memory bounded by ``LARGEST`` and what a trial needs.

        Raises Unreadable, and nothing else, for any content.
        """
