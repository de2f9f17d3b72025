"""I/Os, merges and bytes that the lane's own block devices counted; an I/O that a cache served is not counted.

``/sys/class/block/NAME/stat`` (kernel: Documentation/block/stat.rst): reads, merged reads, sectors of 512 bytes,
ticks; then the same of writes. The window is that of the snapshots: it includes the ramp and all other use of the
device.
"""

from typing import ClassVar

from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

_SECTOR = 512
_FIELDS = {"read": 0, "write": 4}
"""Direction -> column of its I/Os; merges and sectors follow."""


class Disk(Probe):
    # read and echo are shell builtins: every program started costs the guest of the virtual clock milliseconds
    capture: ClassVar[str] = 'read -r line < /sys/class/block/$DEVICE/stat && echo "$line"'
    live: ClassVar[str] = 'for f in $STATS; do read -r line < $f && echo "$line"; done'

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        first, last = _read(before), _read(after)
        if not first or not last or any(b > a for b, a in zip(first, last, strict=True)):
            return Figures()  # counters fall only if the device was recreated
        moved = [a - b for b, a in zip(first, last, strict=True)]
        disk: dict[str, int] = {}
        for way, place in _FIELDS.items():
            ios, merges, sectors = moved[place : place + 3]
            disk |= {f"{way}s": ios, f"{way}_merges": merges, f"{way}_bytes": sectors * _SECTOR}
        return Figures(context={"disk": disk})


def _read(text: str) -> list[int]:
    """The first seven counters, added over the lane's devices; empty if one of them is no counter."""
    devices = [[counter(field) for field in line.split()[:7]] for line in text.splitlines()]
    counts = [[c for c in counters if c is not None] for counters in devices]
    return [sum(column) for column in zip(*counts, strict=True)] if all(len(each) == 7 for each in counts) else []


PLUGIN = Disk()
