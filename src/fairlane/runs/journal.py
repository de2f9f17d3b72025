"""The journal of a run: append-only JSON lines, one per finished step, each on disk before the next step begins.

A line counts once its newline is written. What follows the last newline is a torn line, left by a crash or a full
disk: readers pass over it, the next writer cuts it off. Any other unreadable line is damage and raises an error.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairlane.errors import FairlaneError
from fairlane.runs.files import storing, sync_folder, write_all, write_atomic

NAME = "journal.jsonl"

Event = Mapping[str, Any]
"""One line: ``type``, ``at`` (UTC), and the fields of the type."""


def now() -> str:
    """The current time (UTC, ISO 8601) as journal and run.json store it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read(folder: Path) -> tuple[Event, ...]:
    """The events of a run in order; none if it has no journal yet. Raises FairlaneError with file and line."""
    return tuple(stream(folder))


def stream(folder: Path) -> Iterator[Event]:
    """The same, one by one: the journal of a large import does not fit into memory as events."""
    path = folder / NAME
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return
    with file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield _event(path, number, line)


def write(folder: Path, events: Iterable[Event]) -> None:
    """Writes the whole journal of a run that is made at once (an import). Raises RunFailed (disk full)."""
    at = now()
    lines = (json.dumps({**event, "at": at}, allow_nan=False) + "\n" for event in events)
    with storing(folder / NAME):
        write_atomic(folder / NAME, "".join(lines).encode())


def _event(path: Path, number: int, line: bytes) -> Event:
    try:
        event = json.loads(line)
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise ValueError("not an event")
    except (ValueError, RecursionError) as error:
        raise FairlaneError(
            "journal-damaged",
            f"the journal is damaged: {error}",
            where=f"{path}:{number}",
            hint="restore the file from a copy, or start a new run; Fairlane does not guess lost data",
        ) from None
    return event


class Journal:
    """Writes the journal of one run; as a context manager it locks the run directory against other writers.

    Entering raises FairlaneError if another process is at work on the run or the journal is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME
        self.events: tuple[Event, ...] = ()
        """The events in the journal on entering."""
        self.torn = False
        """A torn line was cut off on entering."""
        self._lock = self._file = -1

    def __enter__(self) -> Self:
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FairlaneError(
                    "run-busy",
                    "another fairlane process is running this study",
                    where=str(self.folder),
                    hint="wait for it, or start another run with --out",
                ) from None
            self.events = read(self.folder)
            with storing(self.path):
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
                with self.path.open("rb") as lines:
                    self._end = sum(len(line) for line in lines if line.endswith(b"\n"))
                self.torn = os.fstat(self._file).st_size > self._end
                self._cut()
                sync_folder(self.folder)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def append(self, kind: str, **fields: Any) -> None:
        """Adds one event; on return it is on disk. Raises RunFailed (disk full): the journal then ends as before."""
        line = json.dumps({"type": kind, **fields, "at": now()}, allow_nan=False).encode() + b"\n"
        with storing(self.path):
            try:
                write_all(self._file, line)
                os.fsync(self._file)
            except BaseException:
                self._cut()
                raise
        self._end += len(line)

    def _cut(self) -> None:
        """Truncates the file after the last whole line."""
        os.ftruncate(self._file, self._end)
        os.lseek(self._file, self._end, os.SEEK_SET)
        os.fsync(self._file)

    def _release(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1
