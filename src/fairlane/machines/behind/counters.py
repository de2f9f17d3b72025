"""Counters of disks, network file systems, interfaces and ZFS's cache, and what moved them: pure.

Formats: kernel, admin-guide/iostats.rst (``/proc/diskstats``), nfs-utils' mountstats(8) (``/proc/self/mountstats``),
``/proc/net/dev``; OpenZFS, ``/proc/spl/kstat/zfs/arcstats``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fairlane.machines.behind.facts import SECTOR, Machine
from fairlane.machines.behind.leaves import disk
from fairlane.machines.behind.records import Behind, Moved, Probed, Verdict

_MOVED = 0.1
"""Least share of the load's bytes for a disk to be named: what others do meanwhile is mostly less, once what they did
just before was taken off. Their short sample may be a burst: it decides on names alone, never that a cache answered."""
_ANSWERED = 0.5
"""Least share of the load's bytes that disks or the network moved if they answered: caches serve next to all of it, or
next to nothing."""
_MOUNT = re.compile(r"^device (\S+) mounted on (\S+) with fstype (\S+)")
_ORDER: tuple[Verdict, ...] = ("memory", "cache", "network", "disks", "unknown")


@dataclass(frozen=True)
class Counters:
    """One snapshot; bytes read and written by name."""

    disks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    shares: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By mount point: bytes from and to the server."""
    nics: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Received and sent."""
    arc: tuple[int, int] | None = None
    """Hits and misses of ZFS's cache."""


def counters(files: Mapping[str, bytes], when: str) -> Counters:
    """The snapshot in ``WHEN.diskstats``, ``WHEN.mountstats``, ``WHEN.netdev`` and ``WHEN.arcstats``."""

    def lines(kind: str) -> list[str]:
        return files.get(f"{when}.{kind}", b"").decode(errors="replace").splitlines()

    disks = {}
    for line in lines("diskstats"):
        words = line.split()
        if len(words) >= 10 and words[5].isdigit() and words[9].isdigit():
            disks[words[2]] = int(words[5]) * SECTOR, int(words[9]) * SECTOR
    nics = {}
    for line in lines("netdev"):
        name, colon, rest = line.partition(":")
        words = rest.split()
        if colon and len(words) >= 9 and words[0].isdigit() and words[8].isdigit():
            nics[name.strip()] = int(words[0]), int(words[8])
    arc = {
        words[0]: int(words[2]) for line in lines("arcstats") if len(words := line.split()) == 3 and words[2].isdigit()
    }
    hits, misses = arc.get("hits"), arc.get("misses")
    return Counters(
        disks, dict(_shares(lines("mountstats"))), nics, None if hits is None or misses is None else (hits, misses)
    )


def _shares(lines: list[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """``bytes:`` of each NFS mount: normal read, written, direct read, written, then from and to the server, pages."""
    point = ""
    for line in lines:
        if match := _MOUNT.match(line):
            point = match[2] if match[3].startswith("nfs") else ""
        words = line.split()
        if point and words[:1] == ["bytes:"] and len(words) >= 7 and words[5].isdigit() and words[6].isdigit():
            yield point, (int(words[5]), int(words[6]))


def leaves(machine: Machine) -> dict[str, str]:
    """Block devices that are built of nothing else, and multipath maps in place of their paths: name -> transport."""
    paths = {name for b in machine.blocks.values() if b.get("dm/uuid").startswith("mpath-") for name in b.slaves}
    names = {}
    for name, block in machine.blocks.items():
        built = (block.slaves and not block.get("dm/uuid").startswith("mpath-")) or block.get("partition")
        if built or block.get("loop/backing_file") or name.startswith("loop") or name in paths:
            continue
        if block.get("hidden") != "1":
            names[name] = disk(machine, block)[0].transport
    return names


def moved(
    machine: Machine, behind: Behind, way: int, load: int, *, before: Counters, after: Counters, idle: Mapping[str, int]
) -> Moved:
    """What moved while a load of ``load`` bytes read (``way`` 0) or wrote (1). ``idle``: bytes of each disk in the same
    time without it, as far as a short sample tells: with it taken off, disks are named that nobody looked up."""
    disks: dict[str, int] = {}
    known = {each.name for each in behind.disks}
    answering = 0
    for name, transport in leaves(machine).items():
        if transport in ("memory", "zvol") or name not in before.disks or name not in after.disks:
            continue
        everything = max(0, after.disks[name][way] - before.disks[name][way])
        count = everything - idle.get(name, 0)
        if load and count >= _MOVED * load:
            disks[name] = count
        if name in disks or name in known or (not known and behind.medium == "unknown"):
            answering += everything
    share = _difference(before.shares, after.shares, behind.mount_point, way)
    # a write is sent; loopback carries both ends' bytes
    nics = max((_difference(before.nics, after.nics, n, way) for n in after.nics if n != "lo"), default=0)
    local = _difference(before.nics, after.nics, "lo", way)
    network = share or (max(nics, local) if behind.medium in ("network", "unknown") else 0)
    return Moved(load, disks, network, _verdict(behind, load, answering, network))


def _difference(
    before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]], name: str, way: int
) -> int:
    return max(0, after[name][way] - before[name][way]) if name in before and name in after else 0


def _verdict(behind: Behind, load: int, disks: int, network: int) -> Verdict:
    if not load:
        return "unknown"
    if behind.medium == "network":
        # a server on this very machine moves disks too
        return "network" if network >= _ANSWERED * load else "cache"
    if disks >= _ANSWERED * load:
        return "disks"
    if network >= _ANSWERED * load:
        return "network"
    return "memory" if behind.medium == "memory" else "cache"


def probed(behind: Behind, seconds: float, ways: Mapping[str, Moved], arc: tuple[int, int] | None) -> Probed:
    """``ways``: ``read``, ``write`` -> what moved."""
    verdicts = {way.verdict for way in ways.values()}
    verdict: Verdict = next((word for word in _ORDER if word in verdicts), "unknown")
    total: dict[str, int] = {}
    for way in ways.values():
        for name, count in way.disks.items():
            total[name] = total.get(name, 0) + count
    everything = sum(total.values())
    shares = {name: total[name] / everything for name in sorted(total, key=lambda n: -total[n])}
    return Probed(behind.machine, seconds, verdict, shares, ways, arc)
