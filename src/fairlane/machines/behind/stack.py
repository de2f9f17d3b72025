"""From a path down to its disks: layers, disks, volumes that can fill, read from the facts of a machine. Pure."""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fairlane.machines.behind import flush
from fairlane.machines.behind.facts import Block, Machine, Mount, PathFacts
from fairlane.machines.behind.leaves import disk
from fairlane.machines.behind.records import Behind, Direct, Disk, Layer, Medium, Volume
from fairlane.units import about_size

_NETWORK = {
    "nfs": "nfs", "nfs4": "nfs", "cifs": "cifs", "smb3": "cifs", "ceph": "ceph", "9p": "9p", "virtiofs": "virtiofs",
    "glusterfs": "share", "lustre": "share", "beegfs": "share", "gpfs": "share", "afs": "share", "ocfs2": "share",
}  # fmt: skip
"""File system types whose data is elsewhere -> kind of layer."""
_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_LVM = re.compile(r"LVM-\w{64}(-\w+)?$")
"""dm UUID of a logical volume; the suffix tells hidden ones (``-tpool``)."""
_SPARSE = 0.98
"""Least share of a file's bytes that are allocated in one that was written in full; file systems round by less."""
_DEEPEST = 12
_SAVES = ("compression", "dedup")
"""Details of a layer that stores less than is written."""


@dataclass
class _Walk:
    """What is collected on the way down."""

    machine: Machine
    paths: Mapping[str, PathFacts]
    layers: list[Layer] = field(default_factory=list)
    disks: dict[str, Disk] = field(default_factory=dict)
    thin: list[str] = field(default_factory=list)
    volumes: dict[tuple[str, str], Volume] = field(default_factory=dict)
    media: list[Medium] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    wanted: set[str] = field(default_factory=set)
    """Paths whose facts are needed to go on."""
    server: str = ""
    seen: set[str] = field(default_factory=set)

    def layer(self, kind: str, name: str, **details: str) -> None:
        found = Layer(kind, name, {key: value for key, value in details.items() if value})
        if found not in self.layers:
            self.layers.append(found)

    def facts(self, path: str) -> PathFacts | None:
        """The facts of a path; None, and wanted, while they are missing."""
        if path not in self.paths:
            self.wanted.add(path)
        return self.paths.get(path)


def resolve(machine: Machine, path: str, paths: Mapping[str, PathFacts]) -> tuple[Behind, set[str]]:
    """What is behind ``path``, and further paths whose facts it takes to say all. ``paths``: facts by path."""
    facts = paths.get(path) or PathFacts(False)
    if not facts.exists:
        return Behind(machine.name, path, "missing", missing=facts.missing), set()
    walk = _Walk(machine, paths)
    block = machine.by_number.get(facts.node) if facts.kind == "device" else None
    mount = None
    if block:
        _block(walk, block, 0)
    elif facts.kind != "device":
        mount = _file(walk, facts, 0)
    used = tuple(dict.fromkeys(_uses(machine, block))) if block else ()
    read_only = bool(block.flag("ro")) if block else mount is not None and mount.read_only
    total, free, inodes, free_inodes = _space(facts)
    disks, layers = tuple(walk.disks.values()), tuple(walk.layers)
    found = Behind(
        machine.name,
        path,
        facts.kind,
        real=facts.real,
        device=facts.node if block else facts.device,
        inode=0 if block else facts.inode,
        size=block.bytes if block else facts.size if facts.kind == "file" else None,
        allocated=facts.allocated if facts.kind == "file" else None,
        mount_point=mount.point if mount else "",
        source=mount.source if mount else "",
        fstype=mount.fstype if mount else "",
        options=mount.options if mount else (),
        total_bytes=total,
        free_bytes=free,
        inodes=inodes,
        free_inodes=free_inodes,
        read_only=read_only,
        readable=facts.readable,
        writable=facts.writable and facts.create and not read_only,
        medium=_medium(walk.media),
        server=walk.server,
        disks=disks,
        stack=layers,
        thin=tuple(dict.fromkeys(walk.thin)),
        volumes=tuple(walk.volumes.values()),
        direct=_direct(facts),
        flush=flush.promise(layers, disks, walk.mounts, walk.media),
        used=used,
    )
    return found, walk.wanted


def _direct(facts: PathFacts) -> Direct:
    if facts.direct.isdigit():
        return Direct(True, int(facts.direct))
    if facts.direct == "no":
        return Direct(False, reason=facts.direct_error)
    return Direct(None, reason="" if facts.readable else "not readable")


def _space(facts: PathFacts) -> tuple[int | None, int | None, int | None, int | None]:
    if not facts.space:
        return None, None, None, None
    unit, blocks, _, free, inodes, free_inodes = facts.space
    return unit * blocks, unit * free, inodes, free_inodes


def _medium(media: list[Medium]) -> Medium:
    return media[0] if len(set(media)) == 1 else "unknown"


def _file(walk: _Walk, facts: PathFacts, depth: int) -> Mount | None:
    """A file or directory: its mount, and what is below that."""
    mount = walk.machine.mount_of(facts.real, facts.device)
    if not mount or depth > _DEEPEST:
        return mount
    walk.mounts.append(mount)
    if facts.kind == "file" and facts.size and facts.allocated < _SPARSE * facts.size:
        held, size = about_size(facts.allocated), about_size(facts.size)
        walk.thin.append(f"{facts.real} is sparse: {held} of {size} are allocated")
    total, free, _, _ = _space(facts)
    # ZFS makes up a size for each dataset: the pool's own counts. An overlay's is that of its upper directory
    if total and free is not None and mount.fstype not in ("zfs", "overlay", *_MEMORY):
        walk.volumes[mount.number, mount.point] = Volume("file-system", mount.point, total, free)
    _mounted(walk, mount, depth + 1)
    return mount


def _mounted(walk: _Walk, mount: Mount, depth: int) -> None:
    kind = mount.fstype
    if kind in _MEMORY:
        walk.layer("tmpfs", mount.source, fstype=kind)
        walk.media.append("memory")
    elif kind in _NETWORK:
        walk.layer(_NETWORK[kind], mount.source, fstype=kind, options=",".join(mount.options))
        walk.server = walk.server or mount.source
        walk.media.append("network")
    elif kind == "overlay":
        _overlay(walk, mount, depth)
    elif kind == "zfs":
        pool = mount.source.partition("/")[0]
        _dataset(walk, pool, mount.source, depth)
    elif block := walk.machine.by_number.get(mount.number):
        if kind.startswith("fuse"):  # fuseblk
            walk.layer("fuse", mount.source, fstype=kind)
        _block(walk, block, depth)
    elif kind.startswith("fuse"):
        walk.layer("fuse", mount.source, fstype=kind)
        walk.media.append("unknown")
    else:
        _of_source(walk, mount, depth)


def _of_source(walk: _Walk, mount: Mount, depth: int) -> None:
    """File systems with an anonymous number: btrfs by its devices, bcachefs by the list in its source."""
    blocks = []
    for source in mount.source.split(":/"):
        path = source if source.startswith("/") else f"/{source}"
        facts = walk.facts(path)
        if facts and (block := walk.machine.by_number.get(facts.node)):
            blocks.append(block)
    if mount.fstype == "btrfs" and blocks:
        uuid, names = next(
            ((u, names) for u, names in walk.machine.btrfs.items() if blocks[0].name in names), ("", (blocks[0].name,))
        )
        options = dict(option.partition("=")[::2] for option in mount.options)
        compression = options.get("compress-force") or options.get("compress", "")
        walk.layer("btrfs", mount.source, uuid=uuid, devices=" ".join(names), compression=compression)
        blocks = [walk.machine.blocks[name] for name in names if name in walk.machine.blocks]
    for block in blocks:
        _block(walk, block, depth)
    if not blocks:
        walk.media.append("unknown")


def _overlay(walk: _Walk, mount: Mount, depth: int) -> None:
    options = dict(option.partition("=")[::2] for option in mount.options)
    upper = options.get("upperdir", "")
    walk.layer("overlay", upper or "read-only", lower=options.get("lowerdir", ""))
    facts = walk.facts(upper) if upper else None
    if facts and facts.exists and walk.machine.mount_of(facts.real, facts.device) != mount:
        _file(walk, facts, depth)
    else:
        walk.media.append("unknown")  # of a container: its upper directory is not seen from within


def _dataset(walk: _Walk, pool: str, dataset: str, depth: int) -> None:
    found = walk.machine.pools.get(pool)
    known = walk.machine.datasets.get(dataset, {})
    details = {key: known.get(key, "") for key in ("sync", "primarycache", "recordsize", *_SAVES)}
    details |= {key: "" for key in _SAVES if details[key] == "off"}
    walk.layer("zfs", dataset, pool=pool, health=found.health if found else "", **details)
    if not found:
        walk.media.append("unknown")
        return
    walk.volumes["zfs-pool", pool] = Volume("zfs-pool", pool, found.size, found.free)
    for leaf in found.leaves:
        facts = walk.facts(leaf)
        if not facts:
            continue
        if block := walk.machine.by_number.get(facts.node) if facts.kind == "device" else None:
            _block(walk, block, depth)
        elif facts.kind == "file":
            _file(walk, facts, depth)


def _block(walk: _Walk, block: Block, depth: int) -> None:
    if block.name in walk.seen or depth > _DEEPEST:
        return
    walk.seen.add(block.name)
    below = [walk.machine.blocks[name] for name in block.slaves if name in walk.machine.blocks]
    uuid = block.get("dm/uuid")
    if whole := walk.machine.whole(block):
        walk.layer("partition", block.name, of=whole)
        below = [walk.machine.blocks[whole]] if whole in walk.machine.blocks else []
    elif block.get("loop/backing_file"):
        _loop(walk, block, depth)
        return
    elif uuid.startswith("mpath-"):
        states = {b.name: b.get("device/state") or "unknown" for b in below}
        walk.layer("multipath", block.name, map=block.get("dm/name"), **states)
        _leaf(walk, block, below[0] if below else None)
        return
    elif block.get("dm/name"):
        _mapped(walk, block, uuid)
    elif block.get("md/level"):
        walk.layer("md", block.name, level=block.get("md/level"), devices=" ".join(block.slaves))
    elif block.name.startswith("bcache"):
        walk.layer("bcache", block.name, cache_mode=_chosen(block.get("bcache/cache_mode")))
    elif dataset := walk.machine.zvols.get(block.name):
        known = walk.machine.datasets.get(dataset, {})
        walk.layer("zvol", block.name, dataset=dataset)
        if known.get("refreservation", "") in ("0", "none"):
            walk.thin.append(f"{dataset} has no reservation (refreservation=none)")
        _dataset(walk, dataset.partition("/")[0], dataset, depth + 1)
        return
    if not below:
        _leaf(walk, block, None)
    for each in below:
        _block(walk, each, depth + 1)


def _leaf(walk: _Walk, block: Block, path: Block | None) -> None:
    """A disk; ``path``: one of the devices that lead to it, of multipath."""
    found, layer = disk(walk.machine, block, path)
    if found.transport == "rbd":
        walk.layer("rbd", block.name, pool=block.get("device/pool"), image=block.get("device/name"))
    if layer:
        walk.layer(layer.kind, layer.name, **layer.details)
    walk.disks[block.name] = found
    walk.media.append("memory" if found.transport == "memory" else "disks")
    if (path or block).get("scsi/thin_provisioning") == "1":
        walk.thin.append(f"{block.name} is thin at its array (scsi_disk/thin_provisioning)")


def _mapped(walk: _Walk, block: Block, uuid: str) -> None:
    """A device-mapper map that is no multipath."""
    name = block.get("dm/name")
    table = walk.machine.dm_table.get(name, "")
    targets = " ".join(dict.fromkeys(w[2] for line in table.splitlines() if len(w := line.split()) > 2))
    lvm = _LVM.match(uuid)
    pools = [b for s in block.slaves if (b := walk.machine.blocks.get(s)) and b.get("dm/uuid").endswith("-tpool")]
    if uuid.startswith("CRYPT-"):
        walk.layer("crypt", block.name, map=name, format=uuid.split("-")[1])
    elif uuid.endswith("-tpool") or targets == "thin-pool":
        walk.layer("thin-pool", block.name, map=name)
        _pool_fill(walk, name, block)
    elif pools or targets == "thin":
        walk.layer("thin", block.name, map=name)
        walk.thin.append(f"{name} is a thin volume of {pools[0].get('dm/name') if pools else 'a pool'}")
    elif lvm:
        walk.layer("lvm", block.name, map=name, targets=targets, **_vdo(table))
    else:
        walk.layer("dm", block.name, map=name, targets=targets, **_vdo(table))


def _vdo(table: str) -> dict[str, str]:
    """What dm-vdo saves: it deduplicates and does not compress, unless its table says otherwise (kernel:
    device-mapper/vdo.rst)."""
    words = next((w for line in table.splitlines() if (w := line.split())[2:3] == ["vdo"]), [])
    if not words:
        return {}
    chosen = {"compression": "off", "deduplication": "on"} | dict(itertools.pairwise(words))
    saved = {"compression": chosen["compression"], "dedup": chosen["deduplication"]}
    return {key: f"vdo {value}" for key, value in saved.items() if value != "off"}


def _pool_fill(walk: _Walk, name: str, block: Block) -> None:
    """``0 N thin-pool TXID USED/TOTAL USED/TOTAL ...``: blocks of metadata (4 KiB), then of data (kernel:
    device-mapper/thin-provisioning.rst)."""
    words = walk.machine.dm_status.get(name, "").split()
    if len(words) < 6 or words[2] != "thin-pool":
        return
    for kind, word, size in (("thin-pool", words[5], block.bytes), ("thin-metadata", words[4], 0)):
        used, _, total = word.partition("/")
        if used.isdigit() and total.isdigit() and int(total):
            unit = size // int(total) or 4096
            bytes_ = int(total) * unit
            walk.volumes[kind, name] = Volume(kind, name, bytes_, bytes_ - int(used) * unit)  # type: ignore[arg-type]


def _loop(walk: _Walk, block: Block, depth: int) -> None:
    file = block.get("loop/backing_file")
    gone = file.endswith(" (deleted)")
    dio = {True: "yes", False: "no"}.get(block.flag("loop/dio"), "")  # type: ignore[arg-type]
    walk.layer("loop", block.name, file=file, dio=dio)
    facts = None if gone else walk.facts(file)
    if gone or (facts and not facts.exists):
        walk.media.append("unknown")
    elif facts and facts.kind == "device":
        if on := walk.machine.by_number.get(facts.node):
            _block(walk, on, depth + 1)
    elif facts:
        _file(walk, facts, depth + 1)


def _chosen(text: str) -> str:
    """The word in brackets of ``writethrough [writeback] none``."""
    match = re.search(r"\[([\w-]+)\]", text)
    return match[1] if match else text


def _uses(machine: Machine, block: Block) -> Iterator[str]:
    """Who uses a device, its partitions, or what is built on them."""
    todo, done = [block.name], set()
    while todo:
        name = todo.pop(0)
        if name in done or name not in machine.blocks:
            continue
        done.add(name)
        number = machine.blocks[name].get("dev")
        members = {u for u, names in machine.btrfs.items() if name in names}
        for mount in machine.mounts:
            at_source = mount.source in (f"/dev/{name}", f"/dev/mapper/{machine.blocks[name].get('dm/name') or '-'}")
            if mount.number == number or (at_source and mount.fstype not in ("devtmpfs", "tmpfs")):
                yield f"mounted at {mount.point}"
        if members and not any(mount.source == f"/dev/{name}" for mount in machine.mounts):
            yield "part of a btrfs file system"
        if f"/dev/{name}" in machine.swaps:
            yield "in use as swap"
        for above in machine.above.get(name, ()):
            if machine.whole(machine.blocks[above]) != name:
                yield f"part of {above}"
            todo.append(above)
        for loop in machine.blocks.values():
            if loop.get("loop/backing_file") == f"/dev/{name}":
                yield f"the backing device of {loop.name}"
