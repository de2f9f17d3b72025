"""Run an import: turn files of other tools into a run directory."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairlane import __version__
from fairlane.errors import FairlaneError, nearest
from fairlane.importers import _read as import_read
from fairlane.importers import _write
from fairlane.importers._map import ImportMap, MappedLane, importer
from fairlane.importers._place import Layout, lay_out, slug
from fairlane.importers._read import Job, LeftOut, Original, Trial, read_all
from fairlane.importers._walk import InputFile, natural, walk
from fairlane.importers.base import Importer
from fairlane.runs import plan
from fairlane.runs.files import storing, write_atomic

Progress = Callable[[int, int], None]
"""Called with the number of files done, and of all."""


def _silent(done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Summary:
    """The result of an import, or of its dry run."""

    layout: Layout
    baseline: str
    originals: tuple[Original, ...]
    """The files that were read, by name."""
    left_out: tuple[LeftOut, ...]
    """By name; with a reason: unreadable; without: no importer claims it."""
    folder: Path | None
    """The run directory; None: a dry run."""

    @property
    def unreadable(self) -> tuple[LeftOut, ...]:
        return tuple(gone for gone in self.left_out if gone.reason)


@dataclass
class _Reading:
    trials: list[tuple[int, Trial]] = field(default_factory=list)
    originals: list[Original] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def import_files(
    sources: Sequence[Path],
    out: Path | None,
    chosen: ImportMap | None = None,
    *,
    tool: str = "",
    lanes: Mapping[str, Sequence[str]] | None = None,
    baseline: str = "",
    name: str = "",
    originals: bool = True,
    processes: int = 2,
    progress: Progress = _silent,
) -> Summary:
    """Reads result files and writes the run directory ``out`` atomically; None: a dry run.

    ``chosen``: the import map; ``tool``, ``lanes`` (name -> patterns of files), ``baseline`` and ``name`` override it.
    An unreadable file is left out and journaled. Raises FairlaneError if none is readable, RunFailed (disk full).
    """
    for word in (name, *(lanes or {})):
        if word and slug(word) != word:
            raise FairlaneError(
                "name-invalid",
                f"{word!r} is no name: lower-case letters, digits and dashes, at most 31",
                hint=f"such as {slug(word)}" if slug(word) else "",
            )
    chosen = _with_lanes(chosen or ImportMap.model_validate({}), lanes or {})
    tool = tool or chosen.tool
    tools = import_read.tools(tool, lambda key: importer(key, chosen))
    files, passed = walk(sources)
    given = frozenset(file.name for file in files if tool and file.path in {s.resolve() for s in sources})
    left = [LeftOut((key,), reason, key, "passed-over") for key, reason in passed]
    if out is None:
        read = _read(files, Job(tools, None, certain=given), {}, processes, progress)
        layout = _layout(read, left, chosen, sources)
        return Summary(layout, _baseline(layout, baseline or chosen.baseline), *_in_order(read, left), None)
    with plan.beside(out, "name another folder with --out, or remove this one") as folder:
        job = Job(tools, folder, originals, given)
        read = _read(files, job, _kept(files) if originals else {}, processes, progress)
        layout = _layout(read, left, chosen, sources)
        chief = _baseline(layout, baseline or chosen.baseline)
        made = _write.plan_of(layout, chosen, name or chosen.name or slug(out.resolve().name) or "import", chief)
        kept, gone = _in_order(read, left)
        with storing(out):
            _write.move(folder, layout, made)
            plan.write(folder, made)
            _describe(folder, layout, tools)
        _write.write_journal(folder, _write.events(layout, made, kept, gone, chosen))
        os.sync()  # once for all: with a file per trial, fsync after each would be most of the time
    return Summary(layout, chief, kept, gone, out)


def _with_lanes(chosen: ImportMap, lanes: Mapping[str, Sequence[str]]) -> ImportMap:
    merged = dict(chosen.lanes)
    for name, patterns in lanes.items():
        merged[name] = merged.get(name, MappedLane.model_validate({})).model_copy(update={"files": tuple(patterns)})
    return chosen.model_copy(update={"lanes": merged})


def _read(
    files: Sequence[InputFile], job: Job, kept: Mapping[str, str], processes: int, progress: Progress
) -> _Reading:
    """Reads all files; a copy in the same folder is left out, or one trial would count as two."""
    outcomes = sorted(
        read_all(files, job, kept, processes, lambda done: progress(done, len(files))), key=lambda o: o.number
    )
    read, by_content = _Reading(), dict[tuple[str, ...], str]()
    for outcome in outcomes:
        if outcome.left_out:
            read.left_out.append(outcome.left_out)
            continue
        content = (outcome.trials[0].folder, *sorted(file.sha256 for file in outcome.originals))
        names = tuple(file.name for file in outcome.originals)
        if content in by_content:
            read.left_out.append(LeftOut(names, f"the same bytes as {by_content[content]}", names[0], "same-bytes"))
            _drop(outcome, job)
            continue
        by_content[content] = names[0]
        read.trials += [(outcome.number, trial) for trial in outcome.trials]
        read.originals += outcome.originals
    return read


def _drop(outcome: import_read.Outcome, job: Job) -> None:
    if job.folder:
        for trial in outcome.trials:
            (job.folder / "raw" / trial.archive).unlink()
        for file in outcome.originals:
            if file.kept:
                (job.folder / file.kept).unlink()


def _layout(read: _Reading, left: list[LeftOut], chosen: ImportMap, sources: Sequence[Path]) -> Layout:
    if not read.trials:
        where = ", ".join(map(str, sources))
        bad = [gone for gone in (*read.left_out, *left) if gone.reason]
        if bad:
            hint = "" if ":" in bad[0].where else "fairlane import --list: what is read"
            others = f" (and {len(bad) - 1} more that cannot be read)" if len(bad) > 1 else ""
            raise FairlaneError("files-left-out", bad[0].reason + others, where=bad[0].where, hint=hint)
        if read.left_out:
            raise FairlaneError(
                "files-unknown",
                f"none of {len(read.left_out)} files is one that an importer recognises",
                where=where,
                hint="fairlane import --list shows what is read; --tool names an importer",
            )
        raise FairlaneError("files-none", "no files", where=where)
    return lay_out([trial for _, trial in read.trials], chosen)


def _in_order(read: _Reading, left: Sequence[LeftOut]) -> tuple[tuple[Original, ...], tuple[LeftOut, ...]]:
    gone = sorted((*read.left_out, *left), key=lambda g: natural(g.files[0]))
    return tuple(sorted(read.originals, key=lambda f: natural(f.name))), tuple(gone)


def _baseline(layout: Layout, wanted: str) -> str:
    if not wanted:
        return next(iter(layout.lanes))
    if wanted in layout.lanes:
        return wanted
    for name, title in layout.lanes.items():
        if wanted == title:
            return name
    near = nearest(wanted, layout.lanes)
    hint = f"did you mean {near}?" if near else f"lanes: {', '.join(layout.lanes)}"
    raise FairlaneError("lane-unknown", f"the baseline {wanted!r} is not a lane", hint=hint)


def _kept(files: Sequence[InputFile]) -> dict[str, str]:
    """Name of a file -> path of its original in the run: the same tree, with portable, distinct names."""
    kept: dict[str, str] = {}
    taken: set[str] = set()
    for file in files:
        parts = ["".join(c if c.isalnum() or c in " ._+-=,@%" else "_" for c in p)[:120] for p in file.name.split("/")]
        path = "/".join(f"_{part.lstrip('.')}" if part.startswith(".") else part for part in parts)
        number = 1
        while (name := f"originals/{path}{f'~{number}' if number > 1 else ''}.gz").lower() in taken:
            number += 1
        taken.add(name.lower())
        kept[file.name] = name
    return kept


def _describe(folder: Path, layout: Layout, tools: Mapping[str, Importer]) -> None:
    used = sorted({place.trial.tool for place in layout.placed})
    for name, value in (
        ("description.json", {"platform": {"kind": "imported", **{t: tools[t].title for t in used}}, "lanes": {}}),
        ("fingerprint.json", {"fairlane": __version__, "imported": True}),
    ):
        write_atomic(folder / name, json.dumps(value, indent=2, sort_keys=True).encode() + b"\n")
