"""Read a run's journal as a stream and each raw file once, so that memory does not grow with the journal.

The journal may be as long as others made it: it is read in pieces, and trials that were done again count once.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairlane.errors import FairlaneError
from fairlane.records import Evidence, Observation
from fairlane.runs import index, journal, read
from fairlane.runs import plan as plans
from fairlane.runs.journal import Event
from fairlane.web import places

_PIECE = 2**20
"""Bytes of the journal read at a time."""
_LONGEST = 16 * 2**20
"""Bytes of the longest line that is read."""
_MOST = 50_000
"""Events beside trials that are kept: a study of a year has some hundreds."""


class Gone(FairlaneError):  # noqa: N818 - named after the event
    """The run's directory is not there any more."""


Taken = tuple[Event, str, Observation | None]
"""An event; of a trial also its id, and its figures: None if its raw file is damaged."""


class Reader:
    """Reads the run in ``folder``, and later what was added. Changes nothing.

    ``trusted``: the caller may read the targets of links in it. Raises FairlaneError if it is not a run.
    """

    def __init__(self, folder: Path, *, trusted: bool = False) -> None:
        self.folder = folder.resolve() if trusted else folder
        self._trusted = trusted
        if not trusted:
            places.vet(folder, raw=False)
        self.plan = plans.read(folder)
        self.replaced = 0
        """How often the journal was replaced by another, which is then read from its beginning."""
        self._begin()

    def _begin(self) -> None:
        self._at = self._lines = 0
        self._file: tuple[int, int] | None = None
        self._looks: list[Event] = []
        self._others: list[Event] = []
        self._observations: dict[str, Observation] = {}
        self._files: dict[str, tuple[str, str]] = {}
        """Trial -> its raw file, of those read and undamaged: a line that says the same again is passed over."""
        self._damaged: dict[str, None] = {}
        self._ended = False
        self._kept = self._index()

    def _index(self) -> index.Index | None:
        """The figures that a command kept of the run, when it had ended."""
        try:
            file = places.open_plain(self.folder, index.NAME)
        except OSError:
            return None
        found = index.opened(file, index.binding(self.folder))
        if found is None:
            file.close()
        return found

    def news(self) -> Iterator[list[Taken]]:
        """What was added since, in pieces. Raises FairlaneError with the place of the damage, or ``Gone``."""
        for events in self._pieces():
            yield self._take(events)
            self._lines += len(events)

    def evidence(self) -> Evidence:
        """Evidence of what has been read so far, as from ``runs.read.load_run``."""
        observations, damaged = dict(self._observations), tuple(sorted(self._damaged))
        opened = tuple(frozenset(event["open"]) for event in self._looks)
        keys = {trial: repr((o.cell, o.block, o.lane)) for trial, o in observations.items()}
        files = {trial: self._files[key] for trial, key in keys.items()}
        state = read.Done(observations, files, damaged, opened, self._ended, tuple(self._others))
        return read.assemble(self.folder, self.plan, state)

    def _take(self, events: Sequence[Event]) -> list[Taken]:
        """Process all of ``events`` at once: looking up a block in a large schedule is slow."""
        known = {
            n
            for n, event in enumerate(events)
            if event["type"] == "trial" and self._files.get(_key(event)) == _file(event)
        }
        # a trial done again has a later line: that one counts
        last: dict[str, int] = {}
        for n, event in enumerate(events):
            if event["type"] == "trial":
                last[_key(event)] = n
            for unjudged in _unjudged(event):
                last.pop(_key(unjudged), None)
        counting = set(last.values()) - known
        if not self._trusted:
            for n in counting:
                places.vet_raw(self.folder, str(events[n].get("raw", "")))
        done = self._done(events, [n for n in range(len(events)) if n not in known])
        taken: list[Taken] = []
        for n, event in enumerate(events):
            if event["type"] != "trial":
                for unjudged in _unjudged(event):
                    self._files.pop(_key(unjudged), None)
                    self._observations.pop(_trial(unjudged), None)
                    self._damaged.pop(_trial(unjudged), None)
                self._keep(event)
                taken.append((event, "", None))
            elif n in counting:
                trial = _trial(event)
                observation = done.observations.get(trial)
                if observation is None:
                    self._files.pop(_key(event), None)
                    self._observations.pop(trial, None)
                    self._damaged[trial] = None
                else:
                    self._files[_key(event)] = _file(event)
                    self._observations[trial] = observation
                    self._damaged.pop(trial, None)
                taken.append((event, trial, observation))
        return taken

    def _keep(self, event: Event) -> None:
        if len(self._others) >= _MOST:
            raise FairlaneError(
                "too-large",
                f"the journal has more than {_MOST:,} events beside its trials",
                where=str(self.folder / journal.NAME),
                hint="look into the file: something writes the same event over and over",
            )
        if event["type"] == "look":
            self._looks.append(event)
        self._ended = self._ended or event["type"] == "end"
        self._others.append(event)

    def _done(self, events: Sequence[Event], new: Sequence[int]) -> read.Done:
        """Evaluates those of ``events`` whose indices are ``new``. Raises FairlaneError with file and line."""
        try:
            given = [*self._looks, *(events[n] for n in new)]
            return read.done(self.folder, self.plan, given, kept=self._kept)
        except FairlaneError as error:
            file, _, number = error.where.rpartition(":")
            if error.kind == "journal-damaged" and number.isdigit():  # counted from the first event given to it
                error.where = f"{file}:{self._lines + new[int(number) - len(self._looks) - 1] + 1}"
            raise

    def _pieces(self) -> Iterator[list[Event]]:
        """Events of the complete lines added since; a last line without newline may still be being written."""
        try:
            with places.open_plain(self.folder, journal.NAME) as file:
                status = os.fstat(file.fileno())
                if self._file not in (None, (status.st_dev, status.st_ino)) or status.st_size < self._at:
                    self._begin()  # it was restored from a copy
                    self.replaced += 1
                self._file = status.st_dev, status.st_ino
                file.seek(self._at)
                rest = b""
                while chunk := file.read(_PIECE):
                    *lines, rest = (rest + chunk).split(b"\n")
                    if len(rest) > _LONGEST:
                        raise self._damage(len(lines), f"a line of more than {_LONGEST // 2**20} MiB")
                    self._at += sum(len(line) + 1 for line in lines)
                    if lines:
                        yield [self._event(line, n) for n, line in enumerate(lines)]
        except OSError as error:
            if not plans.is_run(self.folder) or self._at:
                raise Gone(
                    "run-gone",
                    "the run is not there any more",
                    where=str(self.folder),
                    hint="it was moved or deleted meanwhile",
                ) from None
            if not isinstance(error, FileNotFoundError):
                raise FairlaneError(
                    "unreadable", f"cannot be read: {error.strerror}", where=str(self.folder / journal.NAME)
                ) from None

    def _event(self, line: bytes, number: int) -> Event:
        try:
            return parse(line)
        except (ValueError, RecursionError) as error:
            raise self._damage(number, str(error)) from None

    def _damage(self, number: int, reason: str) -> FairlaneError:
        """``number``: of the line, counted from the first one of the piece."""
        return _damaged(self.folder, self._lines + number + 1, reason)


def _key(event: Event) -> str:
    """The trial of an event that may be anything."""
    return repr((event.get("cell"), event.get("block"), event.get("lane")))


def _trial(event: Event) -> str:
    """The id of the trial of an event that fits the plan."""
    return f"{event['cell']}.b{event['block']:03d}.{event['lane']}"


def _unjudged(event: Event) -> list[Event]:
    """The trials that an event takes from those that are judged; it may be anything."""
    lanes = event.get("unjudged") if event["type"] == "retry" else ()
    return [{**event, "lane": lane} for lane in lanes] if isinstance(lanes, list) else []


def _file(event: Event) -> tuple[str, str]:
    return str(event.get("raw")), str(event.get("sha256"))


def parse(line: bytes) -> Event:
    """One line of a journal. Raises ValueError or RecursionError."""
    event: Any = json.loads(line)
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise ValueError("not an event")
    return event


def first_damage(folder: Path) -> FairlaneError:
    """The error of the first line that ``parse`` refuses. Raises OSError."""
    number, reason = 0, "changed while it was read"
    with places.open_plain(folder, journal.NAME) as file:
        while line := file.readline(_LONGEST):
            number += 1
            try:
                parse(line)
            except (ValueError, RecursionError) as error:
                reason = str(error)
                break
    return _damaged(folder, number, reason)


def _damaged(folder: Path, line: int, reason: str) -> FairlaneError:
    """In the words of ``runs.journal``."""
    return FairlaneError(
        "journal-damaged",
        f"the journal is damaged: {reason}",
        where=f"{folder / journal.NAME}:{line}",
        hint="restore the file from a copy, or start a new run; Fairlane does not guess lost data",
    )


def load(folder: Path) -> Evidence:
    """The evidence of a run of anybody's, as from ``runs.read.load_run``; links in it are refused. Raises
    FairlaneError."""
    places.vet(folder)
    reader = Reader(folder)
    for _ in reader.news():
        pass
    return reader.evidence()
