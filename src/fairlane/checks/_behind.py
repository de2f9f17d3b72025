"""Disks and layers behind the lanes' paths, from the description of a run, for checks that compare them. Not a check.

``description["lanes"][LANE]``: ``behind`` and ``probed``, as ``fairlane.machines.behind`` writes them; of a lane on
several machines an object by machine.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fairlane import registry
from fairlane.checks._trials import at, mappings, number, text
from fairlane.checks.base import Check
from fairlane.records import Cell, Evidence, Finding
from fairlane.units import about_size

_GLOBAL = ("wwn:", "nqn:", "dm:mpath-")
"""Identities that name one disk on all machines; a serial is unique only on its own."""
_READS = ("read", "randread")
WRITES = {
    "stable": "is stable", "volatile": "may be in a volatile cache", "server": "is at the file server",
    "memory": "is in memory only",
}  # fmt: skip
"""Where a completed write is."""
SYNCS = {"stable": "makes it stable", "server": "has the server commit it", "nothing": "adds nothing"}
"""What an fsync adds."""


@dataclass(frozen=True)
class Lane:
    """A lane's paths by machine."""

    name: str
    behind: Mapping[str, Mapping[str, Any]]
    probed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    label: str = ""

    @property
    def shown(self) -> str:
        """Its label, or else its name, for sentences."""
        return self.label or self.name

    @property
    def one(self) -> Mapping[str, Any]:
        """Its ``behind`` on the first machine; the other machines of a fleet are the same."""
        return next(iter(self.behind.values()), {})

    def disks(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(machine, disk) of all that were looked up."""
        for machine, behind in self.behind.items():
            for disk in mappings(behind, "disks"):
                if text(disk, "name"):
                    yield machine, disk

    def stack(self) -> Iterator[Mapping[str, Any]]:
        """The layers between its paths and its disks, of all machines."""
        for behind in self.behind.values():
            yield from mappings(behind, "stack")

    @property
    def layers(self) -> frozenset[str]:
        """Their kinds."""
        return frozenset(text(layer, "kind") for layer in self.stack())

    def saves(self, *keys: str) -> Iterator[str]:
        """Layers that store less than is written, with the setting (``btrfs /dev/sdb: zstd:3``). ``keys``:
        ``compression``, ``dedup``; left out: both."""
        for layer in self.stack():
            for key in keys or ("compression", "dedup"):
                if setting := text(layer, "details", key):
                    yield f"{text(layer, 'kind')} {text(layer, 'name')}: {setting}"

    @property
    def names(self) -> frozenset[str]:
        """Kernel names of its disks."""
        return frozenset(text(disk, "name") for _, disk in self.disks())


@dataclass(frozen=True)
class Load:
    """Keys of the cells that write, and of those that sync what they write."""

    writing: tuple[str, ...] = ()
    syncing: tuple[str, ...] = ()


class BehindCheck(Check):
    """A check of the disks and layers behind the lanes; needs no trial."""

    between = True

    @abstractmethod
    def compare(self, lanes: Mapping[str, Lane], load: Load) -> Iterable[Finding]:
        """The findings; ``lanes``: the baseline first, without copies."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if lanes := read(evidence):
            yield from self.compare(lanes, load(evidence.cells()))


def read(evidence: Evidence) -> dict[str, Lane]:
    """The lanes with ``behind`` or ``probed``, the baseline first; copies of a lane are left out."""
    study, described = evidence.study, at(evidence.description, "lanes")
    lanes = {}
    for name in dict.fromkeys((study.baseline, *study.lanes)):
        if name not in study.lanes or getattr(study.lanes[name], "copy_of", None):
            continue
        behind, probed = (_by_machine(at(described, name, key)) for key in ("behind", "probed"))
        lane = Lane(name, behind, probed, study.lanes[name].label or "")
        if lane.behind or lane.probed:
            lanes[name] = lane
    return lanes


def _by_machine(tree: Any) -> dict[str, Mapping[str, Any]]:
    if not isinstance(tree, Mapping):
        return {}
    if "machine" in tree:
        return {text(tree, "machine"): tree}
    return {str(name)[:200]: one for name, one in tree.items() if isinstance(one, Mapping) and "machine" in one}


def load(cells: Iterable[Cell]) -> Load:
    """Which cells write, and which sync."""
    cells = list(cells)
    return Load(
        tuple(cell.key for cell in cells if cell.params.get("rw") not in _READS),
        tuple(cell.key for cell in cells if cell.params.get("rw") not in _READS and syncs(cell)),
    )


def syncs(cell: Cell) -> bool:
    """Whether a cell's load syncs what it writes. Databases do; fio by its keys, of each job too."""
    if cell.kind in ("oltp", "slob"):
        return True
    jobs = cell.params.get("jobs")
    each = [cell.params, *(jobs.values() if isinstance(jobs, Mapping) else ())]
    return any(
        bool(job.get(key)) and job.get(key) != "none"
        for job in each
        if isinstance(job, Mapping)
        for key in ("fsync", "fdatasync", "sync", "end_fsync")
    )


def outlook(lanes: Mapping[str, Lane], *, writes: bool, syncs: bool) -> list[Finding]:
    """The findings of every such check before a run, the first lane as baseline, without cells."""
    every = Load(("*",) if writes else (), ("*",) if writes and syncs else ())
    checks = [check for _, check in registry.every("checks") if isinstance(check, BehindCheck)]
    return [replace(finding, cells=()) for check in checks for finding in check.compare(lanes, every)]


def strings(tree: Any, *path: str) -> list[str]:
    """The strings in the list at ``path``, of at most 300 characters each; other items are left out."""
    items = at(tree, *path)
    return [item[:300] for item in items if isinstance(item, str)] if isinstance(items, list | tuple) else []


def key(machine: str, disk: Mapping[str, Any]) -> tuple[str, str]:
    """One for each physical disk: its identity where that is the same on all machines, else its name on its own."""
    identity = text(disk, "identity")
    return ("", identity) if identity.startswith(_GLOBAL) else (machine, text(disk, "name"))


def title(disk: Mapping[str, Any]) -> str:
    """``nvme0n1 (Samsung SSD 980, 931 GiB, serial:XYZ)``."""
    count = number(disk, "bytes")
    words = [text(disk, "model"), about_size(count) if count else "", text(disk, "identity")]
    known = ", ".join(word for word in words if word)
    return f"{text(disk, 'name')} ({known})" if known else text(disk, "name")


def listed(names: Iterable[str]) -> str:
    """``a, b and c``."""
    names = list(names)
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def lane_of(evidence: Evidence, name: str) -> Lane | None:
    """One lane (also a copy) with ``behind``; None: it has none."""
    described = at(evidence.description, "lanes", name)
    behind = _by_machine(at(described, "behind"))
    return Lane(name, behind, _by_machine(at(described, "probed"))) if behind else None


def host_disks(context: Mapping[str, Any], names: Iterable[str]) -> dict[str, float] | None:
    """The counters of these disks in a trial, added up, of all machines; a disk that did nothing is in none. None: the
    trial has no such counters."""
    disks = at(context, "host_disks")
    if not isinstance(disks, Mapping):
        return None
    machines = [disks] if any("reads" in d for d in disks.values() if isinstance(d, Mapping)) else [*disks.values()]
    added: dict[str, float] = {}
    for machine in machines:
        for name in names:
            for counter in ("reads", "read_bytes", "writes", "write_bytes", "flushes", "flush_ms"):
                if (count := number(machine, name, counter)) is not None:
                    added[counter] = added.get(counter, 0.0) + count
    return added


def promise(lane: Lane) -> tuple[str, str] | None:
    """(write, sync) of a lane, keys of ``WRITES`` and ``SYNCS``; None: one of them is unknown."""
    write, sync = text(lane.one, "flush", "write"), text(lane.one, "flush", "sync")
    return (write, sync) if write in WRITES and sync in SYNCS else None
