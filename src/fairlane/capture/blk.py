"""blktrace's binary stream (``struct blk_io_trace``, version 7) as events.

A record (48 bytes): magic and version, sequence, time, sector, bytes, action, pid, device, cpu, error, length of the
data that follow (kernel: ``include/uapi/linux/blktrace_api.h``). Both byte orders are read: the stream is in that of
the machine which was traced.
"""

import numpy as np
from numpy.typing import NDArray

from fairlane.capture.events import (
    AHEAD,
    COMPLETE,
    DISCARD,
    EVENT,
    FLUSH,
    FUA,
    ISSUE,
    META,
    NONE,
    OTHER,
    READ,
    SYNC,
    WRITE,
    Events,
)  # fmt: skip

MAGIC = 0x65617407
SIZE = 48
_MOST_DATA = 512
"""Bytes that follow a record at most: a command, a process's name, a message of 128."""
_FIELDS = [
    ("magic", "u4"), ("sequence", "u4"), ("time", "u8"), ("sector", "u8"), ("bytes", "u4"), ("action", "u4"),
    ("pid", "u4"), ("device", "u4"), ("cpu", "u4"), ("error", "u2"), ("pdu", "u2"),
]  # fmt: skip
_ACT_QUEUE, _ACT_ISSUE, _ACT_COMPLETE = 1, 7, 8
_TC_WRITE, _TC_FLUSH, _TC_SYNC, _TC_FS, _TC_NOTIFY = 1 << 1, 1 << 2, 1 << 3, 1 << 8, 1 << 10
_TC_AHEAD, _TC_META, _TC_DISCARD, _TC_FUA = 1 << 11, 1 << 12, 1 << 13, 1 << 15
_TC_READ = 1


def _record(order: str) -> np.dtype[np.void]:
    return np.dtype([(name, order + kind) for name, kind in _FIELDS])


class BlkStream:
    """Reads a stream as it comes. ``skipped``: bytes between records that are none; ``missed``: always 0, because
    the kernel counts drops elsewhere (``/sys/kernel/debug/block/NAME/dropped``); ``damaged``: places where bytes were
    skipped; ``complete``: None, because nothing says up to when all events have come."""

    def __init__(self, *, queued: bool = False) -> None:
        """``queued``: a disk made of other disks has no requests of its own: what is queued counts as issued."""
        self._issue = _ACT_QUEUE if queued else _ACT_ISSUE
        self._rest = b""
        self._dtype: np.dtype[np.void] | None = None
        self.missed = self.damaged = self.skipped = 0
        self.complete = None

    def feed(self, data: bytes) -> Events:
        """The events of the whole records that are there by now, in the order of the stream."""
        data = self._rest + data
        at, runs, ahead = 0, [], 16
        while len(data) - at >= SIZE:
            if self._dtype is None and not self._orient(data[at : at + 4]):
                at = self._seek(data, at)
                continue
            assert self._dtype is not None  # noqa: S101 - set above
            # looks the further ahead, the longer all was well: damage costs no more than its own length
            records = np.frombuffer(data, self._dtype, min((len(data) - at) // SIZE, ahead), at)
            good = records["magic"] == MAGIC
            whole = good & (records["pdu"] == 0)
            plain = len(records) if whole.all() else int(np.argmin(whole))
            if plain:
                runs.append(records[:plain])
                at += plain * SIZE
                ahead = min(ahead * 4, 1 << 16) if plain == len(records) else 16
            elif good[0]:
                end = SIZE + int(records["pdu"][0])
                if end > SIZE + _MOST_DATA or data[at + end : at + end + 4] not in self._magics(at + end, len(data)):
                    at = self._seek(data, at)
                    continue
                if at + end > len(data):
                    break
                runs.append(records[:1])
                at += end
            else:
                at = self._seek(data, at)
        self._rest = data[at:]
        return self._events(np.concatenate(runs)) if runs else NONE

    def close(self) -> None:
        """A record that was cut off counts as damaged."""
        self.damaged += bool(self._rest)
        self._rest = b""

    def _magics(self, at: int, size: int) -> tuple[bytes, ...]:
        """What may stand at ``at``, the end of a record, of which there may be less than four bytes yet."""
        assert self._dtype is not None  # noqa: S101 - called once it is set
        magic = self._magic()
        return tuple(magic[:n] for n in range(5)) if at + 4 > size else (magic,)

    def _magic(self) -> bytes:
        big = self._dtype is not None and self._dtype["magic"].str[0] == ">"
        return MAGIC.to_bytes(4, "big" if big else "little")

    def _orient(self, magic: bytes) -> bool:
        for order, name in (("<", "little"), (">", "big")):
            if int.from_bytes(magic, name) == MAGIC:  # type: ignore[arg-type] # both are what it takes
                self._dtype = _record(order)
        return self._dtype is not None

    def _seek(self, data: bytes, at: int) -> int:
        """The next place at which a record may begin; the last three bytes may be the start of one."""
        self.damaged += 1
        magics = [self._magic()]
        if self._dtype is None:
            magics.append(MAGIC.to_bytes(4, "big"))
        found = [place for magic in magics if (place := data.find(magic, at + 1)) >= 0]
        after = min(found, default=max(at + 1, len(data) - 3))
        self.skipped += after - at
        return after

    def _events(self, records: NDArray[np.void]) -> Events:
        action = records["action"].astype(np.int64)
        act, category = action & 0xFFFF, action >> 16
        wanted = (category & _TC_NOTIFY == 0) & ((act == self._issue) | (act == _ACT_COMPLETE))
        records, act, category = records[wanted], act[wanted], category[wanted]
        out = np.zeros(len(records), EVENT)
        for name in ("time", "sector", "bytes"):
            out[name] = records[name]
        out["kind"] = np.where(act == self._issue, ISSUE, COMPLETE)
        op = np.where(category & _TC_WRITE, WRITE, np.where(category & _TC_READ, READ, OTHER))
        op = np.where((category & _TC_FLUSH != 0) & (out["bytes"] == 0), FLUSH, op)
        out["op"] = np.where(category & _TC_DISCARD, DISCARD, op)
        for bit, flag in ((_TC_FUA, FUA), (_TC_SYNC, SYNC), (_TC_META, META), (_TC_AHEAD, AHEAD)):
            out["flags"] |= np.where(category & bit, flag, 0).astype("u1")
        return out
