"""Run an import: turn files of other tools into a run directory."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairlane import __version__
from fairlane.errors import FairlaneError, nearest
from fairlane.importers import _read as import_read
from fairlane.importers import _write
from fairlane.importers._map import ImportMap, MappedLane, importer
from fairlane.importers._place import Layout, lay_out, slug
from fairlane.importers._read import Job, LeftOut, Original, Trial, read_all
from fairlane.importers._walk import InputFile, natural, walk
from fairlane.importers.base import Importer
from fairlane.runs import index, packs, plan
from fairlane.runs.files import replacing, storing, write_atomic
from fairlane.runs.raw import FOLDER

Progress = Callable[[int, int], None]
"""Called with the number of files done, and of all."""


Agree = Callable[[Layout], None]
"""Called with the places of all trials before anything is final; raises FairlaneError to stop the import."""


def _silent(done: int, total: int) -> None:
    pass


def _agreed(layout: Layout) -> None:
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
    trials: list[Trial] = field(default_factory=list)
    originals: list[Original] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    pieces: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """First file and number of a trial -> place of its figures in the index."""
    dropped: list[tuple[str, str]] = field(default_factory=list)
    """(pack, member) of what is left out after it was packed."""


def import_files(
    sources: Sequence[Path],
    out: Path | None,
    chosen: ImportMap | None = None,
    *,
    tool: str = "",
    lanes: Mapping[str, Sequence[str]] | None = None,
    by: Sequence[str] = (),
    baseline: str = "",
    name: str = "",
    originals: bool = True,
    processes: int = 2,
    progress: Progress = _silent,
    agree: Agree = _agreed,
) -> Summary:
    """Reads result files and writes the run directory ``out`` atomically; None: a dry run.

    ``chosen``: the import map; ``tool``, ``lanes`` (name -> patterns of files), ``baseline`` and ``name`` override it.
    ``by``: what tells the other lanes apart, see ``propose``.
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
        read = _read(files, Job(tools, None, certain=given), {}, processes=processes, progress=progress)
        layout = _layout(read, left, chosen, sources, by)
        agree(layout)
        return Summary(layout, _baseline(layout, baseline or chosen.baseline), *_in_order(read, left), None)
    with plan.beside(out, "name another folder with --out, or remove this one") as folder:
        readers, lossy = _options(tools)
        job = Job(tools, folder, originals, given, lossy if originals else frozenset(tools))
        with storing(out), replacing(folder / index.NAME) as file:
            figures = index.Writer(file)
            names = _kept(files) if originals else {}
            read = _read(files, job, names, processes=processes, progress=progress, figures=figures)
            layout = _layout(read, left, chosen, sources, by)
            agree(layout)
            if layout.proposal and layout.proposal.vary:  # by which the lanes were told apart
                chosen = chosen.model_copy(update={"vary": tuple(dict.fromkeys((*chosen.vary, *layout.proposal.vary)))})
            chief = _baseline(layout, baseline or chosen.baseline)
            made = _write.plan_of(layout, chosen, name or chosen.name or slug(out.resolve().name) or "import", chief)
            kept, gone = _in_order(read, left)
            plan.write(folder, made)
            _describe(folder, layout, tools)
            hashes = {path.name: packs.sha256(path) for path in sorted((folder / FOLDER).iterdir())}
            used = {
                tool: readers[tool] for tool in sorted({place.trial.tool for place in layout.placed} & set(readers))
            }
            _write.write_journal(folder, _write.events(layout, made, kept, gone, chosen, readers=used, packs=hashes))
            keys = {cell.name: cell.key for cell in made.study.cells()}
            figures.close(
                {
                    f"{keys[p.cell]}.b{p.block:03d}.{p.lane}": read.pieces[p.trial.files[0], p.trial.number]
                    for p in layout.placed
                },
                index.binding(folder),
            )
        file.close()
        os.sync()  # once for all: with a file per trial, fsync after each would be most of the time
    return Summary(layout, chief, kept, gone, out)


def _options(tools: Mapping[str, Importer]) -> tuple[dict[str, Any], frozenset[str]]:
    """The options of importers that have any, for the journal; and the importers whose options do not come back from
    there as they were."""
    readers: dict[str, Any] = {}
    lossy = set()
    for name, tool in tools.items():
        if tool.Options is None or tool.options is None:
            continue
        text = tool.options.model_dump_json(exclude_defaults=True)
        readers[name] = json.loads(text)
        try:
            if tool.Options.model_validate_json(text) != tool.options:
                lossy.add(name)
        except ValueError:
            lossy.add(name)
    return readers, frozenset(lossy)


def _with_lanes(chosen: ImportMap, lanes: Mapping[str, Sequence[str]]) -> ImportMap:
    merged = dict(chosen.lanes)
    for name, patterns in lanes.items():
        merged[name] = merged.get(name, MappedLane.model_validate({})).model_copy(update={"files": tuple(patterns)})
    return chosen.model_copy(update={"lanes": merged})


def _read(
    files: Sequence[InputFile],
    job: Job,
    kept: Mapping[str, str],
    *,
    processes: int,
    progress: Progress,
    figures: index.Writer | None = None,
) -> _Reading:
    """Reads all files; a copy in the same folder is left out, or one trial would count as two."""
    outcomes = []
    places: dict[int, list[tuple[int, int]]] = {}
    for outcome in read_all(files, job, kept, processes, lambda done: progress(done, len(files))):
        if figures:  # they do not wait in memory
            places[outcome.number] = [figures.add(piece) for piece in outcome.pieces]
            outcome = replace(outcome, pieces=())  # noqa: PLW2901
        outcomes.append(outcome)
    outcomes.sort(key=lambda o: o.number)
    read, by_content = _Reading(), dict[tuple[str, ...], str]()
    for outcome in outcomes:
        if outcome.left_out:
            read.left_out.append(outcome.left_out)
            continue
        content = (outcome.trials[0].folder, *sorted(file.sha256 for file in outcome.originals))
        names = tuple(file.name for file in outcome.originals)
        if content in by_content:
            read.left_out.append(LeftOut(names, f"the same bytes as {by_content[content]}", names[0], "same-bytes"))
            read.dropped += outcome.members
            continue
        by_content[content] = names[0]
        read.trials += outcome.trials
        read.originals += outcome.originals
        for trial, place in zip(outcome.trials, places.get(outcome.number, ()), strict=False):
            read.pieces[trial.files[0], trial.number] = place
    if job.folder:
        for pack in {pack for pack, _ in read.dropped}:
            packs.drop(job.folder / FOLDER / pack, {member for name, member in read.dropped if name == pack})
    return read


def _layout(
    read: _Reading, left: list[LeftOut], chosen: ImportMap, sources: Sequence[Path], by: Sequence[str]
) -> Layout:
    if not read.trials:
        where = ", ".join(map(str, sources))
        bad = [gone for gone in (*read.left_out, *left) if gone.reason]
        if bad:
            hint = "" if ":" in bad[0].where else "fairlane import --list prints the readable files"
            others = f" (and {len(bad) - 1} more that cannot be read)" if len(bad) > 1 else ""
            raise FairlaneError("files-left-out", bad[0].reason + others, where=bad[0].where, hint=hint)
        if read.left_out:
            raise FairlaneError(
                "files-unknown",
                f"none of {len(read.left_out)} files is known to an importer",
                where=where,
                hint="fairlane import --list prints the readable files; --tool names an importer",
            )
        raise FairlaneError("files-none", "no files", where=where)
    return lay_out(read.trials, chosen, _top(sources), by)


def _top(sources: Sequence[Path]) -> str:
    """Name of what the user gave: a folder, a file without its suffixes; of several, of the folder that holds all."""
    paths = [source.resolve() for source in sources]
    if len(paths) == 1:
        return paths[0].name if paths[0].is_dir() else (paths[0].name.partition(".")[0] or paths[0].name)
    return Path(os.path.commonpath([path.parent for path in paths])).name or "imported"


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
    """Name of a file -> its name in a pack: the same tree, with portable names, distinct in all packs."""
    kept: dict[str, str] = {}
    taken: set[str] = set()
    for file in files:
        parts = ["".join(c if c.isalnum() or c in " ._+-=,@%" else "_" for c in p)[:120] for p in file.name.split("/")]
        path = "/".join(f"_{part.lstrip('.')}" if part.startswith(".") else part for part in parts)
        number = 1
        while (name := f"{path}{f'~{number}' if number > 1 else ''}").lower() in taken:
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
