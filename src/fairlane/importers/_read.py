"""Read the files of an import in parallel processes, and write each trial's archive at once.

Lane, cell and block of a trial depend on all other trials, so the archive's first name is a number.
"""

import hashlib
import math
import multiprocessing
import posixpath
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.formats import record
from fairlane.formats.record import Record
from fairlane.importers._walk import InputFile
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.runs import raw
from fairlane.runs.files import storing

FEW = 64
"""Most files that are read in this process: starting others would take longer."""
BATCH = 16
"""Files per task of a process."""


@dataclass(frozen=True)
class Job:
    """Settings of an import: importers and output."""

    tools: Mapping[str, Importer]
    """Importers to choose from, configured."""
    folder: Path | None
    """Run directory in the making; None: nothing is written."""
    originals: bool = False
    """Keep the files, compressed."""
    certain: frozenset[str] = frozenset()
    """Names of files that the user named, with one tool for them: the importer need not recognise them."""


@dataclass(frozen=True)
class Trial:
    """One trial that was read: its record without figures, and the place of the record."""

    tool: str
    files: tuple[str, ...]
    folder: str
    """First folder of its files."""
    record: Record
    """Figures hold the names of metrics only (values too, but neither histograms nor context)."""
    archive: str = ""
    """Name of the file in the run's ``raw``."""
    sha256: str = ""
    """SHA-256 of the archive."""


@dataclass(frozen=True)
class Original:
    """One file that was read."""

    name: str
    tool: str
    sha256: str
    """SHA-256 of the content, unpacked."""
    size: int
    """Bytes, unpacked."""
    kept: str = ""
    """Path in the run directory."""


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
    """Stored paths of the files, relative to the run directory."""


@dataclass(frozen=True)
class Outcome:
    """The result of one group."""

    number: int
    trials: tuple[Trial, ...] = ()
    originals: tuple[Original, ...] = ()
    left_out: LeftOut | None = None
    claimed: Group | None = None
    """Set if the group is part of a larger one, which ``tool`` reads when all its files are known."""


def read_all(
    files: Sequence[InputFile], job: Job, kept: Mapping[str, str], processes: int, progress: Callable[[int], None]
) -> Iterator[Outcome]:
    """The outcome of each group of files, in any order. ``kept``: file name -> path of its original in the run.

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
        joined = [_joined(group) for group in parts.values()]
        for outcome in pool.map(joined):
            done += len(next(g for g in joined if g.number == outcome.number).files)
            progress(done)
            yield outcome


def _joined(parts: list[Group]) -> Group:
    parts = sorted(parts, key=lambda part: part.number)
    files = tuple(part.files[0] for part in parts)
    return replace(parts[0], files=files, kept=tuple(part.kept[0] for part in parts))


class _Pool:
    """Reads groups, in this process or in others; at most two batches per process are queued or running."""

    def __init__(self, job: Job, processes: int) -> None:
        self._job = job
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

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
        waiting = iter(groups)
        if self._pool is None:
            while batch := list(islice(waiting, BATCH)):
                yield from _batch(batch, self._job)
            return
        under_way: set[Future[list[Outcome]]] = set()
        while True:
            while len(under_way) < 2 * self._processes and (batch := list(islice(waiting, BATCH))):
                under_way.add(self._pool.submit(_work, batch))
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


_job: Job | None = None


def _begin(job: Job) -> None:
    global _job  # noqa: PLW0603 - a process of the pool has this one job
    _job = job


def _work(groups: Sequence[Group]) -> list[Outcome]:
    assert _job is not None  # noqa: S101 - _begin came first
    return _batch(groups, _job)


def _batch(groups: Sequence[Group], job: Job) -> list[Outcome]:
    known: dict[tuple[str, str], str] = {}
    return [_outcome(group, job, known) for group in groups]


def _outcome(group: Group, job: Job, known: dict[tuple[str, str], str]) -> Outcome:
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
        return _read(group, sources, tool, job)
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
    return claiming[0] if claiming else ""


def _read(group: Group, sources: Sequence[Source], tool: str, job: Job) -> Outcome:
    names = tuple(file.name for file in group.files)
    trials: list[Trial] = []
    try:
        for number, trial in enumerate(job.tools[tool].read(sources)):
            archive, sha256 = "", ""
            data = _checked(trial, names[0])
            if job.folder:
                archive = f"{group.number:07d}.{number}"
                packed = raw.pack({"record.json": data, "status": b"0\n"}, level=1)
                with storing(job.folder):
                    (job.folder / raw.FOLDER / archive).write_bytes(packed)
                sha256 = hashlib.sha256(packed).hexdigest()
            trials.append(Trial(tool, names, group.files[0].folder, _brief(trial), archive, sha256))
        if not trials:
            raise Unreadable("no-trial", "no trial in it")
        originals = tuple(_original(file, tool, kept, job) for file, kept in zip(sources, group.kept, strict=True))
    except BaseException:
        for written in trials:
            if job.folder:
                with suppress(OSError):
                    (job.folder / raw.FOLDER / written.archive).unlink()
        raise
    return Outcome(group.number, tuple(trials), originals)


def _checked(trial: Record, where: str) -> bytes:
    """The record as stored: its params and its day are conditions of the trial too, so that the guard compares lanes
    in them.

    Raises Unreadable for impossible values: figures that are no numbers, params that are lists.
    """
    for name, value in trial.params.items():
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise Unreadable("not-a-number", f"{name} is {str(value)[:40]!r}", where=where)
    figures = trial.figures
    conditions = {**_day(trial.started), **trial.params, **figures.context.get("conditions", {})}
    kept = replace(trial, figures=replace(figures, context={**figures.context, "conditions": conditions}))
    try:
        return record.write(kept)
    except ValueError as error:
        raise Unreadable("not-a-number", f"a figure is not a number: {error}", where=where) from None


def _day(started: float | None) -> dict[str, str]:
    """The condition ``date``: the guard refuses results more than a week apart."""
    if started is None:
        return {}
    try:
        return {"date": datetime.fromtimestamp(started, UTC).date().isoformat()}
    except (OverflowError, ValueError, OSError):
        return {}


def _brief(trial: Record) -> Record:
    return replace(trial, figures=replace(trial.figures, histograms={}, context={}, steps={}))


def _original(file: Source, tool: str, kept: str, job: Job) -> Original:
    """Hashes the file, and stores it compressed if requested."""
    digest, size = hashlib.sha256(), 0
    folder = job.folder if job.originals else None
    with ExitStack() as stack:
        content = stack.enter_context(file.open())
        out: BinaryIO | None = None
        if folder:
            stack.enter_context(storing(folder))
            (folder / kept).parent.mkdir(parents=True, exist_ok=True)
            out = stack.enter_context((folder / kept).open("xb"))
        packer = zlib.compressobj(level=1, wbits=31)  # 31: a gzip file, without name and time
        while data := content.read(2**20):
            digest.update(data)
            size += len(data)
            if out:
                out.write(packer.compress(data))
        if out:
            out.write(packer.flush())
    return Original(file.name, tool, digest.hexdigest(), size, kept if folder else "")


def tools(chosen: str, configured: Callable[[str], Importer]) -> dict[str, Importer]:
    """The importers to choose from: the one called ``chosen``, or all that recognise files by themselves."""
    if chosen:
        return {chosen: configured(chosen)}
    return {name: configured(name) for name, plugin in registry.every("importers") if not plugin.explicit}
