"""Pages of the kernel's trace buffers (``per_cpu/cpuN/trace_pipe_raw`` of tracefs) as events.

Layout: kernel ``Documentation/trace/ring-buffer-map.rst`` and ``include/linux/ring_buffer.h``: a page has a time (8
bytes), a word with the length of its data and two flags for lost events, then records: a word with 5 bits of type and
27 of time since the record before, and the data. Fields of the data are where the event's ``format`` file says.

The watcher (``guest/watch.sh``) reads one processor's buffer after the other, and writes a page of zeros after each
round: an event from before a round began has come when the round ends, however long it took.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairlane.capture.events import COMPLETE, EVENT, ISSUE, NONE, SECTOR, Events, operation
from fairlane.errors import Garbage

_FIELD = re.compile(r"^\s*field:(?P<what>[^;]+);\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+);", re.MULTILINE)
_LENGTH = (1 << 20) - 1
_MISSED, _STORED = 1 << 31, 1 << 30
_HEAD = 16
_PADDING, _EXTEND, _STAMP = 29, 30, 31

_KINDS = {
    "block_rq_issue": ISSUE,
    "block_bio_queue": ISSUE,
    "block_rq_complete": COMPLETE,
    "block_bio_complete": COMPLETE,
}


@dataclass(frozen=True)
class Layout:
    """Where the fields of one event are, in bytes from the start of its data."""

    kind: int
    sector: int
    sectors: int
    size: int
    """Of ``bytes``; -1: the event has none, and its sectors count."""
    rwbs: int


def layouts(text: str) -> dict[int, Layout]:
    """Event id -> layout, of one or more ``format`` files one after the other. Raises Garbage."""
    found: dict[int, Layout] = {}
    for part in re.split(r"(?m)^(?=name: )", text):
        name, number = re.search(r"^name: (\w+)", part), re.search(r"^ID: (\d+)", part, re.MULTILINE)
        if not name or not number or name[1] not in _KINDS:
            continue
        fields = {m["what"].split("[")[0].split()[-1]: int(m["offset"]) for m in _FIELD.finditer(part)}
        try:
            found[int(number[1])] = Layout(
                _KINDS[name[1]], fields["sector"], fields["nr_sector"], fields.get("bytes", -1), fields["rwbs"]
            )
        except KeyError as error:
            raise Garbage("trace-format", f"the kernel's trace event {name[1]} has no field {error}") from None
    if {layout.kind for layout in found.values()} != {ISSUE, COMPLETE}:
        raise Garbage("trace-format", "the kernel's description of its block events cannot be read")
    return found


class Ring:
    """Reads a stream of pages. ``missed``: events that the kernel dropped; ``damaged``: pages that make no sense;
    ``complete``: time (ns) up to which all events have come."""

    def __init__(self, formats: dict[int, Layout], page: int = 4096) -> None:
        self._formats, self._page, self._rest = formats, page, b""
        self.missed = self.damaged = 0
        self.complete = self._round = self._newest = 0  # _round: the newest event when the last round ended

    def feed(self, data: bytes) -> Events:
        """The events of the whole pages that are there by now, in no order."""
        data = self._rest + data
        whole = len(data) // self._page * self._page
        self._rest = data[whole:]
        return self._pages(np.frombuffer(data[:whole], "u1").reshape(-1, self._page)) if whole else NONE

    def close(self) -> None:
        """A page that was cut off counts as damaged."""
        self.damaged += bool(self._rest)
        self._rest = b""

    def _pages(self, pages: NDArray[np.uint8]) -> Events:
        room = self._page - _HEAD
        words = pages.reshape(-1).view("<u4").reshape(len(pages), -1)
        commit = words[:, 2].astype(np.int64)
        length = commit & _LENGTH
        sane = (length <= room) & (length % 4 == 0)
        self._count_missed(pages, commit, np.minimum(length, room))
        length = np.where(sane, length, 0)
        time = (words[:, 0].astype(np.uint64) | words[:, 1].astype(np.uint64) << np.uint64(32)).astype(np.int64)
        top = time & ~((1 << 59) - 1)
        flat, width = words.reshape(-1), words.shape[1]
        page = np.arange(len(pages))
        at = np.zeros(len(pages), np.int64)
        rows, times = [], []
        bad = ~sane
        # all pages at once, record by record: some fifty steps, however many pages there are
        while len(live := page[at[page] < length[page]]):
            page = live
            word = page * width + (_HEAD + at[page]) // 4
            header = flat[word].astype(np.int64)
            extra = flat[np.minimum(word + 1, len(flat) - 1)].astype(np.int64)
            kind, delta = header & 31, header >> 5
            step = 4 + kind * 4
            step = np.where(kind == 0, 4 + extra, step)
            step = np.where(kind == _PADDING, np.where(delta == 0, length[page] - at[page], 4 + extra), step)
            step = np.where(kind >= _EXTEND, 8, step)
            wrong = (step <= 0) | (step % 4 != 0) | (at[page] + step > length[page])
            bad[page[wrong]] = True
            high = (extra << 27) + delta
            time[page] = np.where(
                kind == _STAMP,
                high | top[page],
                time[page] + np.where(kind == _EXTEND, high, np.where(kind == _PADDING, 0, delta)),
            )
            data = (kind < _PADDING) & ~wrong
            rows.append((word + np.where(kind == 0, 2, 1))[data])
            times.append(time[page][data])
            at[page] = np.where(wrong, length[page], at[page] + step)
        self.damaged += int(bad.sum())
        self._count_rounds(np.flatnonzero(~pages.any(axis=1)).tolist(), np.where(bad, 0, time))
        if not rows:
            return NONE
        return self._decode(flat, np.concatenate(rows), np.concatenate(times))

    def _count_rounds(self, ends: Sequence[int], newest: NDArray[np.int64]) -> None:
        """``ends``: indices of pages that end a round; ``newest``: time of each page's last event, ns."""
        begin = 0
        for end in ends:
            self._newest = max(self._newest, int(newest[begin:end].max(initial=0)))
            self.complete, self._round, begin = self._round, self._newest, end
        self._newest = max(self._newest, int(newest[begin:].max(initial=0)))

    def _count_missed(self, pages: NDArray[np.uint8], commit: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        for i in np.flatnonzero(commit & _MISSED):
            end = _HEAD + int(length[i])
            stored = commit[i] & _STORED and end + 8 <= self._page
            self.missed += int(pages[i, end : end + 8].copy().view("<i8")[0]) if stored else 1

    def _decode(self, flat: NDArray[np.uint32], words: NDArray[np.int64], times: NDArray[np.int64]) -> Events:
        number = flat[words] & 0xFFFF
        raw = flat.view("u1")
        parts = []
        for event, layout in self._formats.items():
            mine = number == event
            start, time = words[mine] * 4, times[mine]
            inside = start + layout.rwbs + 8 <= len(raw)
            start, time = start[inside], time[inside]
            out = np.zeros(len(start), EVENT)
            out["time"], out["kind"] = time, layout.kind
            out["sector"] = _number(raw, start + layout.sector, 8)
            count = _number(raw, start + layout.sectors, 4) * SECTOR
            size = _number(raw, start + layout.size, 4) if layout.size >= 0 else count
            out["bytes"] = np.where(count > 0, count, size)
            out["op"], out["flags"] = _operations(_number(raw, start + layout.rwbs, 8))
            parts.append(out)
        return np.concatenate(parts) if parts else NONE


def _number(raw: NDArray[np.uint8], start: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Little-endian numbers of ``size`` bytes at ``start``."""
    picked = raw[start[:, None] + np.arange(size)]
    wide = np.zeros((len(start), 8), "u1")
    wide[:, :size] = picked
    return wide.view("<i8").reshape(-1)


def _operations(keys: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    unique, inverse = np.unique(keys, return_inverse=True)
    table = np.array([operation(int(key).to_bytes(8, "little", signed=True)) for key in unique], "u1").reshape(-1, 2)
    return table[inverse, 0], table[inverse, 1]
