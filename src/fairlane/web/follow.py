"""Follow a run while it is written: each line of the journal and each raw file is read once.

Nothing is read twice because the study may be running on this machine, and reading takes CPU time from it.
"""

import time
from collections.abc import Callable
from pathlib import Path

from fairlane.checks.base import run_all
from fairlane.records import Evidence, Finding
from fairlane.runs import journal
from fairlane.web import places
from fairlane.web.reading import Reader
from fairlane.web.updates import Phase, State, Tracker, with_findings

_LEAST = 5.0
"""Seconds between two runs of the checks, at least."""
_SHARE = 0.05
"""Share of the time that the checks may take."""


class Follower:
    """Follows the run in ``folder``. Raises FairlaneError if it is not a run, or is damaged; changes nothing.

    ``trusted``: the caller may read the targets of links in it. ``clock``: seconds, for the rate of the
    checks alone.
    """

    def __init__(self, folder: Path, *, trusted: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = Reader(folder, trusted=trusted)
        self.folder, self.plan = self._reader.folder, self._reader.plan
        self._clock = clock
        self._begin()

    def _follow(self) -> None:
        if self._reader.replaced != self._replaced:
            self._begin()

    def _begin(self) -> None:
        self._replaced = self._reader.replaced
        self._tracker = Tracker(self.plan)
        self._findings: tuple[Finding, ...] | None = None
        self._unchecked = True
        self._next_check = 0.0

    def poll(self, *, check_now: bool = False) -> State:
        """Read new events and return the run's state. ``check_now``: run the checks however recent the last ones are.

        Raises FairlaneError with the place of the damage, or ``Gone``.
        """
        for events in self._reader.news():
            self._follow()
            self._unchecked = True
            for event, trial, observation in events:
                self._tracker.add(event, trial, observation)
        self._follow()
        state = self._tracker.state(self._phase())
        if self._unchecked and (check_now or state.phase == "complete" or self._clock() >= self._next_check):
            begun = self._clock()
            self._findings = run_all(self.evidence())
            ended = self._clock()
            self._next_check = ended + max(_LEAST, (ended - begun) / _SHARE)
            self._unchecked = False
        return state if self._findings is None else with_findings(state, self._findings, self.plan)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of the last checks; none before these have run."""
        return self._findings or ()

    def evidence(self) -> Evidence:
        """Evidence of what has been read so far, as from ``runs.read.load_run``."""
        return self._reader.evidence()

    def _phase(self) -> Phase:
        stamp = places.stamp(self.folder / journal.NAME)
        age = time.time() - stamp[0] / 1e9 if stamp else 0.0
        return "running" if places.at_work(self.folder, places.held(), age) else "interrupted"
