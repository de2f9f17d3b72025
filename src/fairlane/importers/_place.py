"""Assign a lane, cell and block to each imported trial. Pure."""

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fairlane.errors import FairlaneError, nearest
from fairlane.guard.parameters import parameter
from fairlane.importers._map import ImportMap, MappedLane
from fairlane.importers._propose import Entry, Proposal, propose
from fairlane.importers._read import Trial
from fairlane.importers._walk import matches, natural
from fairlane.metrics import METRICS
from fairlane.units import format_size

POINT = ("rw", "rwmixread", "bs", "iodepth", "numjobs", "rate_iops", "scale", "disks", "fleet")
"""Parameters that define a cell. Others are conditions, which the guard compares between lanes; a condition that varies
within a lane makes cells too, so that unlike trials never count as repetitions."""
_PREFERRED = ("iops", "tps", "nopm", "tpm", "vm_ready_p99", "job_time", "bw", "lat_p99", "lat_mean")


_Key = tuple[Hashable, tuple[tuple[str, Any], ...]]
"""Key of a cell: its part, name and POINT parameters, then other parameters that vary within a lane."""


@dataclass(frozen=True)
class Placed:
    """One trial in its place."""

    trial: Trial
    lane: str
    cell: str
    block: int


@dataclass(frozen=True)
class Point:
    """One cell."""

    name: str
    params: Mapping[str, Any]
    primary: str
    """The cell's primary metric."""


@dataclass(frozen=True)
class Layout:
    """All trials in their places."""

    lanes: Mapping[str, str]
    """Name -> title in the results."""
    points: tuple[Point, ...]
    """Cells in order of appearance."""
    placed: tuple[Placed, ...]
    """Sorted by cell, block, then by time, or else by name, of the trial."""
    paired: bool
    interleaved: bool | None
    """Whether the trials' times show that the lanes alternated; None: the times are not known."""
    spans: Mapping[str, tuple[float, float]]
    """Lane -> start of its first and of its last trial (Unix time), where known."""
    proposal: Proposal | None = None
    """Of the trials whose lane neither the map nor the results name; None: of none."""


def lay_out(trials: Sequence[Trial], chosen: ImportMap, top: str = "", by: Sequence[str] = ()) -> Layout:
    """Puts ``trials`` (in the order of their names) into lanes, cells and blocks. ``top``, ``by``: see ``propose``.

    Raises FairlaneError.
    """
    titles, lanes, parts, proposal = _lanes(trials, chosen, top, by)
    points, cells = _cells(trials, lanes, parts, chosen)
    groups: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial, lane, cell in zip(trials, lanes, cells, strict=True):
        groups[cell, lane].append(trial)
    numbers = _numbered_blocks(groups)
    placed = [
        Placed(trial, lane, cell, block if cell not in numbers else numbers[cell][_block(trial)])
        for (cell, lane), group in groups.items()
        for block, trial in enumerate(_by_time(group))
    ]
    order = {point.name: n for n, point in enumerate(points)}
    placed.sort(key=lambda p: (order[p.cell], p.block, p.trial.record.started or 0.0, natural(p.lane)))
    interleaved = _interleaved(placed, len(titles))
    paired = bool(interleaved) if chosen.paired is None else chosen.paired
    return Layout(titles, points, tuple(placed), paired, interleaved, _spans(placed), proposal)


# --- lanes


def _lanes(
    trials: Sequence[Trial], chosen: ImportMap, top: str, by: Sequence[str]
) -> tuple[dict[str, str], list[str], list[str], Proposal | None]:
    """The lanes (name -> title), those of the map first; per trial its lane and the part of its cell; the proposal."""
    ruled = [_ruled(trial, chosen.lanes) for trial in trials]
    own = [trial.record.lane for trial in trials]
    parts = [""] * len(trials)
    asked = [n for n, lane in enumerate(ruled) if not lane and not own[n]]
    proposal = propose([_entry(trials[n]) for n in asked], top, by) if asked else None
    if proposal:
        for n, title, part in zip(asked, proposal.lanes, proposal.parts, strict=True):
            own[n], parts[n] = title, part
    mapped = [
        lane or _called(trial, title, chosen.lanes) for trial, title, lane in zip(trials, own, ruled, strict=True)
    ]
    titles = {name: lane.label for name, lane in chosen.lanes.items()}
    names: dict[str, str] = {}
    for title, name in zip(own, mapped, strict=True):
        if not name and title not in names:
            names[title] = safe(title, titles)
            titles[names[title]] = title
    lanes = [name or names[title] for title, name in zip(own, mapped, strict=True)]
    empty = [name for name in chosen.lanes if name not in set(lanes)]
    if empty:
        titled = sorted({f"{trial.folder}/" for trial in trials} | {t for t in own if t})[:8]
        raise FairlaneError(
            "lane-empty",
            f"no trial belongs to lane {empty[0]!r}",
            hint=f"folders and lanes found: {', '.join(map(_shown, titled))}",
        )
    return titles, lanes, parts, proposal


def _entry(trial: Trial) -> Entry:
    record = trial.record
    name = trial.files[0]
    if len(trial.files) > 1:  # logs of one trial: what their names have in common
        name = f"{posixpath.dirname(name)}/{posixpath.commonprefix([posixpath.basename(f) for f in trial.files])}"
    return Entry(name.lstrip("/"), _rough(trial), record.params, record.labels)


def _ruled(trial: Trial, lanes: Mapping[str, MappedLane]) -> str:
    """The lane of the map whose files or labels fit a trial; empty: none."""
    return _one(trial, [name for name, lane in lanes.items() if (lane.files or lane.where) and _chosen(trial, lane)])


def _called(trial: Trial, title: str, lanes: Mapping[str, MappedLane]) -> str:
    """The lane of the map that is called as the trial's lane, or else its folder, is; empty: none."""
    rest = {name: (name, lane.label) for name, lane in lanes.items() if not lane.files and not lane.where}
    for text in (title, trial.folder):
        if fitting := [name for name, called in rest.items() if text in called or slug(text) == name]:
            return _one(trial, fitting)
    return ""


def _one(trial: Trial, fitting: Sequence[str]) -> str:
    if len(fitting) > 1:
        raise FairlaneError(
            "lane-ambiguous",
            f"belongs to more than one lane: {', '.join(fitting)}",
            where=_shown(trial.files[0]),
            hint="make the lanes' files or where narrower",
        )
    return fitting[0] if fitting else ""


def _chosen(trial: Trial, lane: MappedLane) -> bool:
    labels: dict[str, Any] = {**trial.record.params, "lane": trial.record.lane, **trial.record.labels}
    for key, wanted in lane.where.items():
        if str(labels.get(key, "")) not in [str(w) for w in (wanted if isinstance(wanted, list) else [wanted])]:
            return False
    return not lane.files or any(matches(pattern, name) for pattern in lane.files for name in trial.files)


def slug(title: str) -> str:
    """``title`` as the name of a lane may be: lower-case letters, digits and dashes; empty if nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:31].strip("-")


def safe(title: str, taken: Iterable[str]) -> str:
    """A name for ``title`` that is not yet taken."""
    taken = set(taken)
    name = start = slug(title) or "lane"
    number = 2
    while name in taken:
        name = f"{start[: 30 - len(str(number))].rstrip('-')}-{number}"
        number += 1
    return name


# --- cells


def _cells(
    trials: Sequence[Trial], lanes: Sequence[str], parts: Sequence[str], chosen: ImportMap
) -> tuple[tuple[Point, ...], list[str]]:
    """The cells, and the cell's name of each trial."""
    rough = [(part, _rough(trial)) for trial, part in zip(trials, parts, strict=True)]
    varied: dict[Hashable, set[str]] = {key: set() for key in rough}  # parameters that vary within a lane
    values: dict[tuple[Hashable, str, str], Any] = {}
    for trial, lane, key in zip(trials, lanes, rough, strict=True):
        for name, value in trial.record.params.items():
            if values.setdefault((key, lane, name), value) != value:
                varied[key].add(name)
    keys: list[_Key] = [
        (key, tuple((name, trial.record.params.get(name)) for name in sorted(varied[key])))
        for trial, key in zip(trials, rough, strict=True)
    ]
    first: dict[_Key, Trial] = {}
    metrics: dict[_Key, set[str]] = defaultdict(set)
    for trial, whole in zip(trials, keys, strict=True):
        first.setdefault(whole, trial)
        metrics[whole] |= trial.record.figures.metrics.keys()
    part_of = {key: part for key, part in zip(keys, parts, strict=True) if part}
    names = _names({whole: (trial, dict(whole[1])) for whole, trial in first.items()}, part_of)
    if wrong := chosen.cells.keys() - set(names.values()):
        name = sorted(wrong)[0]
        near = nearest(name, names.values())
        hint = f"did you mean {near!r}?" if near else f"cells: {', '.join(names.values())}"
        raise FairlaneError("cell-unknown", f"the map speaks of a cell {name!r}, which is not there", hint=hint)
    points = []
    for whole, trial in first.items():
        mapped = chosen.cells.get(names[whole])
        params = {n: v for n, v in trial.record.params.items() if n in POINT or n in dict(whole[1])}
        primary = (mapped and mapped.primary) or _primary(metrics[whole], chosen.primary)
        points.append(Point(names[whole], params | dict(mapped.conditions if mapped else {}), primary))
    return tuple(points), [names[whole] for whole in keys]


def _rough(trial: Trial) -> Hashable:
    params = trial.record.params
    return (trial.record.name, *(params.get(name) for name in POINT))


def _primary(metrics: set[str], wanted: str | None) -> str:
    """``wanted``, or the first preferred metric of the cell. I/O that lacks a wanted percentile keeps it, and is
    refused: the user did not choose another headline."""
    if wanted and wanted.startswith("lat_") and "iops" in metrics:
        return wanted
    order = dict.fromkeys(((wanted,) if wanted else ()) + _PREFERRED + tuple(METRICS))
    return next((name for name in order if name in metrics), wanted or "iops")


def _names(cells: Mapping[_Key, tuple[Trial, dict[str, Any]]], parts: Mapping[_Key, str]) -> dict[_Key, str]:
    """Readable names, no two of which lead to the same file."""
    plain: dict[_Key, str] = {}
    for key, (trial, varied) in cells.items():
        params = trial.record.params
        extra = [_in_name(name, value) for name, value in varied.items() if value is not None and name not in POINT]
        tool = () if "rw" in params or "bs" in params else (trial.tool.replace("_", "-"),)
        part = [_clean(parts[key])] if key in parts else []
        plain[key] = " ".join([_clean(trial.record.name) or " ".join([*tool, *_load(params)]), *extra, *part])
    shared: dict[str, list[_Key]] = defaultdict(list)
    for key, name in plain.items():
        shared[name].append(key)
    for group in shared.values():
        if len(group) > 1:  # cells of one name: add the parameters that differ
            loads = [cells[key][0].record.params for key in group]
            differing = [n for n in POINT if len({load.get(n) for load in loads}) > 1]
            for key, own in zip(group, loads, strict=True):
                plain[key] = " ".join(
                    [plain[key], *(_in_name(n, own[n]) or f"{n} {own[n]}" for n in differing if n in own)]
                )
    names: dict[_Key, str] = {}
    taken: set[str] = set()
    for key, wanted in plain.items():
        start = _clean(wanted)[:90].strip(" ./+-") or "cell"
        name, number = start, 2
        while _file(name) in taken:
            name, number = f"{start} {number}", number + 1
        taken.add(_file(name))
        names[key] = name
    return names


def _file(name: str) -> str:
    return name.replace(" ", "-").replace("/", "-").lower()


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9 ./%+-]+", "-", name).strip(" ./%+-")


def _load(params: Mapping[str, Any]) -> list[str]:
    """Name of a cell in the fio workload's style: ``8k randrw 70/30 qd8 x4``."""
    words = []
    if isinstance(params.get("bs"), int):
        words.append(format_size(params["bs"]))
    words += [_in_name(name, params[name]) for name in POINT if name != "bs" and name in params]
    return [word for word in words if word]


def _in_name(name: str, value: Any) -> str:
    """One parameter in a cell's name."""
    short: dict[str, Callable[[Any], str]] = {
        "rw": str,
        "rwmixread": lambda v: f"{v:g}/{100 - v:g}" if isinstance(v, int | float) else str(v),
        "iodepth": lambda v: f"qd{v}",
        "numjobs": lambda v: f"x{v}" if v != 1 else "",
        "fleet": lambda v: f"fleet {v}" if v != 1 else "",
        "disks": lambda v: f"disks {v}" if v != 1 else "",
        "engine": str,
    }
    return _clean(short[name](value) if name in short else f"{name.replace('_', ' ')} {parameter(name).shown(value)}")


# --- blocks


def _block(trial: Trial) -> str:
    return trial.record.labels.get("block", "")


def _numbered_blocks(groups: Mapping[tuple[str, str], Sequence[Trial]]) -> dict[str, dict[str, int]]:
    """Cell -> label ``block`` -> number, of cells whose trials all have that label. Raises FairlaneError if one comes
    twice in a lane."""
    cells: dict[str, set[str]] = defaultdict(set)
    without = {cell for (cell, _), group in groups.items() if not all(map(_block, group))}
    for (cell, lane), group in groups.items():
        names = [_block(trial) for trial in group]
        cells[cell].update(names)
        twice = next((name for name in names if names.count(name) > 1), "") if cell not in without else ""
        if twice:
            raise FairlaneError(
                "block-twice",
                f"block {twice!r} of lane {lane!r} comes twice in the cell {cell}",
                where=_shown(group[names.index(twice)].files[0]),
                hint="is a column missing in params or lane that tells these trials apart?",
            )
    labels = {cell: sorted(names, key=natural) for cell, names in cells.items() if cell not in without}
    return {cell: {name: number for number, name in enumerate(names)} for cell, names in labels.items()}


def _by_time(trials: Sequence[Trial]) -> list[Trial]:
    """By start time; by name if one of them lacks it."""
    starts = [trial.record.started for trial in trials]
    if any(start is None for start in starts):
        return list(trials)
    return sorted(trials, key=lambda trial: trial.record.started or 0.0)


def _interleaved(placed: Sequence[Placed], lanes: int) -> bool | None:
    """Whether in every cell each block had begun in all lanes before the next one began in any."""
    starts: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for place in placed:
        if place.trial.record.started is None:
            return None
        starts[place.cell][place.block].append(place.trial.record.started)
    for blocks in starts.values():
        ordered = [blocks[n] for n in sorted(blocks)]
        if len(ordered) < 2 or any(len(block) != lanes for block in ordered):
            return False
        if any(max(before) >= min(after) for before, after in pairwise(ordered)):
            return False
    return lanes > 1


def _spans(placed: Sequence[Placed]) -> dict[str, tuple[float, float]]:
    starts: dict[str, list[float]] = defaultdict(list)
    for place in placed:
        if place.trial.record.started is not None:
            starts[place.lane].append(place.trial.record.started)
    return {lane: (min(times), max(times)) for lane, times in starts.items()}


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
