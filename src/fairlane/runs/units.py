"""Units of reading: the trials that one raw archive, or the files of one import together, hold. Pure functions of them.

An import keeps its files as they are (``packs``), and its figures are read from them again by its importer, with the
options that the journal has. Files that were not kept have their records in the packs instead.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairlane import registry
from fairlane.errors import FairlaneError, Garbage
from fairlane.formats import record
from fairlane.formats.record import Record
from fairlane.records import Block, Observation
from fairlane.runs import raw
from fairlane.runs.journal import Event
from fairlane.runs.observe import observe
from fairlane.runs.packs import SUFFIX, Reader


@dataclass(frozen=True, slots=True)
class Member:
    """One file in a pack."""

    name: str
    """As it was called when it was imported."""
    pack: str
    member: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Place:
    """A trial in a unit."""

    trial: str
    block: Block
    lane: str
    number: int = 0
    """Which of the unit's records it is."""
    load: str = ""
    """``formats.record.load`` of the record when it was imported."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What is read at once."""

    places: tuple[Place, ...]
    archive: str
    """Name of the raw archive; of packed files that of the first pack."""
    sha256: str
    files: tuple[Member, ...] = ()
    tool: str = ""
    """The importer; empty: the one file holds the record itself."""
    options: str = ""
    """The importer's options, as JSON."""
    records: int = 1
    """Number of records when it was imported."""


@dataclass
class Packed:
    """What the journal of an import says about its packs."""

    packs: dict[str, str] = field(default_factory=dict)
    """Name -> SHA-256."""
    _files: dict[str, Member] = field(default_factory=dict)
    _options: dict[str, str] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Raises KeyError, TypeError, ValueError for an event that is not as ``importers`` write it."""
        kind = event["type"]
        if kind == "pack":
            self.packs[str(event["name"])] = str(event["sha256"])
        elif kind == "original" and "member" in event:
            pack = sys.intern(str(event["kept"]).removeprefix(f"{raw.FOLDER}/"))
            name, member = str(event["name"]), str(event["member"])
            self._files[name] = Member(name, pack, name if member == name else member, str(event["sha256"]))
        elif kind == "start" and "readers" in event:
            self._options |= {str(tool): json.dumps(dict(options)) for tool, options in event["readers"].items()}

    def unit(self, event: Event, place: Place) -> Unit:
        """The unit of one trial alone. Raises the same."""
        archive, sha256 = str(event["raw"]), str(event["sha256"])
        if not archive.endswith(SUFFIX):
            return Unit((place,), archive, sha256)
        if archive not in self.packs:
            raise ValueError(f"{archive!r} is no pack of this run")
        if "member" in event:
            place = replace(place, number=0)
            own = Member(str(event["from"]), archive, str(event["member"]), sha256)
            return Unit((place,), archive, sha256, (own,))
        names = event.get("files", (event["from"],))
        files = tuple(self._files[str(name)] for name in names)
        if sha256 != together([(file.name, file.sha256) for file in files]):
            raise ValueError("its SHA-256 does not match its files")
        tool = str(event["tool"])
        return Unit((place,), archive, sha256, files, tool, self._options.get(tool, ""), int(event.get("of", 1)))


def together(files: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of a trial's files (name, SHA-256): the file's own; of several that of what ``sha256sum`` prints of
    them."""
    if len(files) == 1:
        return files[0][1]
    return hashlib.sha256("".join(f"{sha256}  {name}\n" for name, sha256 in files).encode()).hexdigest()


def joined(units: Iterable[Unit]) -> Iterator[Unit]:
    """Units of the same files as one, in the order of their first trials."""
    groups: dict[Any, list[Unit]] = {}
    for unit in units:
        groups.setdefault((unit.files, unit.archive) if unit.tool else unit.places, []).append(unit)
    for group in groups.values():
        first = group[0]
        if len(group) == 1:
            yield first
        else:
            places = tuple(place for unit in group for place in unit.places)
            yield Unit(places, first.archive, first.sha256, first.files, first.tool, first.options, first.records)


def read(folder: Path, unit: Unit, packs: Reader) -> list[Observation | None]:
    """The observations of the unit's trials; None: the archive is missing or changed. Raises FairlaneError if packed
    files are (``Damaged``), or this version finds other trials in them than the import did."""
    if not unit.files:
        ((place),) = unit.places
        try:
            return [observe(place.block, place.lane, raw.fetch(folder, unit.archive, unit.sha256))]
        except raw.Damaged:
            return [None]
    records = _records(unit, packs)
    return [observed(place, records[place.number]) for place in unit.places]


def _records(unit: Unit, packs: Reader) -> list[Record]:
    contents = [(file.name, packs.content(file.pack, file.member, file.sha256)) for file in unit.files]
    first = unit.files[0].name
    if not unit.tool:
        try:
            return [record.read(contents[0][1]().read())]
        except ValueError as error:
            raise raw.Damaged("raw-damaged", f"{first}: {error}", where=unit.archive) from None
    if unit.tool not in registry.names("importers"):
        raise FairlaneError(
            "importer-unknown", f"no importer named {unit.tool!r}, which read this run", where=first, hint=_AGAIN
        )
    try:
        importer = registry.load("importers", unit.tool)
        found = [record.completed(one) for one in importer.again(contents, unit.options)]
    except FairlaneError as error:
        raise FairlaneError(
            "import-outdated", f"cannot be read any more: {error.message}", where=error.where or first, hint=_AGAIN
        ) from None
    numbers = range(unit.records)
    if len(found) != unit.records or any(
        p.number not in numbers or record.load(found[p.number]) != p.load for p in unit.places
    ):
        raise FairlaneError(
            "import-outdated",
            f"this version of fairlane reads {len(found)} trials from it, not the {unit.records} that were imported"
            if len(found) != unit.records
            else "this version of fairlane reads other loads from it than were imported",
            where=first,
            hint=_AGAIN,
        )
    return found


_AGAIN = "import the files again, or use the version of fairlane that imported them"


def observed(place: Place, trial: Record) -> Observation:
    """An imported trial at its place; a failed one has the reason alone."""
    block, position = place.block, place.block.order.index(place.lane)
    try:
        figures = record.figures(trial)
    except Garbage as reason:
        return Observation(block.cell.key, block.index, place.lane, position, failed=str(reason))
    return Observation(
        block.cell.key, block.index, place.lane, position, "",
        figures.metrics, figures.histograms, figures.context, figures.steps,
    )  # fmt: skip
