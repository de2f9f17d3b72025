"""From inspected paths and the options of a command line to a study. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairlane.errors import FairlaneError
from fairlane.machines.behind import Behind, problems, warnings
from fairlane.platforms._living.needs import needs
from fairlane.platforms.base import Platform
from fairlane.platforms.hosts import Hosts
from fairlane.records import Finding
from fairlane.study.load import parse_study
from fairlane.units import about_size, format_size
from fairlane.versus import study as studies
from fairlane.versus.composed import Composed, Row
from fairlane.versus.given import Given
from fairlane.versus.loads import Load
from fairlane.versus.plan import SMALLEST, Shape, Wanted, sizes
from fairlane.versus.scout import Found
from fairlane.versus.study import Options, Place
from fairlane.versus.wording import of_options

_SLOW = 50 * 2**20
"""Bytes per second that are assumed where filling could not be measured."""
_BLOCK, _DEPTH = 2**16, 8
"""Bytes of each I/O of the short load of the look, and how many are in flight: ``machines.behind.probe``."""


@dataclass(frozen=True, kw_only=True)
class Paths(Composed):
    """A study of directories, files and disks of machines."""

    places: tuple[Place, ...]
    behind: Mapping[str, Behind]
    found: tuple[Finding, ...]
    """Warnings of what lies behind the paths."""
    known: Mapping[str, Mapping[str, Any]]
    """Lane -> what lies behind its path, as a run describes it."""
    makes: int
    """Directories that get a new file in every round."""
    room: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Mount point -> bytes free, bytes that stay free at least."""
    overwritten: tuple[Place, ...] = ()
    """Devices whose first ``sizes.size`` bytes are overwritten."""
    buffered: bool = False

    @property
    def cached(self) -> bool:
        return self.load.cached or self.buffered

    @property
    def lost(self) -> Sequence[Row]:
        return [(place.given.label, place.identity) for place in self.overwritten]

    def targets(self) -> Iterator[Row]:
        for number, place in enumerate(self.places):
            where = "" if place.given.local else f" on {place.given.destination}"
            base = "baseline: " if not number else ""
            yield place.given.label, f"{base}{described(self.behind[place.given.lane])}{where}"

    def costs(self) -> Iterator[Row]:
        yield "writes", self._written()
        for mount, (free, keep) in self.room.items():
            yield "free", f"{mount}: {about_size(free)}, of which {about_size(keep)} stay free"
        for need in needs(self.study).values():
            yield "needs", str(need)

    def _written(self) -> str:
        """What is written, and what is lost by it."""
        size, parts = self.sizes.size, []
        if self.makes and size:
            files = "a new file" if self.makes == 1 else f"a new file in each of {self.makes} directories"
            total = self.sizes.blocks * self.makes * size
            more = "" if self.load.reads_only else ", plus the load's own writes"
            data = " of random data" if self.load.fills else ""
            parts.append(
                f"{files} in every round ({format_size(size)}{data}), removed afterwards: {about_size(total)} in all"
                f"{more}"
            )
        for label, identity in self.lost:
            first = f"the first {format_size(size)} of " if size else ""
            parts.append(f"{first}{label} ({identity}): all data there is LOST")
        return "; ".join(parts) or "nothing"

    def warnings(self) -> Iterator[Row]:
        yield from ((f.severity, f.message) for f in self.found if f.severity != "info")
        if studies.machines_differ(self.places):
            text = "The paths are on different machines: the result includes every other difference between these "
            yield "warning", f"{text}(CPU, kernel, network)"
        yield from (("warning", text) for text in self.sizes.warnings)
        if self.cached:
            text = "The load goes through the machine's page cache, so the result includes the cache"
            more = "" if self.load.syncs else ": reads may come from memory, and writes end there"
            yield "warning", text + more

    def as_json(self) -> Mapping[str, Any]:
        return {
            "paths": [
                {"lane": p.given.lane, "label": p.given.label, "destination": p.given.destination,
                 "path": p.given.path, "kind": p.kind, "behind": described(self.behind[p.given.lane])}
                for p in self.places
            ],
            "writes": self._written(),
            "lost": [identity for _, identity in self.lost],
            "different_machines": studies.machines_differ(self.places),
        }  # fmt: skip

    def equip(self, platform: Platform) -> None:
        assert isinstance(platform, Hosts)  # noqa: S101 - the study's kind
        platform.known = self.known


def described(behind: Behind) -> str:
    """``directory on ext4 (/mnt/a), 76 GiB free; disk vda (virtio, 252 GiB)``."""
    what: str = behind.kind
    if behind.kind == "directory":
        free = f", {about_size(behind.free_bytes)} free" if behind.free_bytes is not None else ""
        what = f"directory on {behind.fstype or 'an unknown file system'} ({behind.mount_point}){free}"
    elif behind.size:
        what = f"{'file' if behind.kind == 'file' else 'block device'} of {about_size(behind.size)}"
        if behind.kind == "file" and behind.fstype:
            what += f" on {behind.fstype} ({behind.mount_point})"
    disks = [
        f"{disk.name} ({', '.join(x for x in (disk.model, disk.transport, about_size(disk.bytes)) if x)})"
        for disk in behind.disks[:2]
    ]
    if len(behind.disks) > 2:
        disks.append(f"{len(behind.disks) - 2} more")
    if disks:
        what += f"; {'disk' if len(disks) == 1 else 'disks'} {', '.join(disks)}"
    elif behind.server:
        what += f"; server {behind.server}"
    return what


@dataclass(frozen=True)
class Asked:
    """What a command line says beside its paths."""

    load: Load
    wanted: Wanted
    options: Options
    command: str
    """The command line itself, for the study's first line."""


@dataclass(frozen=True)
class _Permitted:
    places: tuple[Place, ...]
    load: Load
    kept: list[Place]
    """Existing files and devices that are only read."""
    made: list[Place]
    """Directories."""
    lost: list[Place]
    """Devices whose contents may be lost, and that the load writes."""


def check(paths: Sequence[Given], found: Found, asked: Asked) -> _Permitted:
    """Raises one FairlaneError with all reasons against the comparison that are known before anything is written."""
    load, options = asked.load, asked.options
    places = tuple(Place(g, found.kind(g.lane), found.identity.get(g.lane, "")) for g in paths)
    labels = {g.lane: g.label for g in paths}
    _refuse(problems(found.behind, buffered=load.cached or options.buffered, writes=False, labels=labels))
    destroy = _destroyed(places, options.destroy)
    if load.chosen and load.reads_only:
        destroy = set()  # nothing writes to these disks, not even a fill
    kept = [p for p in places if p.kind == "file" or (p.kind == "device" and p.identity not in destroy)]
    made = [p for p in places if p.kind == "directory"]
    load = _permitted(load, kept, made)
    lost = [p for p in places if p.kind == "device" and not load.reads_only]
    if not load.reads_only:
        _refuse(problems(found.behind, buffered=load.cached or options.buffered, writes=True, labels=labels))
    if made and asked.wanted.size:
        _refuse(_space(found, made, asked.wanted.size, options.keep_free))
    return _Permitted(places, load, kept, made, lost)


def compose(paths: Sequence[Given], found: Found, asked: Asked) -> Paths:
    """The study of ``paths``. Raises one FairlaneError with all reasons against it."""
    options, allowed = asked.options, check(paths, found, asked)
    places, load, kept, made = allowed.places, allowed.load, allowed.kept, allowed.made
    shape = _shape(places, found, load, options, filled=not kept and load.fills)
    planned = sizes(asked.wanted, shape)
    if options.destroy and not allowed.lost:
        text = "--destroy has no effect: this load only reads, so nothing on the disk is overwritten"
        planned = replace(planned, warnings=(*planned.warnings, text))
    if made:
        _refuse(_space(found, made, planned.size or 0, options.keep_free))
    own = Options(options.seed, options.buffered, options.alone, options.keep_free, options.accept,
                  frozenset(p.identity for p in allowed.lost))  # fmt: skip
    text = studies.text(places, load.keys(prefill=not kept), planned, own, asked.command)
    try:
        study = parse_study(text, "the study of this command line")
    except FairlaneError as error:
        raise of_options(error) from None
    label = {g.lane: g.label for g in paths}
    findings = warnings(
        {label[lane]: b for lane, b in found.behind.items()},
        {label[lane]: p for lane, p in found.probed.items()},
        writes=not load.reads_only,
        syncs=load.syncs,
    )
    return Paths(
        labels=tuple(g.label for g in paths),
        study=study,
        text=text,
        sizes=planned,
        load=load,
        places=places,
        behind=found.behind,
        found=tuple(findings),
        known=found.as_json(),
        makes=len(made),
        room=_rooms(found, made, options),
        overwritten=tuple(allowed.lost),
        buffered=options.buffered,
    )


def _refuse(found: Sequence[FairlaneError]) -> None:
    """Raises one FairlaneError for all of ``found``."""
    if len(found) == 1:
        raise found[0]
    if found:
        lines = [f"  {p.labelled()}" + (f" ({p.hint})" if p.hint else "") for p in found]
        raise FairlaneError("several-problems", "\n".join([f"{len(found)} problems prevent this comparison", *lines]))


def _destroyed(places: Sequence[Place], wanted: frozenset[str]) -> set[str]:
    """Identities of the devices that may be written. Raises FairlaneError for one that no path has."""
    devices = [p for p in places if p.kind == "device"]
    chosen = set()
    for text in wanted:
        match = [p.identity for p in devices if text in (p.identity, p.identity.partition(":")[2])]
        if not match:
            known = "; ".join(f"{p.given.label} is {p.identity}" for p in devices) or "no path is a block device"
            raise FairlaneError("destroy-unknown", f"no path has the identity {text}", where="--destroy", hint=known)
        chosen.add(match[0])
    return chosen


def _permitted(load: Load, kept: Sequence[Place], made: Sequence[Place]) -> Load:
    """``load``, or the one that only reads if nobody chose one. Raises FairlaneError for what would be written."""
    if kept and made:
        hint = "compare like with like: name the directory in which the file lies"
        if kept[0].kind == "device":
            hint = f"name a directory on the disk; or let the disk be overwritten with --destroy {kept[0].identity}"
            hint += " and a load that writes" if load.chosen and load.reads_only else ""
        raise FairlaneError(
            "kinds-mixed",
            f"{made[0].given.label} is a directory, which gets a new file of random data; {kept[0].given.label} is "
            f"{'a file' if kept[0].kind == 'file' else 'a disk'}, which is read as it is",
            hint=hint,
        )
    if not kept:
        return load
    if not load.chosen:
        return load.reading()
    if not load.reads_only:
        place = kept[0]
        hint = "use --rw randread, or remove --rw and --profile"
        if place.kind == "device":
            hint += f"; if all data on {place.given.label} may be lost: --destroy {place.identity}"
        what = "a file" if place.kind == "file" else "a disk"
        raise FairlaneError(
            "kept-written",
            f"{place.given.label} is {what} with existing data: Fairlane only reads it, but this load writes",
            hint=hint,
        )
    return load


def _shape(places: Sequence[Place], found: Found, load: Load, options: Options, *, filled: bool) -> Shape:
    made = [p for p in places if p.kind == "directory"]
    fill = {p.given.lane: found.fill.get(p.given.lane, _SLOW) for p in made if load.fills}
    bytes_ = [size for p in places if p.kind != "directory" if (size := found.behind[p.given.lane].size)]
    room = None
    if made:
        shares = _rooms(found, made, options)
        on = [found.behind[p.given.lane].mount_point for p in made]
        room = min((free - keep) // on.count(mount) for mount, (free, keep) in shares.items()) if shares else None
        room = max(room, SMALLEST) if room is not None else None
    if filled:  # disks whose contents may go: the part that is used is written in every round
        fill |= {p.given.lane: 4 * float(_SLOW) for p in places if p.kind == "device"}
    return Shape(
        len(load.cells),
        len(places),
        fill,
        room,
        min(bytes_, default=None),
        load.needs,
        load.largest,
        load.tail,
        _slowest(found, load),
    )


def _slowest(found: Found, load: Load) -> float | None:
    """I/Os per second of the slowest path in its slowest cell, about: as many as the short load of the look moved,
    fewer where fewer are in flight, and no more than are asked for. None: no path was loaded."""
    rates = [way.load_bytes / p.seconds / _BLOCK for p in found.probed.values() if p.seconds and not p.failed
             for way in p.ways.values() if way.load_bytes]  # fmt: skip
    if not rates:
        return None
    return min(_paces(cell.params, min(rates)) for cell in load.cells)


def _paces(params: Mapping[str, Any], rate: float) -> float:
    """I/Os per second of a cell at a path that does ``rate`` with ``_DEPTH`` in flight."""
    jobs = params.get("jobs")
    return sum(_pace(job, rate) for job in jobs.values()) if isinstance(jobs, Mapping) else _pace(params, rate)


def _pace(job: Mapping[str, Any], rate: float) -> float:
    jobs = job.get("numjobs") or 1
    able = rate * min(1.0, (job.get("iodepth") or 1) * jobs / _DEPTH)
    return min(able, job["rate_iops"] * jobs) if job.get("rate_iops") else able


def _rooms(found: Found, made: Sequence[Place], options: Options) -> dict[str, tuple[int, int]]:
    rooms = {}
    for place in made:
        behind = found.behind[place.given.lane]
        if behind.free_bytes is not None:
            rooms[behind.mount_point] = behind.free_bytes, int(options.keep_free * (behind.total_bytes or 0))
    return rooms


def _space(found: Found, made: Sequence[Place], size: int, keep_free: float) -> list[FairlaneError]:
    """Directories without room for their files."""
    each = []
    for place in made:
        behind = {place.given.lane: found.behind[place.given.lane]}
        own = {g.given.lane: found.behind[g.given.lane] for g in made
               if found.behind[g.given.lane].device == behind[place.given.lane].device}  # fmt: skip
        if next(iter(own)) != place.given.lane:
            continue
        keep = int(keep_free * (behind[place.given.lane].total_bytes or 0))
        wrong = problems(own, buffered=True, writes=True, size=size, keep_free=keep, labels={})
        each += [p for p in wrong if p.kind in ("no-space", "no-inodes")]
    return [
        FairlaneError(p.kind, p.message, hint=f"make room, or lower --size (now {format_size(size)}) or --keep-free")
        for p in each
    ]
