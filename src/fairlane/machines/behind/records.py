"""What lies behind a path, as frozen records that become plain JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

PathKind = Literal["directory", "file", "device", "other", "missing"]
Medium = Literal["disks", "network", "memory", "unknown"]
"""What holds the data: disks (also those of an array that come as disks), a file server, memory."""
WritePromise = Literal["stable", "volatile", "server", "memory", "unknown"]
"""Where a completed direct write is. ``stable``: safe from power failures, as the device reports; ``volatile``: perhaps
in a cache of the device or the kernel; ``server``: at the file server, in memory or on disk."""
SyncPromise = Literal["stable", "server", "nothing", "unknown"]
"""What an fsync adds. ``stable``: the data is on stable media, as the device reports; ``server``: the file server
commits it, as its settings decide; ``nothing``: no flush reaches the media."""

Verdict = Literal["disks", "cache", "memory", "network", "unknown"]
"""What served a probe's load. ``cache``: neither disks nor network moved as many bytes, so memory of this machine
served it, or the load read space that was never written."""


@dataclass(frozen=True)
class Disk:
    """A leaf: a block device that is not built on another device of this machine."""

    name: str
    """Kernel name."""
    identity: str
    """``kind:value`` as guest/identity.sh finds it, the best that no other disk of the machine has; empty: none."""
    model: str
    transport: str
    """nvme, nvme-tcp, nvme-rdma, nvme-fc, sata, sas, fc, iscsi, usb, virtio, virtio-scsi, scsi, mmc, xen, hyper-v, nbd,
    rbd, drbd, pmem, null, scsi-debug, memory, zvol; empty: not known."""
    bytes: int
    rotational: bool | None
    write_cache: str
    """``write back`` or ``write through``, the kernel's view; empty: not known."""
    fua: bool | None
    scheduler: str
    numa_node: int | None
    """None: the machine has one node, or does not say."""
    removable: bool
    logical_block_size: int | None
    read_only: bool = False

    @property
    def flash(self) -> bool:
        """Whether it is a local solid-state drive, as far as the kernel knows; what an array or a hypervisor has behind
        its disks, nobody here does."""
        return self.rotational is False and self.transport in ("nvme", "sata", "sas", "usb", "mmc")


@dataclass(frozen=True)
class Layer:
    """One layer between a path and its disks."""

    kind: str
    """partition, crypt, lvm, thin, thin-pool, dm, md, multipath, nvme-multipath, loop, bcache, rbd, zfs, zvol, btrfs,
    overlay, nfs, cifs, ceph, fuse, 9p, virtiofs, share, tmpfs, zram."""
    name: str
    """Kernel name, or that of the pool, the share, the upper directory."""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Volume:
    """Something that can fill up: a file system, a thin pool, a ZFS pool."""

    kind: Literal["file-system", "thin-pool", "thin-metadata", "zfs-pool"]
    name: str
    total_bytes: int
    """Of thin metadata in blocks of 4 KiB: only the share counts."""
    free_bytes: int

    @property
    def used(self) -> float:
        """Share in use."""
        return 1 - self.free_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True)
class Flush:
    """What a completed direct write and an fsync promise."""

    write: WritePromise
    sync: SyncPromise
    words: str
    """Sentences for readers."""


@dataclass(frozen=True)
class Direct:
    """Whether direct I/O (O_DIRECT) works there, tried; ``works`` None: could not be tried, ``reason`` says why."""

    works: bool | None
    block: int | None = None
    """Smallest block size in bytes that worked, of 512 and 4096."""
    reason: str = ""


@dataclass(frozen=True)
class Behind:
    """What lies behind one path of one machine."""

    machine: str
    path: str
    """The path as the caller gave it."""
    kind: PathKind
    real: str = ""
    """Without links; empty: missing."""
    device: str = ""
    """``MAJOR:MINOR`` of the file system (st_dev), or of the device itself."""
    inode: int = 0
    """0 for a device."""
    size: int | None = None
    """Bytes of the file or device."""
    allocated: int | None = None
    """Bytes that the file occupies."""
    mount_point: str = ""
    source: str = ""
    fstype: str = ""
    options: tuple[str, ...] = ()
    """Of the mount, then of the file system, each once."""
    total_bytes: int | None = None
    free_bytes: int | None = None
    """Available to users who are not root."""
    inodes: int | None = None
    """0: the file system makes them as needed."""
    free_inodes: int | None = None
    read_only: bool = False
    readable: bool = False
    writable: bool = False
    medium: Medium = "unknown"
    server: str = ""
    """``SERVER:SHARE`` of a network file system."""
    disks: tuple[Disk, ...] = ()
    stack: tuple[Layer, ...] = ()
    """From the path down."""
    thin: tuple[str, ...] = ()
    """Why its space is allocated only when written, one reason each; empty: it is not, as far as this machine knows."""
    volumes: tuple[Volume, ...] = ()
    direct: Direct = Direct(None)
    flush: Flush = Flush("unknown", "unknown", "")
    used: tuple[str, ...] = ()
    """Of a device: who uses it (``mounted at /x``, ``swap``, ``part of dm-3``)."""
    missing: str = ""
    """Why the path does not exist, where more is known than that."""

    def as_json(self) -> dict[str, Any]:
        """Plain JSON: the fields by name; ``volumes`` with ``used``, ``disks`` with ``flash``."""
        tree = asdict(self)
        for name in ("options", "thin", "used"):
            tree[name] = list(tree[name])
        tree["disks"] = [asdict(disk) | {"flash": disk.flash} for disk in self.disks]
        tree["stack"] = [{"kind": x.kind, "name": x.name, "details": dict(x.details)} for x in self.stack]
        tree["volumes"] = [asdict(volume) | {"used": volume.used} for volume in self.volumes]
        return tree


@dataclass(frozen=True)
class Moved:
    """What one direction of a probe's load moved."""

    load_bytes: int
    disks: Mapping[str, int]
    """Disk -> bytes, of disks that moved a tenth of the load's bytes or more."""
    network_bytes: int
    """From or to the server of a network file system."""
    verdict: Verdict

    @property
    def ratio(self) -> float | None:
        """Bytes at the disks / bytes of the load; None: no load."""
        return sum(self.disks.values()) / self.load_bytes if self.load_bytes else None


@dataclass(frozen=True)
class Probed:
    """What a short load on a path moved: measured, whatever was looked up."""

    machine: str
    seconds: float
    verdict: Verdict
    """The one of its directions that says less of the disks."""
    disks: Mapping[str, float]
    """Disk -> share of the bytes that all disks moved, the largest first."""
    ways: Mapping[str, Moved]
    """``read``, ``write``."""
    arc: tuple[int, int] | None = None
    """Hits and misses of ZFS's cache meanwhile; None: no ZFS."""
    failed: str = ""
    """Why there was no load; empty: there was."""

    def as_json(self) -> dict[str, Any]:
        """Plain JSON: the fields by name, ``read`` and ``write`` in place of ``ways``, each with ``ratio``."""
        ways = {
            name: {"load_bytes": way.load_bytes, "disk_bytes": sum(way.disks.values()), "ratio": way.ratio,
                   "network_bytes": way.network_bytes, "disks": dict(way.disks), "verdict": way.verdict}
            for name, way in self.ways.items()
        }  # fmt: skip
        arc = {"hits": self.arc[0], "misses": self.arc[1]} if self.arc else None
        own = {"machine": self.machine, "seconds": self.seconds, "verdict": self.verdict, "disks": dict(self.disks)}
        return {**own, **ways, "arc": arc, "failed": self.failed}
