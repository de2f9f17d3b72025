"""Reports made in memory: of one run, or of several side by side. Unchanged files give the cached page.

Reading a run whole also yields what the list cannot know from small files: its critical findings, missing trials.
"""

import asyncio
import re
import shlex
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from fairlane.compare.comparison import Comparison, compare
from fairlane.compare.mapping import ALIAS, RESERVED, by_name
from fairlane.compare.view import page
from fairlane.errors import FairlaneError
from fairlane.records import Evidence, Observation
from fairlane.report import html, model
from fairlane.report.parts import Around
from fairlane.verdicts.judged import Judged, judged
from fairlane.web import history, places
from fairlane.web.catalogue import Catalogue, Entry, freshness
from fairlane.web.reading import load

_KEPT = 32 * 2**20
"""Bytes of pages in the cache."""
_WAITING = 16
"""Pages that may be in progress or queued."""
MOST = 8
"""Runs in one comparison."""
_LARGE = 2**20
"""Bytes of a journal from which on a run is not read for its badges alone: some 3,500 trials, 4 s."""


class Busy(FairlaneError):  # noqa: N818 - named after the event
    """Too many concurrent requests."""


class Pages:
    """Makes reports, one at a time, and keeps the newest. Used from one event loop."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._making: dict[tuple[Any, ...], asyncio.Future[bytes]] = {}
        self._maker = ThreadPoolExecutor(1, "report")  # one: a study may be running on this machine
        self._unchecked: dict[str, Entry] = {}
        self._checking: asyncio.Task[None] | None = None

    async def report(self, entry: Entry) -> bytes:
        """The bytes of ``report.html`` as ``fairlane report`` writes it. Raises FairlaneError."""
        return await self._page(freshness(entry), lambda: self._report(entry))

    async def comparison(self, entries: Sequence[Entry]) -> bytes:
        """The page of ``fairlane compare``; the first of ``entries`` is the baseline. Raises FairlaneError."""
        if len(entries) < 2:
            raise FairlaneError(
                "one-run", "one run alone cannot be compared", hint="select two runs or more in the list"
            )
        if len(entries) > MOST:
            raise FairlaneError(
                "too-many-runs", f"{len(entries)} runs are too many to read", hint=f"select {MOST} at most"
            )
        return await self._page(tuple(map(freshness, entries)), lambda: _comparison(entries))

    async def change(self, before: Entry, after: Entry) -> str:
        """HTML of the changes from one run to another. Raises FairlaneError."""
        key = ("change", freshness(before), freshness(after))
        return (await self._page(key, lambda: history.change(_compared((before, after))[0]).encode())).decode()

    def check(self, entries: Iterable[Entry]) -> None:
        """Read these runs whole, in the background, for the badges that only their checks yield; never while a study
        runs on this machine."""
        self._unchecked = {e.name: e for e in entries if _checkable(e)}
        if self._unchecked and (self._checking is None or self._checking.done()):
            self._checking = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        while self._unchecked:
            entries = await asyncio.to_thread(self._catalogue.entries)
            if any(entry.state == "running" for entry in entries.values()):
                self._unchecked = {}
                return
            if self._unchecked:
                entry = self._unchecked.pop(next(iter(self._unchecked)))
                with suppress(FairlaneError):  # the list shows it
                    await loop.run_in_executor(self._maker, self._learn, entry)

    async def close(self) -> None:
        """Ends its thread: the run that is being read is the last one."""
        self._unchecked = {}
        if self._checking:
            await self._checking
        self._maker.shutdown(wait=False, cancel_futures=True)

    async def _page(self, key: tuple[Any, ...], make: Callable[[], bytes]) -> bytes:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        task = self._making.get(key)
        if task is None:
            if len(self._making) >= _WAITING:
                raise Busy("viewer-busy", "too many reports are being made at this moment", hint="try again in a while")
            task = self._making[key] = asyncio.get_running_loop().run_in_executor(self._maker, make)
            task.add_done_callback(lambda done: self._keep(key, done))
        return await asyncio.shield(task)

    def _keep(self, key: tuple[Any, ...], done: "asyncio.Future[bytes]") -> None:
        del self._making[key]
        if done.cancelled() or done.exception():
            return
        self._kept[key] = done.result()
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > _KEPT:
            self._kept.popitem(last=False)

    def _report(self, entry: Entry) -> bytes:
        return html.render(model.build(*self._learn(entry))).encode()

    def _learn(self, entry: Entry) -> Judged:
        try:
            evidence = load(entry.folder)
        except FairlaneError as error:
            if places.stamp(entry.folder / "run.json"):  # else it is gone, not damaged
                self._catalogue.blame(entry, error)
            raise
        run = judged(evidence)
        self._catalogue.remember(entry, run.verdicts, run.findings, whole=evidence.complete)
        return run


def _checkable(entry: Entry) -> bool:
    size = entry.stamp[2][1] if entry.stamp[2] else 0
    return entry.critical is None and entry.state in ("complete", "interrupted") and 0 < size <= _LARGE


def _compared(entries: Sequence[Entry]) -> tuple[Comparison, dict[str, Entry], dict[str, Evidence]]:
    """The comparison; alias -> run; alias -> its evidence. The first of ``entries`` is the baseline. Raises
    FairlaneError."""
    runs = dict(zip(_aliases(entries), entries, strict=True))
    loaded = {alias: load(entry.folder) for alias, entry in runs.items()}
    lanes = {alias: tuple(run.study.lanes) for alias, run in loaded.items()}
    first, *_ = runs
    names = {name: lane.label or name for name, lane in loaded[first].study.lanes.items()}
    try:
        return compare(loaded, by_name(lanes, first, names), {}), runs, loaded
    except FairlaneError as error:
        if error.kind == "lanes-unpaired":
            error.hint = f"pair them in a file: fairlane compare {_arguments(runs)} --print-map > mapping.yaml"
        raise


def _arguments(runs: Mapping[str, Entry]) -> str:
    return " ".join(shlex.quote(f"{alias}={entry.folder}") for alias, entry in runs.items())


def _comparison(entries: Sequence[Entry]) -> bytes:
    comparison, runs, loaded = _compared(entries)

    def link(trial: Observation) -> str:
        alias, source = comparison.joined.trials[trial.trial]
        evidence, entry = loaded[alias], runs[alias]
        return f"runs/{entry.name}/{evidence.raw_file(source)}"

    around = Around(
        parts=page(comparison),
        invented=comparison.invented,
        commands=(f"fairlane compare {_arguments(runs)} --out repeat",),
        source="From the same run directories:",
        link=link,
    )
    return html.render(model.build(*comparison.judged, around)).encode()


def _aliases(entries: Sequence[Entry]) -> list[str]:
    """A name for each run, valid as a lane's in a study file: the end of its path; numbered where two are equal."""
    aliases: list[str] = []
    for entry in entries:
        plain = re.sub(r"[^a-z0-9-]+", "-", entry.folder.name.lower()).strip("-")[:27].strip("-")
        alias = plain if ALIAS.fullmatch(plain) and plain not in RESERVED else f"run-{plain}".rstrip("-")
        taken = [alias, *(f"{alias}-{n}" for n in range(2, len(entries) + 2))]
        aliases.append(next(name for name in taken if name not in aliases))
    return aliases
