"""The platform of a run, open for one provisioning at a time; its description is stored before the first trial on it.

A provisioning that is opened a second time (the run was killed within it) has other machines and volumes under the same
number: the journal records how many of its trials were done before (decision 0017).
"""

import json
import time
from collections.abc import Mapping
from typing import Any

from fairlane.machines.child import uninterrupted
from fairlane.platforms.base import Opened, Platform
from fairlane.runs.files import storing, write_atomic
from fairlane.runs.journal import Journal
from fairlane.runs.plan import identity
from fairlane.runs.read import DESCRIPTIONS, OPENINGS, read_json
from fairlane.trial.progress import Watch


class Openings:
    """Opens and closes the platform of a run. Call ``close`` at the end, whatever happened before."""

    def __init__(self, journal: Journal, platform: Platform, watch: Watch, workers: int) -> None:
        self.journal = journal
        self.platform = platform
        """The platform of the current provisioning; another object after each closing."""
        self.watch = watch
        self._several = platform.study.design.provisionings > 1
        self._workers = workers
        self._open: int | None = None
        self._closed = False
        self._count = sum(event["type"] in OPENINGS for event in journal.events)
        self._here = 0
        """Openings by this process."""
        self._rebuilds = 0

    async def open(self, provisioning: int, trials: int) -> None:
        """Opens ``provisioning`` unless it is open; closes another one first. ``trials``: how many of its trials are
        done. Raises RunFailed."""
        if self._open == provisioning:
            return
        if self._open is not None:
            await self.close()
        if self._closed:
            self.platform, self._closed, self._rebuilds = self.platform.anew(), False, 0
        if self._several:
            count = self.platform.study.design.provisionings
            self.watch.note(f"provisioning {provisioning + 1} of {count}: creating new machines and volumes")
        self.platform.run_id, self.platform.provisioning = identity(self.journal.folder), provisioning
        begun = time.monotonic()
        opened = await self.platform.open(self.watch.note)
        self._open = provisioning
        self._keep(opened, provisioning, trials, time.monotonic() - begun)

    async def close(self) -> None:
        """Closes the platform if that was not done since it was last opened; a cancellation waits for the end of it."""
        if self._closed:
            return
        self._closed, self._open = True, None
        await uninterrupted(self.platform.close())
        if self.platform.concluded:
            self.journal.append("concluded", outputs=dict(self.platform.concluded))

    def rebuilt(self) -> None:
        """Journals machines or volumes that the platform had to make again since they were opened."""
        for _ in range(self.platform.rebuilds - self._rebuilds):
            self.journal.append("rebuilt", provisioning=self._open or 0)
        self._rebuilds = self.platform.rebuilds

    def _keep(self, opened: Opened, provisioning: int, trials: int, seconds: float) -> None:
        folder = self.journal.folder
        fingerprint = json.loads(json.dumps(opened.fingerprint))  # as it will be read back: tuples are lists
        path = folder / "fingerprint.json"
        before = read_json(path) if path.exists() else None
        files: dict[str, Mapping[str, Any]] = {}
        if before is None:
            files = {"description.json": opened.description, "fingerprint.json": fingerprint}
        elif self._several:
            files = {f"{DESCRIPTIONS}/{self._count:03d}.json": opened.description}
        for name, value in files.items():
            with storing(folder / name):
                (folder / name).parent.mkdir(exist_ok=True)
                write_atomic(folder / name, json.dumps(value, indent=2, sort_keys=True).encode() + b"\n")
        changed = _changes(before, fingerprint) if before is not None else {}
        if self.platform.modelled:
            changed.pop("host", None)  # time on the virtual clock is instructions executed, the same on any host
        for key, (old, new) in changed.items():
            self.watch.note(f"{key} was {old} when the run began and is {new} now: figures may differ")
        self.journal.append(
            "provision" if self._here else "resume" if self._count else "start",
            fingerprint=fingerprint,
            modelled=self.platform.modelled,
            emulated=self.platform.emulated,
            workers=self._workers,
            seconds=round(seconds, 3),
            **({"changed": {key: list(pair) for key, pair in changed.items()}} if changed else {}),
            **({"torn": True} if self.journal.torn and not self._here else {}),
            **({"trials": trials} if trials else {}),
            **({"provisioning": provisioning, "description": next(iter(files))} if self._several else {}),
        )
        self._count += 1
        self._here += 1


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ: (before, after)."""
    keys = sorted(before.keys() | after.keys())
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}
