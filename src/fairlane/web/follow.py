"""Read a run while it is written: each line of the journal and each raw file once.

Nothing is read twice because the study may be running on this machine, and reading takes CPU time from it.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairlane.checks.base import run_all
from fairlane.errors import FairlaneError
from fairlane.records import Evidence, Finding, Observation
from fairlane.runs import journal, read
from fairlane.runs import plan as plans
from fairlane.runs.journal import Event
from fairlane.web import places
from fairlane.web.updates import Phase, State, Tracker, with_findings

_CHUNK = 4 * 2**20
"""Bytes of the journal read at a time."""
_LEAST = 5.0
"""Seconds between two runs of the checks, at least."""
_SHARE = 0.05
"""Share of the time that the checks may take."""


class Gone(FairlaneError):  # noqa: N818 - named after the event
    """The run's directory is not there any more."""


class Follower:
    """Follows the run in ``folder``. Raises FairlaneError if it is not a run, or is damaged; changes nothing.

    ``trusted``: the caller may read the targets of links in it. ``clock``: seconds, for the rate of the
    checks alone.
    """

    def __init__(self, folder: Path, *, trusted: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder.resolve() if trusted else folder
        self._trusted = trusted
        self._clock = clock
        if not trusted:
            places.vet(folder, raw=False)
        self.plan = plans.read(folder)
        self._forget()

    def _forget(self) -> None:
        self._tracker = Tracker(self.plan)
        self._at = 0
        self._file: tuple[int, int] | None = None
        self._looks: list[Event] = []
        self._others: list[Event] = []
        self._observations: dict[str, Observation] = {}
        self._damaged: dict[str, None] = {}
        self._findings: tuple[Finding, ...] | None = None
        self._unchecked = True
        self._next_check = 0.0

    def poll(self, *, check_now: bool = False) -> State:
        """Read new events and return the run's state. ``check_now``: run the checks however recent the last ones are.

        Raises FairlaneError with the place of the damage, or ``Gone``.
        """
        if new := self._new():
            self._unchecked = True
            self._take(new)
        phase = self._phase()
        state = self._tracker.state(phase)
        if self._unchecked and (check_now or state.phase == "complete" or self._clock() >= self._next_check):
            begun = self._clock()
            self._findings = run_all(self.evidence())
            ended = self._clock()
            self._next_check = ended + max(_LEAST, (ended - begun) / _SHARE)
            self._unchecked = False
        return state if self._findings is None else with_findings(state, self._findings, self.plan)

    def evidence(self) -> Evidence:
        """Evidence of what has been read so far, as from ``runs.read.load_run``."""
        observations, damaged = dict(self._observations), tuple(sorted(self._damaged))
        state = read.Done(observations, {}, damaged, self._tracker.opened, self._tracker.ended)
        return read.assemble(self.folder, self.plan, state, self._others)

    def _phase(self) -> Phase:
        stamp = places.stamp(self.folder / journal.NAME)
        age = time.time() - stamp[0] / 1e9 if stamp else 0.0
        return "running" if places.at_work(self.folder, places.held(), age) else "interrupted"

    def _take(self, new: Sequence[Event]) -> None:
        """Process all of ``new`` at once: looking up a block in a large schedule is slow."""
        if not self._trusted:
            for event in new:
                if event["type"] == "trial":
                    places.vet_raw(self.folder, str(event.get("raw", "")))
        done = self._done(new)
        for event in new:
            if event["type"] == "trial":
                trial = f"{event['cell']}.b{event['block']:03d}.{event['lane']}"
                observation = done.observations.get(trial)
                if observation is None:
                    self._observations.pop(trial, None)
                    self._damaged[trial] = None
                else:
                    self._observations[trial] = observation
                    self._damaged.pop(trial, None)
                self._tracker.add(event, trial, observation)
                continue
            if event["type"] == "look":
                self._looks.append(event)
            self._others.append(event)
            self._tracker.add(event)

    def _done(self, new: Sequence[Event]) -> read.Done:
        try:
            return read.done(self.folder, self.plan, [*self._looks, *new])
        except FairlaneError:
            read.done(self.folder, self.plan, journal.read(self.folder))  # the same error with the right line
            raise

    def _new(self) -> list[Event]:
        """Events of the complete lines added since; a last line without newline may still be being written."""
        events: list[Event] = []
        try:
            with places.open_plain(self.folder, journal.NAME) as file:
                status = os.fstat(file.fileno())
                if self._file not in (None, (status.st_dev, status.st_ino)) or status.st_size < self._at:
                    self._forget()  # it was restored from a copy
                self._file = status.st_dev, status.st_ino
                file.seek(self._at)
                rest = b""
                while chunk := file.read(_CHUNK):
                    *lines, rest = (rest + chunk).split(b"\n")
                    self._at += sum(len(line) + 1 for line in lines)
                    events += map(self._event, lines)
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
        return events

    def _event(self, line: bytes) -> Event:
        try:
            event: Any = json.loads(line)
            if not isinstance(event, dict) or not isinstance(event.get("type"), str):
                raise ValueError("not an event")
        except (ValueError, RecursionError):
            journal.read(self.folder)  # raises an error with the line
            raise FairlaneError(
                "journal-damaged", "the journal is damaged", where=str(self.folder / journal.NAME)
            ) from None
        return event
