"""Read the files of an import in parallel processes, and pack them at once, with the figures for the run's index.

Files go to packs in the order of their names, so that the packs are the same on any number of processes.
"""

import math
import multiprocessing
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.formats import record
from fairlane.formats.record import Record
from fairlane.importers._unread import named
from fairlane.importers._walk import InputFile
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Block, Cell, Figures
from fairlane.runs import index, units
from fairlane.runs.packs import Pack, measure

FEW = 64
"""Most files that are read in this process: starting others would take longer."""
BATCH = 250
"""Most files of a pack, which is one task of a process."""
_BYTES = 64 * 2**20
"""Bytes of a pack's files from which on it takes no more."""


@dataclass(frozen=True)
class Job:
    """Settings of an import: importers and output."""

    tools: Mapping[str, Importer]
    """Importers to choose from, configured."""
    folder: Path | None
    """Run directory in the making; None: nothing is written."""
    originals: bool = False
    """Keep the files."""
    certain: frozenset[str] = frozenset()
    """Names of files that the user named, with one tool for them: the importer need not recognise them."""
    records: frozenset[str] = frozenset()
    """Importers whose records are kept, because they cannot be read again as they were: the options do not come back as
    they are from JSON. All, if files are not kept."""


@dataclass(frozen=True)
class Trial:
    """One trial that was read: its record without figures, and the place of the record."""

    tool: str
    files: tuple[str, ...]
    folder: str
    """First folder of its files."""
    record: Record
    """Figures hold the names of metrics only, each with the value 0."""
    pack: str = ""
    """Pack in the run's ``raw`` that has its files, or its record; empty: nothing is written."""
    sha256: str = ""
    """SHA-256 of what it was read from, or of its record (``units.together``)."""
    number: int = 0
    """Which of the records in its files it is."""
    of: int = 1
    """Number of records in its files."""
    member: str = ""
    """Name of its record in the pack; empty: it is read from its files."""
    load: str = ""
    """``formats.record.load`` of the record."""


@dataclass(frozen=True)
class Original:
    """One file that was read."""

    name: str
    tool: str
    sha256: str
    """SHA-256 of the content, unpacked."""
    size: int
    """Bytes, unpacked."""
    pack: str = ""
    """The pack that has it; empty: it is not kept."""
    member: str = ""
    """Its name in the pack."""


@dataclass(frozen=True)
class LeftOut:
    """Files that gave no trial."""

    files: tuple[str, ...]
    reason: str
    """Empty: no importer recognises it."""
    where: str = ""
    """Place of the error: ``file`` or ``file:line``."""
    kind: str = ""
    """Kind of the error, or ``no-memory``, ``same-bytes``, ``passed-over``; empty without a reason."""


@dataclass(frozen=True)
class Group:
    """Files that one importer reads together; without a tool: not yet recognised."""

    number: int
    files: tuple[InputFile, ...]
    tool: str = ""
    kept: tuple[str, ...] = ()
    """Names of the files in a pack."""


@dataclass(frozen=True)
class Outcome:
    """The result of one group."""

    number: int
    trials: tuple[Trial, ...] = ()
    originals: tuple[Original, ...] = ()
    left_out: LeftOut | None = None
    claimed: Group | None = None
    """Set if the group is part of a larger one, which ``tool`` reads when all its files are known."""
    pieces: tuple[bytes, ...] = ()
    """Of each trial: its figures for the index."""

    @property
    def members(self) -> list[tuple[str, str]]:
        """(pack, member) of all that was packed."""
        both = [(file.pack, file.member) for file in self.originals] + [(t.pack, t.member) for t in self.trials]
        return [(pack, member) for pack, member in both if pack and member]


def read_all(
    files: Sequence[InputFile], job: Job, kept: Mapping[str, str], processes: int, progress: Callable[[int], None]
) -> Iterator[Outcome]:
    """The outcome of each group of files, in any order. ``kept``: file name -> its name in a pack.

    ``progress`` is called with the number of files done. Raises FairlaneError if a reading process dies.
    """
    done = 0
    parts: dict[tuple[str, str], list[Group]] = defaultdict(list)
    singles = [Group(n, (file,), kept=(kept.get(file.name, ""),)) for n, file in enumerate(files)]
    with _Pool(job, processes if len(files) > FEW else 0) as pool:
        for outcome in pool.map(singles):
            if outcome.claimed is None:
                done += 1
                progress(done)
                yield outcome
            else:
                part = outcome.claimed
                name = part.files[0].name
                parts[part.tool, job.tools[part.tool].group(name)].append(part)
        joined = sorted((_joined(group) for group in parts.values()), key=lambda group: group.number)
        lengths = {group.number: len(group.files) for group in joined}
        for outcome in pool.map(joined):
            done += lengths[outcome.number]
            progress(done)
            yield outcome


def _joined(parts: list[Group]) -> Group:
    parts = sorted(parts, key=lambda part: part.number)
    files = tuple(part.files[0] for part in parts)
    return replace(parts[0], files=files, kept=tuple(part.kept[0] for part in parts))


def _batches(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Groups whose files make a pack."""
    batch: list[Group] = []
    count = size = 0
    for group in groups:
        batch.append(group)
        count += len(group.files)
        for file in group.files:
            with suppress(OSError):
                size += file.path.stat().st_size
        if count >= BATCH or size >= _BYTES:
            yield batch
            batch, count, size = [], 0, 0
    if batch:
        yield batch


class _Pool:
    """Reads groups, in this process or in others; at most two batches per process are queued or running."""

    def __init__(self, job: Job, processes: int) -> None:
        self._job = job
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._packs = 0

    def __enter__(self) -> "_Pool":
        if self._processes:
            # Forked, so that importers are configured and loaded once; this process has no threads yet.
            context = multiprocessing.get_context("fork")
            self._pool = ProcessPoolExecutor(self._processes, context, _begin, (self._job,))
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def map(self, groups: Iterable[Group]) -> Iterator[Outcome]:
        waiting = self._numbered(groups)
        if self._pool is None:
            for number, batch in waiting:
                yield from _batch(batch, number, self._job)
            return
        under_way: set[Future[list[Outcome]]] = set()
        while True:
            while len(under_way) < 2 * self._processes and (task := next(waiting, None)):
                under_way.add(self._pool.submit(_work, *task))
            if not under_way:
                return
            finished, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in finished:
                try:
                    yield from future.result()
                except BrokenProcessPool:
                    raise FairlaneError(
                        "worker-killed",
                        "a process that read files was killed, most likely because memory ran out",
                        hint="import fewer files at once, or leave out the largest",
                    ) from None

    def _numbered(self, groups: Iterable[Group]) -> Iterator[tuple[int, list[Group]]]:
        for batch in _batches(groups):
            yield self._packs, batch
            self._packs += 1


_job: Job | None = None


def _begin(job: Job) -> None:
    global _job  # noqa: PLW0603 - a process of the pool has this one job
    _job = job


def _work(number: int, groups: Sequence[Group]) -> list[Outcome]:
    assert _job is not None  # noqa: S101 - _begin came first
    return _batch(groups, number, _job)


def _batch(groups: Sequence[Group], number: int, job: Job) -> list[Outcome]:
    known: dict[tuple[str, str], str] = {}
    if job.folder is None:
        return [_outcome(group, job, known, None) for group in groups]
    with Pack(job.folder, number) as pack:
        return [_outcome(group, job, known, pack) for group in groups]


def _outcome(group: Group, job: Job, known: dict[tuple[str, str], str], pack: Pack | None) -> Outcome:
    """Recognises and reads one group. Raises RunFailed (disk full)."""
    names = tuple(file.name for file in group.files)
    try:
        sources = [file.content for file in group.files]
        tool = group.tool or _recognised(sources[0], job, known)
        if not tool:
            return Outcome(group.number, left_out=LeftOut(names, ""))
        plugin = job.tools[tool]
        if not group.tool and type(plugin).group is not Importer.group:
            return Outcome(group.number, claimed=replace(group, tool=tool))
        return _read(group, sources, tool, job, pack)
    except Unreadable as error:
        return Outcome(group.number, left_out=LeftOut(names, error.message, error.where or names[0], error.kind))
    except MemoryError:
        return Outcome(group.number, left_out=LeftOut(names, "needs more memory than there is", names[0], "no-memory"))


def _recognised(file: Source, job: Job, known: dict[tuple[str, str], str]) -> str:
    """The importer that claims the file; empty: none. ``known``: folder and suffix -> importer, within a batch, tried
    first: asking all importers would take as long as reading the file."""
    if file.name in job.certain:
        return next(iter(job.tools))
    head = file.head()
    kind = posixpath.dirname(file.name), posixpath.splitext(file.name)[1]
    if kind in known and job.tools[known[kind]].claims(file.name, head):
        return known[kind]
    claiming = [name for name, plugin in job.tools.items() if plugin.claims(file.name, head)]
    if len(claiming) > 1:
        raise Unreadable("tool-ambiguous", f"looks like {' and '.join(claiming)}: say which with --tool")
    if claiming:
        known[kind] = claiming[0]
    return claiming[0] if claiming else named(head)


def _read(group: Group, sources: Sequence[Source], tool: str, job: Job, pack: Pack | None) -> Outcome:
    names = tuple(file.name for file in group.files)
    records: list[Record] = []  # without figures: a table may have a hundred thousand
    pieces: list[bytes] = []
    kept: list[bytes] = []
    for one in job.tools[tool].read(sources):
        _check(one, names[0])
        trial = record.completed(one)
        try:
            if pack:
                pieces.append(index.piece(units.observed(_NOWHERE, trial)))
            if pack and tool in job.records:
                kept.append(record.write(trial))
            elif not pack:
                record.write(trial)
        except ValueError as error:
            raise Unreadable("not-a-number", f"a figure is not a number: {error}", where=names[0]) from None
        records.append(_brief(trial))
    if not records:
        raise Unreadable("no-trial", "no trial in it")
    originals = _originals(group, sources, tool, pack if job.originals else None)
    common: dict[str, Any] = {"pack": pack.name, "of": len(records)} if pack else {}
    sha256 = units.together([(file.name, file.sha256) for file in originals])
    trials = []
    for number, brief in enumerate(records):
        own: dict[str, Any] = {"sha256": sha256, "number": number}
        if kept and pack:
            member = f"~records/{group.number:07d}.{number}.json"  # no file is called so: see _run._kept
            own = {"sha256": pack.add(member, BytesIO(kept[number]))[0], "member": member}
        trials.append(Trial(tool, names, group.files[0].folder, brief, load=record.load(brief), **common, **own))
    return Outcome(group.number, tuple(trials), originals, pieces=tuple(pieces))


def _check(trial: Record, where: str) -> None:
    """Raises Unreadable for params that are lists, or numbers that are none."""
    for name, value in trial.params.items():
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise Unreadable("not-a-number", f"{name} is {str(value)[:40]!r}", where=where)


_NOWHERE = units.Place("", Block(Cell("", "", "", {}), 0, ("",), 0), "")
"""A trial's place while it is not known: the index asks for the figures alone."""


def _brief(trial: Record) -> Record:
    return replace(trial, figures=_named(tuple(trial.figures.metrics)))


@cache
def _named(metrics: tuple[str, ...]) -> Figures:
    """Metrics without values, one for all trials that have the same: these wait in memory until the last file is
    read."""
    return Figures(dict.fromkeys(metrics, 0.0))


def _originals(group: Group, sources: Sequence[Source], tool: str, pack: Pack | None) -> tuple[Original, ...]:
    """Hashes the files, and packs them if they are kept."""
    originals = []
    for file, member in zip(sources, group.kept, strict=True):
        with file.open() as content:
            if pack:
                sha256, size = pack.add(member, content)
                originals.append(Original(file.name, tool, sha256, size, pack.name, member))
            else:
                originals.append(Original(file.name, tool, *measure(content)))
    return tuple(originals)


def tools(chosen: str, configured: Callable[[str], Importer]) -> dict[str, Importer]:
    """The importers to choose from: the one called ``chosen``, or all that recognise files by themselves."""
    if chosen:
        return {chosen: configured(chosen)}
    return {name: configured(name) for name, plugin in registry.every("importers") if not plugin.explicit}
