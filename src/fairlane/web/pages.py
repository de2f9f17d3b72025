"""Reports made in memory: of one run, or of several side by side. Unchanged files give the cached page."""

import asyncio
import re
import shlex
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fairlane.checks.base import run_all
from fairlane.compare.comparison import compare
from fairlane.compare.findings import kind_of_figures
from fairlane.compare.mapping import ALIAS, RESERVED, by_name
from fairlane.compare.view import page
from fairlane.errors import FairlaneError
from fairlane.records import Observation
from fairlane.report import html, model
from fairlane.report.parts import Around
from fairlane.report.prose import INVENTED
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from fairlane.web import places
from fairlane.web.catalogue import Catalogue, Entry, freshness, sentences

_KEPT = 32 * 2**20
"""Bytes of pages in the cache."""
_WAITING = 16
"""Pages that may be in progress or queued."""
MOST = 8
"""Runs in one comparison."""


class Busy(FairlaneError):  # noqa: N818 - named after the event
    """Too many concurrent requests."""


class Pages:
    """Makes reports, one at a time, and keeps the newest. Used from one event loop."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._making: dict[tuple[Any, ...], asyncio.Future[bytes]] = {}
        self._maker = ThreadPoolExecutor(1, "report")  # one: a study may be running on this machine

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
        try:
            places.vet(entry.folder)
            evidence = load_run(entry.folder)
        except FairlaneError as error:
            if places.stamp(entry.folder / "run.json"):  # else it is gone, not damaged
                self._catalogue.remember(entry, error=error)
            raise
        findings = run_all(evidence)
        verdicts = judge(evidence, findings)
        self._catalogue.remember(entry, sentences(verdicts, entry.about.lanes))
        return html.render(model.build(evidence, verdicts, findings)).encode()


def _comparison(entries: Sequence[Entry]) -> bytes:
    runs = {}
    for entry, alias in zip(entries, _aliases(entries), strict=True):
        places.vet(entry.folder)
        runs[alias] = load_run(entry.folder), entry
    lanes = {alias: tuple(run.study.lanes) for alias, (run, _) in runs.items()}
    first, *_ = runs
    names = {name: lane.label or name for name, lane in runs[first][0].study.lanes.items()}
    comparison = compare({alias: run for alias, (run, _) in runs.items()}, by_name(lanes, first, names), {})

    def link(trial: Observation) -> str:
        alias, source = comparison.joined.trials[trial.trial]
        return f"runs/{runs[alias][1].name}/raw/{source}.tar.gz"

    arguments = " ".join(shlex.quote(f"{alias}={entry.folder}") for alias, (_, entry) in runs.items())
    around = Around(
        parts=page(comparison),
        banners=(INVENTED,) if any(kind_of_figures(r) == "invented" for r, _ in runs.values()) else (),
        commands=(f"fairlane compare {arguments} --out repeat",),
        source="From the same run directories:",
        link=link,
    )
    return html.render(model.build(comparison.evidence, comparison.verdicts, comparison.findings, around)).encode()


def _aliases(entries: Sequence[Entry]) -> list[str]:
    """A name for each run, valid as a lane's in a study file: the end of its path; numbered where two are equal."""
    aliases: list[str] = []
    for entry in entries:
        plain = re.sub(r"[^a-z0-9-]+", "-", entry.folder.name.lower()).strip("-")[:27].strip("-")
        alias = plain if ALIAS.fullmatch(plain) and plain not in RESERVED else f"run-{plain}".rstrip("-")
        taken = [alias, *(f"{alias}-{n}" for n in range(2, len(entries) + 2))]
        aliases.append(next(name for name in taken if name not in aliases))
    return aliases
