"""Problems that stop a run before it starts, and warnings about the comparison, from what lies behind paths. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from fairlane.checks import _behind
from fairlane.errors import FairlaneError
from fairlane.machines.behind.records import Behind, Probed
from fairlane.records import Finding
from fairlane.units import about_size, format_size

_MEMORY = "name a directory on a disk; to measure memory on purpose, {cached}"
_STUDY, _OPTION = "set direct: false in the workload", "add --buffered"
"""How to allow a load through the page cache: in a study, and on a command line."""
_HERE = "here"


def problems(
    behinds: Mapping[str, Behind],
    *,
    buffered: bool,
    writes: bool,
    size: int = 0,
    keep_free: int = 0,
    labels: Mapping[str, str] | None = None,
) -> list[FairlaneError]:
    """Why these lanes must not start, by lane (name -> what is behind its path); empty: they may.

    ``buffered``: the load goes without O_DIRECT. ``writes``: the load writes, also to files and devices. ``size``:
    bytes of the file that each lane gets in its directory; ``keep_free``: bytes that must stay free beside them. The
    caller leaves out lanes that share a path on purpose (copies). ``labels``: on a command line without a study, the
    paths as the user typed them (lane -> label). Kinds: path-missing, path-kind, same-path, not-readable, not-writable,
    read-only, no-space, no-inodes, direct-unsupported, in-memory, device-used."""
    found: list[FairlaneError] = []
    for lane, behind in behinds.items():
        label = labels.get(lane) if labels is not None else None
        found += _own(lane, behind, label, buffered=buffered, writes=writes)
    return [*found, *_twice(behinds, labels), *_space(behinds, size, keep_free, labels)]


def warnings(
    behinds: Mapping[str, Behind],
    probed: Mapping[str, Probed] | None = None,
    *,
    writes: bool = True,
    syncs: bool = False,
) -> list[Finding]:
    """Findings that the checks will report for these lanes whatever the figures; the first lane is the baseline.

    ``writes``, ``syncs``: whether the workload writes, and syncs what it writes."""
    lanes = {
        name: _behind.Lane(
            name,
            {behind.machine: behind.as_json()},
            {behind.machine: probed[name].as_json()} if probed and name in probed else {},
        )
        for name, behind in behinds.items()
    }
    return _behind.outlook(lanes, writes=writes, syncs=syncs)


def _own(lane: str, behind: Behind, label: str | None, *, buffered: bool, writes: bool) -> Iterator[FairlaneError]:
    cached = _STUDY if label is None else _OPTION
    machine = "this machine" if behind.machine == _HERE else behind.machine

    def error(kind: str, message: str, hint: str) -> FairlaneError:
        if label is None:
            return FairlaneError(kind, f"{behind.path} on {behind.machine} {message}", hint=hint, where=f"lanes.{lane}")
        name = behind.path if label.endswith(behind.path) else f"{label} ({behind.path})"
        elsewhere = f" on {behind.machine}" if behind.machine != _HERE and kind != "path-missing" else ""
        return FairlaneError(kind, f"{name}{elsewhere} {message}", hint=hint)

    if behind.kind == "missing":
        reason = behind.missing or "does not exist"
        yield error(
            "path-missing", reason if label is None else f"{reason} on {machine}", "create it, or correct the path"
        )
        return
    if behind.kind == "other":
        yield error("path-kind", "is not a directory, file or block device", "name a directory, a file or a disk")
        return
    made = behind.kind == "directory"
    if (made or writes) and behind.read_only:
        hint = (
            f"mount -o remount,rw {behind.mount_point}"
            if behind.mount_point
            else "blockdev --setrw, or change it at the array"
        )
        yield error("read-only", "is read-only", f"make it writable: {hint}")
    elif (made or writes) and not behind.writable:
        yield error("not-writable", "is not writable by this user", "run as its owner or as root")
    elif not behind.readable:
        yield error("not-readable", "is not readable by this user", "run as its owner or as root")
    if behind.fstype in ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs") and not buffered:
        yield error("in-memory", f"is in memory ({behind.fstype}), not on a disk", _MEMORY.format(cached=cached))
    elif behind.direct.works is False and not buffered:
        reason = f": {behind.direct.reason}" if behind.direct.reason else ""
        yield error(
            "direct-unsupported",
            f"does not support direct I/O ({behind.fstype or 'device'}){reason}",
            f"the page cache would serve the I/O; to measure it too, {cached}",
        )
    if behind.kind == "device" and writes and behind.used:
        yield error(
            "device-used",
            f"is in use: {', '.join(behind.used[:3])}",
            "unmount or release it, or name a directory on it",
        )


def _twice(behinds: Mapping[str, Behind], labels: Mapping[str, str] | None) -> Iterator[FairlaneError]:
    """The same directory, file or device under two names: links and bind mounts lead to one device number and inode."""
    first: dict[tuple[str, str, int], str] = {}
    for lane, behind in behinds.items():
        if behind.kind not in ("directory", "file", "device") or not behind.device:
            continue
        key = behind.machine, behind.device, behind.inode
        other = first.setdefault(key, lane)
        if other == lane:
            continue
        same = behinds[other]
        also = "" if same.path == behind.path else f" (the same as {same.path})"
        if labels is not None:
            first_, second = labels.get(other, other), labels.get(lane, lane)
            thing = "directories" if behind.kind == "directory" else f"{behind.kind}s"
            yield FairlaneError(
                "same-path",
                f"{first_} and {second} are the same {behind.kind}: {behind.real or behind.path}",
                hint=f"name two different {thing}",
            )
            continue
        yield FairlaneError(
            "same-path",
            f"{other} and {lane} name the same {behind.kind}: {behind.path}{also}",
            hint="give each lane a path of its own; to compare a path with itself, use copy_of",
            where=f"lanes.{lane}",
        )


def _space(
    behinds: Mapping[str, Behind], size: int, keep_free: int, labels: Mapping[str, str] | None
) -> Iterator[FairlaneError]:
    """Room for one file a lane: on its file system, and on what is below that where it allocates when written."""
    by_system: dict[tuple[str, str], list[str]] = {}
    for lane, behind in behinds.items():
        if behind.kind == "directory" and size:
            # subvolumes and datasets have numbers of their own, and one pool
            pool = behind.source.partition("/")[0] if behind.fstype == "zfs" else behind.source
            system = pool if behind.fstype in ("btrfs", "zfs") else behind.device
            by_system.setdefault((behind.machine, system), []).append(lane)
    for lanes in by_system.values():
        behind, need = behinds[lanes[0]], size * len(lanes)
        files = f"{len(lanes)} files of {format_size(size)}" if len(lanes) > 1 else f"a file of {format_size(size)}"
        rooms = [(behind.mount_point, behind.free_bytes)] if behind.free_bytes is not None else []
        if behind.thin:
            rooms += [(volume.name, volume.free_bytes) for volume in behind.volumes if volume.kind != "thin-metadata"]
        for name, free in rooms:
            if free - need < keep_free:
                keep = f" plus {about_size(keep_free)} to stay free" if keep_free else ""
                yield _full(lanes, "no-space", f"{name} has {about_size(free)} free; needed: {files}{keep}", labels)
                break
        if behind.inodes and behind.free_inodes is not None and behind.free_inodes < len(lanes):
            yield _full(lanes, "no-inodes", f"{behind.mount_point} has no inode left for a new file", labels)


def _full(lanes: Sequence[str], kind: str, message: str, labels: Mapping[str, str] | None) -> FairlaneError:
    if labels is not None:
        return FairlaneError(kind, message, hint="make room, or lower --size or --keep-free")
    return FairlaneError(kind, message, hint="make room, or set a smaller size", where=f"lanes.{lanes[0]}")
