"""Parse fio's ``disk_util``: counters of the machine's block devices while fio ran, ramp included."""

from collections.abc import Mapping, Sequence
from typing import Any

_COUNTERS = {"reads": "read_ios", "writes": "write_ios"}
_MERGES = {"read_merges": "read_merges", "write_merges": "write_merges"}
_SECTORS = {"read_bytes": "read_sectors", "write_bytes": "write_sectors"}
_SECTOR = 512
_LARGEST = 2**63
_MOST = 1024
"""Most devices that are read."""
ENOUGH_MS = 10_000
"""fio reads the counters every 250 ms (DISK_UTIL_MSEC of its diskutil.h) and not once more at the end: a shorter
trial lacks more than 2.5 %, as if a cache had served it."""


def disks(tree: Any) -> dict[str, int]:
    """Counters added over the devices under load, by the keys of ``context["disk"]``; bytes since fio 3.36.

    fio lists a device that is made of others (multipath, LVM, md) before those, with their average as ``aggr_``:
    the devices behind it that make up that average are left out, or the same I/O would count twice. The result is empty
    where these are not certain, and for anything that is no ``disk_util``.
    """
    if not isinstance(tree, list) or len(tree) > _MOST or not all(isinstance(disk, dict) for disk in tree):
        return {}
    try:
        top = _top(tree)
        counted = {name: sum(_count(disk, key) for disk in top) for name, key in (_COUNTERS | _MERGES).items()}
        if top and all(key in disk for disk in top for key in _SECTORS.values()):
            counted |= {name: sum(_count(disk, key) for disk in top) * _SECTOR for name, key in _SECTORS.items()}
    except ValueError:
        return {}
    return counted if top else {}


def _top(disks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The devices that are part of no other. ValueError: not certain."""
    ends = [i + 1 for i in range(len(disks))]
    parts: set[int] = set()
    for i in reversed(range(len(disks))):
        if "aggr_read_ios" in disks[i]:
            ends[i] = _end(disks, i, ends)
            parts.update(range(i + 1, ends[i]))
    return [disk for i, disk in enumerate(disks) if i not in parts]


def _end(disks: Sequence[Mapping[str, Any]], i: int, ends: Sequence[int]) -> int:
    """Index behind the last part of device ``i``. ``ends`` has it for all later devices: a part made of parts is
    followed by its own, which are skipped."""
    want = [_count(disks[i], f"aggr_{key}") for key in _COUNTERS.values()]
    added, parts, k = [0, 0], 0, i + 1
    while k < len(disks):
        added = [so_far + _count(disks[k], key) for so_far, key in zip(added, _COUNTERS.values(), strict=True)]
        parts, k = parts + 1, ends[k]
        if [total // parts for total in added] == want:
            return k
    raise ValueError("the parts of a device do not make up its average")


def _count(disk: Mapping[str, Any], key: str) -> int:
    value = disk.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise ValueError(f"{key} is no count")
    return value
