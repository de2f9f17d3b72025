"""Durability of a completed direct write and of an fsync, in words, from layers, disks and mount options. Pure.

The kernel's view: a device without a volatile cache is never flushed; to others the kernel sends a flush at fsync
(kernel: block/writeback_cache_control.rst). The kernel cannot tell whether a controller's battery protects a *write
through*, or whether a drive or an array lies.
"""

from collections.abc import Mapping, Sequence

from fairlane.machines.behind.facts import Mount
from fairlane.machines.behind.records import Disk, Flush, Layer, Medium, SyncPromise, WritePromise

_NO_BARRIER = ("nobarrier", "barrier=0")


def promise(layers: Sequence[Layer], disks: Sequence[Disk], mounts: Sequence[Mount], media: Sequence[Medium]) -> Flush:
    """``mounts``: the path's own, then those of files and directories below it."""
    if "memory" in media and "disks" not in media:
        return Flush("memory", "nothing", "Memory: a power failure loses all data; fsync has no effect.")
    kinds = {layer.kind: layer for layer in reversed(layers)}
    network = _network(kinds, media)
    if network:
        write, sync, words = network.write, network.sync, [network.words]
    elif "zfs" in kinds:
        write, sync, words = _zfs(kinds["zfs"])
    else:
        write, sync, words = _disks(kinds, disks)
    if mounts and "sync" in mounts[0].options and sync == "stable" and write != "stable":
        write = "stable"
        words.append(f"{mounts[0].point} is mounted with sync: each write is flushed before it completes.")
    lost = [(mount, option) for mount in mounts for option in mount.options if option in _NO_BARRIER]
    # nothing is flushed to a device without a volatile cache
    if lost and {disk.write_cache for disk in disks} != {"write through"}:
        sync = "nothing"
        write = "volatile"
        words.append(f"{lost[0][0].point} is mounted with {lost[0][1]}: fsync sends no flush to the device.")
    if any(mount.fstype == "overlay" and "volatile" in mount.options for mount in mounts):
        sync = "nothing"
        words.append("The overlay is volatile: fsync does nothing.")
    return Flush(write, sync, " ".join(words))


def _network(kinds: Mapping[str, Layer], media: Sequence[Medium]) -> Flush | None:
    if "nfs" in kinds:
        own = " Mounted with sync: each write is committed." if "sync" in _options(kinds["nfs"]) else ""
        return Flush(
            "server",
            "server",
            "NFS: a completed write may be only in the server's memory; an fsync makes the server commit it. Whether "
            "that reaches stable media depends on the export option (sync or async), which a client cannot read." + own,
        )
    if "cifs" in kinds:
        if "nostrictsync" in _options(kinds["cifs"]):
            return Flush("server", "nothing", "SMB with nostrictsync: fsync does not ask the server to flush.")
        return Flush(
            "server", "server", "SMB: fsync asks the server to flush; the server's settings decide what that does."
        )
    if "ceph" in kinds:
        return Flush("server", "stable", "CephFS: an fsync returns when all replicas have acknowledged the data.")
    for kind, name in (("9p", "9p"), ("virtiofs", "virtiofs"), ("share", "A network file system"), ("fuse", "FUSE")):
        if kind in kinds and "disks" not in media:
            return Flush("unknown", "unknown", f"{name}: the program that serves it decides what an fsync does.")
    return None


def _options(layer: Layer) -> Sequence[str]:
    return layer.details.get("options", "").split(",")


def _zfs(layer: Layer) -> tuple[WritePromise, SyncPromise, list[str]]:
    setting = layer.details.get("sync", "")
    if setting == "disabled":
        return "volatile", "nothing", [
            "ZFS with sync=disabled: fsync returns at once, and a power failure loses the last seconds of writes."
        ]  # fmt: skip
    if setting == "always":
        return "stable", "stable", ["ZFS with sync=always: each write is in the intent log before it completes."]
    words = ["ZFS: a completed write stays in memory for some seconds; an fsync writes it to the intent log."]
    return "volatile", "stable" if setting == "standard" else "unknown", words


def _disks(kinds: Mapping[str, Layer], disks: Sequence[Disk]) -> tuple[WritePromise, SyncPromise, list[str]]:
    if not disks:
        return (
            "unknown",
            "unknown",
            ["Fairlane does not know the disks, so it cannot tell what a completed write or an fsync guarantees."],
        )
    caches = {disk.write_cache for disk in disks}
    names = ", ".join(disk.name for disk in disks)
    write: WritePromise
    sync: SyncPromise
    if caches == {"write through"}:
        write, sync = "stable", "stable"
        words = [
            f"{names}: write through. The device reports completed writes as stable, so fsync sends no flush. "
            "A battery in the controller or array may protect them; the kernel cannot tell."
        ]
    elif "write back" in caches:
        write, sync = "volatile", "stable"
        fua = " or a write with FUA" if all(disk.fua for disk in disks) else ""
        cache = "write back. A completed write may still be in the device's volatile cache"
        words = [f"{names}: {cache}; fsync sends a flush{fua}."]
    else:
        write, sync = "unknown", "unknown"
        words = [f"{names}: the kernel does not report whether it has a volatile cache."]
    if loop := kinds.get("loop"):
        write = "volatile"
        cached = "" if loop.details.get("dio") == "yes" else " A write completes in this machine's page cache."
        file = loop.details.get("file", "its file")
        words.append(f"{loop.name} is a loop device: its flush is an fsync of {file}.{cached}")
    if "btrfs" in kinds:
        words.append("btrfs writes changed data to a new place (copy on write); fsync uses its log tree.")
    bcache = kinds.get("bcache")
    if bcache and bcache.details.get("cache_mode") == "writeback":
        words.append(f"{bcache.name} is in writeback mode: data may be only on the caching device.")
    return write, sync, words
