"""Propose the lanes of an import: from folders, then file names, then what differs inside the files. Pure.

A word of a path tells *loads* apart if trials of the same load agree on it (``4k``, ``randread``, ``qd16``); numbers,
dates and ids that only count are *repetitions* (``run-2``, ``2024-05-01``, ``vm3``); what is left tells *lanes* apart.
Of several folders the outermost decides. A part below it that recurs in other lanes (``iscsi/thin``, ``nvme/thin``)
splits cells, one that does not (``ceph/rep3``, ``vsan/raid5``) makes finer lanes: trials whose names say that they are
unlike never count as repetitions of each other. The files' inside (device, directory, description, engine, host) is
asked only where paths tell nothing, because a device's name may change from one boot to the next.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlane.errors import FairlaneError, nearest
from fairlane.guard.parameters import PARAMETERS
from fairlane.importers._walk import shared_folders
from fairlane.importers._words import COUNTED, MACHINES, Word, glued_counters, is_counter, says, words

MOST = 30
"""Most lanes of a proposal that needs no confirmation: with more, names hardly tell lanes from repetitions."""
_LABELS = ("filename", "directory", "pool", "rbdname", "uri", "hostname", "description")
"""Labels that tell where a load ran, the surest first."""
_LAST = ("host", "job")
"""Labels that are asked if nothing else differs: hosts and jobs may as well be repetitions."""
_NUMBER = "-number"
"""End of the key of an axis of numbers."""
_SUFFIX = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9+]{0,7}){1,2}\Z")


@dataclass(frozen=True)
class Entry:
    """What is known of one trial before it has a lane."""

    name: str
    """Path of its first file, with forward slashes."""
    load: Hashable = ()
    """Equal for trials of the same load."""
    params: Mapping[str, Any] | None = None
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Axis:
    """One place in which trials differ."""

    key: str
    """As ``--by`` names it: ``folder1`` (the first below those common to all), ``name``, ``filename``, ``engine``."""
    values: tuple[str, ...]
    """Per trial; what only counts or tells loads apart is left out. All the same: it tells no lanes apart."""
    raw: tuple[str, ...]
    """Per trial, the whole text."""

    @property
    def title(self) -> str:
        key = self.key.removesuffix(_NUMBER)
        title = f"{key} (in the files)"
        if key.startswith("folder"):
            title = f"folder {key.removeprefix('folder')}"
        elif key == "name":
            title = "file name"
        return title if key == self.key else f"numbers in {title}"

    @property
    def tells(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class Proposal:
    """Lanes of trials, and why."""

    lanes: tuple[str, ...]
    """Title of the lane of each trial."""
    by: tuple[Axis, ...]
    """Where they come from; empty: one lane."""
    parts: tuple[str, ...]
    """Per trial, what splits its cell from others of the same load; empty where nothing does."""
    within: tuple[Axis, ...] = ()
    """Where ``parts`` come from."""
    counted: tuple[Axis, ...] = ()
    """Where trials differ in numbers, dates or ids only: repetitions."""
    loads: tuple[Axis, ...] = ()
    """Where names tell loads apart only."""
    keys: tuple[str, ...] = ()
    """Every place in which trials differ, for ``by``."""
    doubt: str = ""
    """Why this needs somebody's yes; empty: it does not."""

    @property
    def vary(self) -> tuple[str, ...]:
        """Parameters of the guard in which the lanes differ by their definition."""
        return tuple(axis.key for axis in self.by if axis.key in PARAMETERS)


def propose(entries: Sequence[Entry], top: str = "", by: Sequence[str] = ()) -> Proposal:
    """The lanes of ``entries``, of which there is at least one.

    ``top``: name of what the user gave, for a lane that no folder names. ``by``: keys of the axes that tell lanes
    apart, in place of the rules above. Raises FairlaneError for a key that is not there.
    """
    depth, paths = _paths(entries)
    places = _Places(entries, paths, _inside(entries), entries[0].name.split("/")[depth - 1] if depth else top)
    if by:
        return _chosen(places, by)
    telling = [axis for axis in paths if axis.tells]
    if telling:
        return _made(places, *_nested(telling))
    for keys in ([axis.key for axis in places.inside if axis.key not in _LAST], *([key] for key in _LAST)):
        candidates = [axis for axis in places.inside if axis.key in keys and axis.tells]
        if candidates:
            return _made(places, _finest(candidates))
    return _made(places, ())


@dataclass(frozen=True)
class _Places:
    """Where trials may differ."""

    entries: Sequence[Entry]
    paths: Sequence[Axis]
    inside: Sequence[Axis]
    top: str


# --- axes


def _paths(entries: Sequence[Entry]) -> tuple[int, list[Axis]]:
    """Number of leading folders common to all files, and the axes of paths."""
    steps = [entry.name.split("/") for entry in entries]
    depth = shared_folders(entry.name for entry in entries)
    deepest = max((len(parts) for parts in steps), default=1)
    axes = []
    for level in range(depth, deepest - 1):
        texts = [parts[level] if level < len(parts) - 1 else "" for parts in steps]
        axes += _axes(f"folder{level - depth + 1}", texts, entries)
    axes += _axes("name", [_SUFFIX.sub("", parts[-1]) for parts in steps], entries)
    return depth, axes


def _inside(entries: Sequence[Entry]) -> list[Axis]:
    """The axes of labels and params that every trial has, the surest first."""
    labels = [entry.labels or {} for entry in entries]
    params = [entry.params or {} for entry in entries]
    everywhere = set.intersection(*(set(p) for p in params)) if params else set()
    telling = [name for name in PARAMETERS if name in everywhere and PARAMETERS[name].tells_lanes]
    unknown = sorted(name for name in everywhere if name not in PARAMETERS and name != "beside")
    columns = [
        *((key, [label.get(key, "") for label in labels]) for key in _LABELS),
        *((name, [str(p[name]) for p in params]) for name in (*telling, *unknown)),
        *((key, [label.get(key, "") for label in labels]) for key in _LAST),
    ]
    differing = [(key, texts) for key, texts in columns if all(texts) and len(set(texts)) > 1]
    return [axis for key, texts in differing for axis in _axes(key, texts, entries)]


def _axes(key: str, texts: Sequence[str], entries: Sequence[Entry]) -> list[Axis]:
    """The axis of the words in ``texts``, and that of numbers in them that are neither counters nor of the load."""
    if len(set(texts)) == 1:
        return [Axis(key, ("",) * len(texts), tuple(texts))]
    rows = [words(text) for text in texts]
    kept = _kept(rows, entries, host=key == "host")
    found = [Axis(key, tuple(_titles(key, texts, rows, kept)), tuple(texts))]
    numbers = ("",) * len(texts) if key == "host" else tuple(_numbers(rows, entries))
    if len(set(numbers)) > 1:
        whole = dict(zip(numbers, texts, strict=True))
        if key.startswith("folder") and len(set(zip(numbers, texts, strict=True))) == len(whole):
            numbers = tuple(texts)  # n1-standard-8 rather than standard-8
        found.append(Axis(f"{key}{_NUMBER}", numbers, numbers))
    return found


def _kept(rows: Sequence[Sequence[Word]], entries: Sequence[Entry], *, host: bool) -> list[tuple[str, ...]]:
    """The words of each row that neither count nor tell loads apart; of a host its name without its number."""
    marks = [_marks(row) for row in rows]
    of_load = _of_load([set(row) for row in marks], entries)
    counting = COUNTED | MACHINES | glued_counters(word for row in rows for word in row)
    kept: list[tuple[str, ...]] = []
    for row, own, entry in zip(rows, marks, entries, strict=True):
        left: list[str] = []
        for word, mark in zip(row, own, strict=True):
            if word.bare or word.stem in COUNTED or mark in of_load or says(word.key, entry.params or {}):
                continue
            counts = word.number and (host or word.stem in counting or word.padded)
            left.append(word.letters if counts else word.text)
        kept.append(tuple(left))
    return kept


def _marks(row: Sequence[Word]) -> list[str]:
    """The words of a row, those that come twice told apart: the first t of ``t_sched_num_t`` is not its last."""
    seen: Counter[str] = Counter()
    marks = []
    for word in reversed(row):
        marks.append(f"{word.key}#{seen[word.key]}" if seen[word.key] else word.key)
        seen[word.key] += 1
    return marks[::-1]


def _of_load(rows: Sequence[set[str]], entries: Sequence[Entry]) -> set[str]:
    """Words on which all trials of a load agree, and others do not."""
    size = Counter(entry.load for entry in entries)
    having: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for row, entry in zip(rows, entries, strict=True):
        for word in row:
            having[word][entry.load] += 1
    return {
        word
        for word, loads in having.items()
        if sum(loads.values()) < len(entries) and all(size[load] == n for load, n in loads.items())
    }


_Slot = tuple[str, int]
"""Place of a number by itself: the word before it, and how many numbers stand between the two."""


def _slots(row: Sequence[Word]) -> Iterator[tuple[_Slot, Word]]:
    before, place = "", 0
    for word in row:
        if word.bare:
            yield (before, place), word
            place += 1
        else:
            before, place = word.key, 0


def _numbers(rows: Sequence[Sequence[Word]], entries: Sequence[Entry]) -> Iterator[str]:
    """Per row, its numbers that are part of a name: raid-0, raid-5."""
    values: dict[_Slot, set[str]] = defaultdict(set)
    by_load: dict[_Slot, dict[Hashable, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row, entry in zip(rows, entries, strict=True):
        for slot, word in _slots(row):
            values[slot].add(word.text)
            by_load[slot][entry.load].add(word.text)
    counting = {slot for slot, texts in values.items() if is_counter(texts)}
    counted = {text for slot in counting for text in values[slot]}
    named = {
        slot
        for slot in values.keys() - counting
        if slot[0] not in COUNTED | MACHINES
        and not values[slot] <= counted  # as run-2 and run-3, where the other lane has run-1 too
        and any(len(texts) > 1 for texts in by_load[slot].values())
    }
    for row in rows:
        yield " ".join(f"{slot[0]}-{word.text}".lstrip("-") for slot, word in _slots(row) if slot in named)


def _titles(
    key: str, texts: Sequence[str], rows: Sequence[Sequence[Word]], kept: Sequence[tuple[str, ...]]
) -> list[str]:
    """Titles of what was kept of each text: the whole name of a folder, or value of a parameter, where that is the
    same, else without words that all have in common."""
    if len(set(kept)) == 1:
        return [""] * len(texts)
    whole: dict[tuple[str, ...], set[str]] = defaultdict(set)
    words_of: dict[tuple[str, ...], list[set[str]]] = defaultdict(list)
    for left, text, row in zip(kept, texts, rows, strict=True):
        whole[left].add(text)
        words_of[left].append({word.key for word in row if not word.bare})
    if (key.startswith("folder") or key in PARAMETERS) and all(len(names) == 1 for names in whole.values()):
        return list(texts)
    common = set.intersection(*(set(map(str.lower, left)) for left in whole))
    titles = {left: "-".join(word for word in left if word.lower() not in common) for left in whole}
    for bare in [left for left, title in titles.items() if not title]:  # what only this lane has, of its loads too
        others = set().union(*(each for left, every in words_of.items() if left != bare for each in every))
        titles[bare] = "-".join(sorted(set.intersection(*words_of[bare]) - others))
    if not all(titles.values()) or len(set(titles.values())) < len(titles):  # nvme, nvme-tcp
        titles = {left: "-".join(left) for left in whole}
    return [titles[left] for left in kept]


# --- from axes to lanes


def _nested(telling: Sequence[Axis]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The axes of lanes and of cells: the first one, and those of which no value recurs in two lanes."""
    chosen, within = [telling[0]], []
    lanes: list[tuple[str, ...]] = [(value,) for value in telling[0].values]
    for axis in telling[1:]:
        relation = _relation(axis, lanes)
        if relation == "nested":
            chosen.append(axis)
            lanes = [(*lane, value) for lane, value in zip(lanes, axis.values, strict=True)]
        elif relation == "crossed":
            within.append(axis)
    return tuple(chosen), tuple(within)


def _relation(axis: Axis, lanes: Sequence[Hashable]) -> str:
    """``same``: one value in each lane; ``nested``: several, each in one lane; ``crossed``: some in several lanes."""
    values: dict[Hashable, set[str]] = defaultdict(set)
    of: dict[str, set[Hashable]] = defaultdict(set)
    for lane, value in zip(lanes, axis.values, strict=True):
        values[lane].add(value)
        of[value].add(lane)
    if all(len(found) == 1 for found in values.values()):
        return "same"
    return "nested" if all(len(found) == 1 for found in of.values()) else "crossed"


def _finest(candidates: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axis with most values, the surest of them, and those that differ independently of it."""
    finest = max(candidates, key=lambda axis: len(set(axis.values)))
    return (finest, *(a for a in candidates if a is not finest and _relation(a, finest.values) != "same"))


def _chosen(places: _Places, by: Sequence[str]) -> Proposal:
    known = {axis.key: axis for axis in (*places.paths, *places.inside)}
    for key in by:
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near}?" if near else f"keys that separate lanes: {', '.join(known)}"
            raise FairlaneError("axis-unknown", f"the files do not differ in {key!r}", hint=hint)
    chosen = [axis if axis.tells else Axis(axis.key, axis.raw, axis.raw) for axis in (known[key] for key in by)]
    lanes = list(zip(*(axis.values for axis in chosen), strict=True))
    others = [axis for axis in places.paths if axis.tells and axis.key not in by]
    return _made(places, chosen, [axis for axis in others if _relation(axis, lanes) == "crossed"], sure=True)


def _made(places: _Places, chosen: Sequence[Axis], within: Sequence[Axis] = (), *, sure: bool = False) -> Proposal:
    entries, paths = places.entries, places.paths
    titles = _joined(chosen, "/", len(entries), places.top)
    silent = [axis for axis in paths if axis not in chosen and not axis.tells and len(set(axis.raw)) > 1]
    counted = tuple(axis for axis in silent if _repeats(axis, entries))
    number = len(set(titles))
    doubt = ""
    if not sure and len(chosen) > 1 and not any(axis in paths for axis in chosen):
        doubt = f"{' and '.join(axis.title for axis in chosen)} differ independently of each other"
    elif not sure and number > MOST:
        doubt = f"{number} lanes are more than anybody compares: the names may be those of repetitions"
    return Proposal(
        titles,
        tuple(chosen),
        _joined(within, " ", len(entries)),
        within=tuple(within),
        counted=counted,
        loads=tuple(axis for axis in silent if axis not in counted),
        keys=tuple(axis.key for axis in (*paths, *places.inside) if len(set(axis.raw)) > 1),
        doubt=doubt,
    )


def _joined(axes: Sequence[Axis], between: str, number: int, empty: str = "") -> tuple[str, ...]:
    """Per trial, its values on ``axes``."""
    if not axes:
        return (empty,) * number
    rows = zip(*(axis.values for axis in axes), strict=True)
    return tuple(between.join(value for value in row if value) or empty for row in rows)


def _repeats(axis: Axis, entries: Sequence[Entry]) -> bool:
    """Whether trials of one load differ in the axis."""
    texts: dict[Hashable, str] = {}
    return any(texts.setdefault(entry.load, text) != text for entry, text in zip(entries, axis.raw, strict=True))
