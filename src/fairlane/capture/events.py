"""I/Os of a disk as an array: what every source of a trace is brought to."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Events = NDArray[np.void]
"""Array of ``EVENT``."""

EVENT = np.dtype([("time", "<i8"), ("sector", "<i8"), ("bytes", "<i8"), ("kind", "u1"), ("op", "u1"), ("flags", "u1")])
"""time: ns of the machine's monotonic clock; sector: of 512 bytes; kind: ISSUE or COMPLETE."""

ISSUE, COMPLETE = 0, 1
READ, WRITE, FLUSH, DISCARD, OTHER = range(5)
FUA, SYNC, META, AHEAD = 1, 2, 4, 8

SECTOR = 512
NONE: Events = np.zeros(0, EVENT)

_OPS = {"R": READ, "W": WRITE, "D": DISCARD, "F": FLUSH}
_FLAGS = {"F": FUA, "S": SYNC, "M": META, "A": AHEAD}


@lru_cache(maxsize=1024)
def operation(rwbs: bytes) -> tuple[int, int]:
    """Operation and flags of the kernel's abbreviation: ``WFS`` is a write, FUA and sync.

    Kernel: ``blk_fill_rwbs``: F for a flush before the operation, the operation, then FUA, read-ahead, sync, metadata.
    """
    text = rwbs.split(b"\0", 1)[0].decode("ascii", "replace")
    if len(text) > 1 and text[0] == "F" and text[1] not in "SMA":  # a flush goes before the operation
        text = text[1:]
    if not text:
        return OTHER, 0
    flags = 0
    for letter in text[1:]:
        flags |= _FLAGS.get(letter, 0)
    return _OPS.get(text[0], OTHER), flags
