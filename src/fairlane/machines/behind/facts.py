"""The facts that guest/behind.sh writes down, parsed: block devices, mounts, pools, paths. Pure.

Everything is read leniently: what another kernel does not say, or says otherwise, is missing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fairlane.machines.behind.records import PathKind

_KINDS: Mapping[str, PathKind] = {"directory": "directory", "file": "file", "device": "device"}
_OCTAL = re.compile(r"\\([0-7]{3})")
SECTOR = 512
"""Unit of /sys/class/block/*/size and of device mapper's tables, whatever the block size."""


@dataclass(frozen=True)
class Mount:
    """A line of /proc/self/mountinfo (kernel: filesystems/proc.rst, 3.5)."""

    number: str
    """``MAJOR:MINOR`` of the file system."""
    root: str
    point: str
    fstype: str
    source: str
    options: tuple[str, ...]
    """Of the mount, then of the file system, each once."""
    read_only: bool


@dataclass(frozen=True)
class Block:
    """A block device: what its folder in /sys/class/block holds."""

    name: str
    facts: Mapping[str, str]
    """File below the folder -> its first line; ``at``: the folder without links."""
    slaves: tuple[str, ...]

    def get(self, key: str) -> str:
        return self.facts.get(key, "").strip()

    def number(self, key: str) -> int | None:
        text = self.get(key)
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else None

    def flag(self, key: str) -> bool | None:
        return {"0": False, "1": True}.get(self.get(key))

    @property
    def bytes(self) -> int:
        return (self.number("size") or 0) * SECTOR


@dataclass(frozen=True)
class PathFacts:
    """What behind_path printed for one path; ``exists`` False: nothing else is known."""

    exists: bool
    missing: str = ""
    kind: PathKind = "other"
    real: str = ""
    device: str = ""
    inode: int = 0
    node: str = ""
    """``MAJOR:MINOR`` of a device node itself."""
    size: int = 0
    allocated: int = 0
    owner: int = 0
    space: tuple[int, ...] = ()
    """Block size, blocks, free, available to users, inodes, free inodes; empty: not known."""
    readable: bool = False
    writable: bool = False
    create: bool = True
    """Whether a new file could be made in the directory; True where it was not tried."""
    direct: str = ""
    """Block size that direct I/O took, ``no``, or empty: not tried."""
    direct_error: str = ""


@dataclass(frozen=True)
class Machine:
    """The facts of one machine."""

    name: str
    mounts: tuple[Mount, ...] = ()
    blocks: Mapping[str, Block] = field(default_factory=dict)
    identities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Disk -> all its identities, the best first."""
    swaps: tuple[str, ...] = ()
    btrfs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """UUID -> kernel names of its devices."""
    dm_table: Mapping[str, str] = field(default_factory=dict)
    """Name of the map -> its table's lines."""
    dm_status: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, "Pool"] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    zvols: Mapping[str, str] = field(default_factory=dict)
    """Kernel name (zd0) -> dataset."""
    controllers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """NVMe controller -> transport, address, state, model."""

    @cached_property
    def by_number(self) -> Mapping[str, Block]:
        """``MAJOR:MINOR`` -> block device."""
        return {block.get("dev"): block for block in self.blocks.values() if block.get("dev")}

    @cached_property
    def above(self) -> Mapping[str, tuple[str, ...]]:
        """Block device -> what is built on it: partitions, maps, arrays."""
        above: dict[str, list[str]] = {}
        for block in self.blocks.values():
            for below in (*block.slaves, *filter(None, [self.whole(block)])):
                above.setdefault(below, []).append(block.name)
        return {name: tuple(names) for name, names in above.items()}

    def whole(self, block: Block) -> str:
        """The disk of a partition; empty for what is none."""
        return block.get("at").rpartition("/")[0].rpartition("/")[2] if block.get("partition") else ""

    def identity(self, name: str) -> str:
        """The best identity that no other disk has; empty: none."""
        for identity in self.identities.get(name, ()):
            if [n for n, ids in self.identities.items() if identity in ids] == [name]:
                return identity
        return ""

    def mount_of(self, path: str, number: str) -> Mount | None:
        """The mount that holds ``path``: of those above it, the innermost with its device number, else the innermost
        (btrfs and overlays show numbers of their own)."""
        over = [m for m in self.mounts if path == m.point or path.startswith(m.point.rstrip("/") + "/")]
        # the later of two at one point hides the earlier
        over = [mount for _, mount in sorted(enumerate(over), key=lambda at: (len(at[1].point), at[0]), reverse=True)]
        return next((m for m in over if m.number == number), over[0] if over else None)


@dataclass(frozen=True)
class Pool:
    """A ZFS pool."""

    size: int
    free: int
    health: str
    leaves: tuple[str, ...]
    """Paths of its devices and files."""


def machine(name: str, files: Mapping[str, bytes]) -> Machine:
    """The facts in the files that behind_machine left."""
    texts = {key: data.decode(errors="replace") for key, data in files.items()}

    def lines(key: str) -> list[str]:
        return texts.get(key, "").splitlines()

    blocks, controllers = _blocks(lines("blocks"))
    btrfs: dict[str, list[str]] = {}
    for uuid, device in _pairs(lines("btrfs")):
        btrfs.setdefault(uuid, []).append(device)
    datasets: dict[str, dict[str, str]] = {}
    for line in lines("zfs"):
        dataset, _, rest = line.partition("\t")
        key, _, value = rest.partition("\t")
        datasets.setdefault(dataset, {})[key] = value
    return Machine(
        name,
        tuple(_mounts(lines("mountinfo"))),
        blocks,
        {words[0]: tuple(words[1:]) for line in lines("identities") if (words := line.split())},
        tuple(_text(words[0]) for line in lines("swaps")[1:] if (words := line.split())),
        {uuid: tuple(devices) for uuid, devices in btrfs.items()},
        _maps(lines("dm.table")),
        _maps(lines("dm.status")),
        _pools(lines("zpool")),
        datasets,
        {node.rpartition("/")[2]: dataset for dataset, node in _pairs(lines("zvol"))},
        controllers,
    )


def path_facts(text: str) -> PathFacts:
    """The rows that behind_path printed."""
    rows = dict(_pairs(text.splitlines()))
    if "kind" not in rows:
        return PathFacts(False, rows.get("missing", ""))
    kind = _KINDS.get(rows["kind"], "other")
    words = rows.get("stat", "").split()
    if len(words) < 9:
        return PathFacts(True, kind=kind, real=rows.get("real", ""))
    number, inode, major, minor, size, blocks, unit, owner, _ = words
    space = tuple(int(word) for word in rows.get("statfs", "").split() if word.isdigit())
    return PathFacts(
        True, "", kind, rows.get("real", ""), _device(number), _count(inode),
        f"{int(major, 16)}:{int(minor, 16)}",
        _count(size), _count(blocks) * _count(unit), _count(owner), space if len(space) == 6 else (),
        rows.get("readable") == "1", rows.get("writable") == "1", rows.get("create") != "no",
        rows.get("direct", ""), rows.get("direct.error", ""),
    )  # fmt: skip


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _device(text: str) -> str:
    """``MAJOR:MINOR`` of a dev_t as glibc's stat prints it (sys/sysmacros.h)."""
    number = _count(text)
    major = ((number >> 8) & 0xFFF) | ((number >> 32) & 0xFFFFF000)
    return f"{major}:{(number & 0xFF) | ((number >> 12) & 0xFFFFFF00)}"


def _pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        key, tab, value = line.partition("\t")
        if tab:
            yield key, value


def _text(word: str) -> str:
    """A path of /proc: blanks and the like are octal there."""
    if "\\" not in word:
        return word
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), word).encode("latin-1", "replace").decode(errors="replace")


def _mounts(lines: list[str]) -> Iterator[Mount]:
    for line in lines:
        left, dash, right = line.partition(" - ")
        words, more = left.split(), right.split(" ")
        if not dash or len(words) < 6 or len(more) < 2:
            continue
        own, super_options = words[5].split(","), more[2].split(",") if len(more) > 2 else []
        options = dict.fromkeys(_text(o) for o in (*own, *super_options) if o)
        read_only = "ro" in own or "ro" in super_options
        options.pop("rw" if read_only else "ro", None)
        yield Mount(words[2], _text(words[3]), _text(words[4]), more[0], _text(more[1]), tuple(options), read_only)


def _blocks(lines: list[str]) -> tuple[dict[str, Block], dict[str, dict[str, str]]]:
    facts: dict[str, dict[str, str]] = {}
    slaves: dict[str, list[str]] = {}
    controllers: dict[str, dict[str, str]] = {}
    for line in lines:
        name, _, rest = line.partition("\t")
        key, tab, value = rest.partition("\t")
        if not tab:
            continue
        if key == "slave":
            slaves.setdefault(name, []).append(value)
        elif key.startswith("controller/"):
            controllers.setdefault(name, {})[key.removeprefix("controller/")] = value.strip()
        else:
            facts.setdefault(name, {})[key] = value
    return {name: Block(name, f, tuple(slaves.get(name, ()))) for name, f in facts.items()}, controllers


def _maps(lines: list[str]) -> dict[str, str]:
    """``dmsetup table`` or ``status``: ``NAME: 0 2048 linear 8:2 2048``, one line a target."""
    maps: dict[str, list[str]] = {}
    for line in lines:
        name, colon, rest = line.partition(": ")
        if colon:
            maps.setdefault(name, []).append(rest)
    return {name: "\n".join(targets) for name, targets in maps.items()}


def _pools(lines: list[str]) -> dict[str, Pool]:
    """``zpool list -vpPH``: a line per pool, then its devices, indented by a tab; columns NAME SIZE ALLOC FREE CKPOINT
    EXPANDSZ FRAG CAP DEDUP HEALTH (zpool-list(8)). Caches and spares hold no data of their own."""
    pools: dict[str, Pool] = {}
    name, section = "", ""
    for line in lines:
        words = line.split()
        if not words:
            continue
        if words[0] in ("logs", "cache", "spares", "special", "dedup"):
            section = words[0]
        elif not line.startswith(("\t", " ")):
            if len(words) < 4:
                continue
            name, section = words[0], ""
            pools[name] = Pool(_zsize(words[1]), _zsize(words[3]), words[9] if len(words) > 9 else "", ())
        elif name and words[0].startswith("/") and section not in ("cache", "spares"):
            pool = pools[name]
            pools[name] = Pool(pool.size, pool.free, pool.health, (*pool.leaves, words[0]))
    return pools


def _zsize(word: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([BKMGTPE]?)", word)
    return round(float(match[1]) * 1024 ** "BKMGTPE".find(match[2] or "B")) if match else 0
