"""Pages of the kernel's trace buffers: written here as the kernel lays them out, and read back."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.capture.events import COMPLETE, DISCARD, FLUSH, FUA, ISSUE, META, OTHER, READ, SYNC, WRITE, operation
from fairlane.capture.ring import Ring, layouts
from fairlane.errors import Garbage
from tests.words import kind

FORMATS = """\
name: block_rq_issue
ID: 2104
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;
name: block_rq_complete
ID: 2107
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
"""
ROOM = 4080

Record = tuple[int, int, int, bytes, int]
"""Kind, sector, sectors, rwbs, ns since the record before."""


def data(record: Record) -> bytes:
    which, sector, sectors, rwbs, _ = record
    head = struct.pack("<HBBiI4xQI", 2104 if which == ISSUE else 2107, 0, 0, 1, 0, sector, sectors)
    if which == ISSUE:
        return head + struct.pack("<IH10s16sI", sectors * 512, 0, rwbs, b"fio", 0)
    return head + struct.pack("<iH10sI", 0, 0, rwbs, 0)


def pages(records: Sequence[Record], begin: int = 10**9) -> bytes:
    """Records on as many pages as they need; long pauses as time extends."""
    out, body, page_time, now = [], b"", begin, begin
    for record in records:
        now += record[4]
        payload, delta = data(record), record[4] if body else 0
        extend = struct.pack("<II", 30 | (delta & (1 << 27) - 1) << 5, delta >> 27) if delta >= 1 << 27 else b""
        entry = extend + struct.pack("<I", len(payload) // 4 | (0 if extend else delta) << 5) + payload
        if len(body) + len(entry) > ROOM:
            out.append(struct.pack("<QQ", page_time, len(body)) + body.ljust(ROOM, b"\xff"))
            body, entry = b"", struct.pack("<I", len(payload) // 4) + payload
        if not body:
            page_time = now
        body += entry
    out.append(struct.pack("<QQ", page_time, len(body)) + body.ljust(ROOM, b"\0"))
    return b"".join(out)


RECORDS = st.lists(
    st.tuples(
        st.sampled_from([ISSUE, COMPLETE]),
        st.integers(0, 2**40),
        st.integers(1, 2560),
        st.sampled_from([b"R", b"RA", b"W", b"WS", b"WFS", b"D"]),
        st.integers(0, 2**34),
    ),
    min_size=1,
    max_size=200,
)


@given(RECORDS, st.integers(1, 9000))
def test_what_is_on_pages_is_read_in_any_cuts(records: list[Record], cut: int) -> None:
    stream, ring = pages(records), Ring(layouts(FORMATS))
    parts = [ring.feed(stream[i : i + cut]) for i in range(0, len(stream), cut)]
    ring.close()
    found = np.sort(np.concatenate(parts), order=["time", "kind", "sector"])
    times = 10**9 + np.cumsum([r[4] for r in records])
    expected = sorted(
        (int(t), k, s, n * 512, operation(rwbs)[0]) for t, (k, s, n, rwbs, _) in zip(times, records, strict=True)
    )
    got = sorted((int(e["time"]), int(e["kind"]), int(e["sector"]), int(e["bytes"]), int(e["op"])) for e in found)
    assert got == expected
    assert (ring.damaged, ring.missed) == (0, 0)


@given(st.binary(max_size=3 * 4096))
def test_garbage_is_counted_and_raises_nothing(stream: bytes) -> None:
    ring = Ring(layouts(FORMATS))
    ring.feed(stream)
    ring.close()
    assert ring.damaged <= -(-len(stream) // 4096)


@given(RECORDS, st.integers(0, 20), st.integers(0, 2**32))
def test_damage_on_one_page_leaves_the_others(records: list[Record], place: int, seed: int) -> None:
    stream = pages(records)
    count = len(stream) // 4096
    victim, other = place % count, np.random.default_rng(seed).bytes(4096)
    ring, whole = Ring(layouts(FORMATS)), Ring(layouts(FORMATS))
    kept = whole.feed(b"".join(stream[i * 4096 : (i + 1) * 4096] for i in range(count) if i != victim))
    found = ring.feed(stream[: victim * 4096] + other + stream[(victim + 1) * 4096 :])
    assert {e.tobytes() for e in kept} <= {e.tobytes() for e in found}


def test_a_cut_page_is_damage_and_lost_events_are_counted() -> None:
    stream = pages([(ISSUE, 8, 8, b"R", 5)])
    ring = Ring(layouts(FORMATS))
    lossy = bytearray(stream)
    lossy[8:16] = struct.pack("<Q", struct.unpack("<Q", stream[8:16])[0] | 1 << 31 | 1 << 30)
    end = 16 + struct.unpack("<Q", stream[8:16])[0]
    lossy[end : end + 8] = struct.pack("<Q", 77)
    assert len(ring.feed(bytes(lossy) + stream[:100])) == 1
    ring.close()
    assert (ring.missed, ring.damaged) == (77, 1)


@pytest.mark.parametrize(
    ("rwbs", "meant"),
    [
        (b"R", (READ, 0)), (b"WS", (WRITE, SYNC)), (b"WFS", (WRITE, FUA | SYNC)),
        (b"FWFSM", (WRITE, FUA | SYNC | META)),
        (b"FF", (FLUSH, 0)), (b"F", (FLUSH, 0)), (b"D", (DISCARD, 0)), (b"DE", (DISCARD, 0)), (b"N", (OTHER, 0)),
        (b"", (OTHER, 0)),
    ],
)  # fmt: skip
def test_the_kernels_letters(rwbs: bytes, meant: tuple[int, int]) -> None:
    assert operation(rwbs + b"\0rest") == meant


@pytest.mark.parametrize(
    "text", ["", FORMATS.replace("nr_sector", "other"), FORMATS.partition("name: block_rq_complete")[0]]
)
def test_unknown_formats_are_refused(text: str) -> None:
    with pytest.raises(Garbage, check=kind("trace-format")):
        layouts(text)


def test_all_has_come_that_is_older_than_a_round_of_all_processors() -> None:
    """Two processors, read one after the other; a page of zeros ends a round."""
    end = bytes(4096)
    rounds = [
        pages([(ISSUE, 8, 8, b"R", 0)], 100) + pages([(ISSUE, 8, 8, b"R", 0)], 90) + end,
        pages([(ISSUE, 8, 8, b"R", 0)], 700) + pages([(ISSUE, 8, 8, b"R", 0)], 101) + end,
        pages([(ISSUE, 8, 8, b"R", 0)], 900) + pages([(ISSUE, 8, 8, b"R", 0)], 701),
    ]
    known = [0, 100, 100]
    ring, whole = Ring(layouts(FORMATS)), Ring(layouts(FORMATS))
    for part, complete in zip(rounds, known, strict=True):
        ring.feed(part)
        assert ring.complete == complete
    ring.feed(end)
    assert ring.complete == 700
    whole.feed(b"".join(rounds) + end)
    assert whole.complete == 700
