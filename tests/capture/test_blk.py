"""blktrace's stream: as a kernel wrote it, and damaged, cut, and of the other byte order."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.capture.blk import MAGIC, SIZE, BlkStream
from fairlane.capture.events import COMPLETE, FLUSH, ISSUE, READ, WRITE

STREAM = (Path(__file__).parent / "data/kernel-6.18.blk").read_bytes()
"""The first 400 records of fio on a loop device (randrw 8k, a depth of 4, fdatasync after 3 writes), kernel 6.18."""


def record(
    action: int, *, sector: int = 0, size: int = 4096, time: int = 1, pdu: bytes = b"", order: str = "<"
) -> bytes:
    head = struct.pack(f"{order}IIQQIIIIIHH", MAGIC, 0, time, sector, size, action, 1, 0, 0, 0, len(pdu))
    return head + pdu


READ_ISSUED, NOTE = 1 << 16 | 1 << 22 | 7, 1 << 26 | 0
"""Read and issue; the note of a process's name."""


def counts(stream: BlkStream, data: bytes) -> dict[tuple[int, int], int]:
    events = stream.feed(data)
    keys, number = np.unique(events["kind"].astype(int) * 10 + events["op"], return_counts=True)
    return {(int(k) // 10, int(k) % 10): int(n) for k, n in zip(keys, number, strict=True)}


def test_a_kernels_stream() -> None:
    found = BlkStream()
    seen = counts(found, STREAM)
    assert seen[ISSUE, READ] == seen[COMPLETE, READ] == 23
    assert seen[ISSUE, WRITE] == 27
    assert seen[ISSUE, FLUSH] == seen[COMPLETE, FLUSH] == 16
    assert (found.damaged, found.skipped) == (0, 0)
    assert set(BlkStream().feed(STREAM)["bytes"]) == {0, 8192}


def test_what_is_queued_counts_for_a_disk_made_of_others() -> None:
    assert counts(BlkStream(queued=True), STREAM)[ISSUE, FLUSH] == 22


@pytest.mark.slow
@given(st.integers(1, 300))
def test_cuts_change_nothing(cut: int) -> None:
    whole, stream = BlkStream().feed(STREAM), BlkStream()
    parts = np.concatenate([stream.feed(STREAM[i : i + cut]) for i in range(0, len(STREAM), cut)])
    assert (parts == whole).all()


@given(st.integers(0, len(STREAM) - 1), st.binary(min_size=1, max_size=200))
def test_foreign_bytes_cost_the_record_they_are_in_and_no_more(at: int, noise: bytes) -> None:
    whole = {e.tobytes() for e in BlkStream().feed(STREAM)}
    stream = BlkStream()
    found = {e.tobytes() for e in stream.feed(STREAM[:at] + noise + STREAM[at:])}
    assert len(whole - found) <= 2
    assert stream.damaged or len(whole - found) <= 1


@given(st.binary(max_size=2000))
def test_garbage_raises_nothing(data: bytes) -> None:
    stream = BlkStream()
    assert len(stream.feed(data)) <= len(data) // SIZE
    stream.close()


def test_a_cut_record_is_damage() -> None:
    stream = BlkStream()
    stream.feed(STREAM[:-10])
    stream.close()
    assert stream.damaged == 1


def test_notes_with_their_data_are_passed_over() -> None:
    stream = BlkStream()
    data = record(NOTE, pdu=b"fio".ljust(16, b"\0")) + record(READ_ISSUED, sector=8)
    assert stream.feed(data)["sector"].tolist() == [8]
    assert stream.damaged == 0


def test_the_other_byte_order() -> None:
    events = BlkStream().feed(record(READ_ISSUED, sector=8, time=5, order=">"))
    assert [(int(e["time"]), int(e["sector"]), int(e["bytes"]), int(e["op"])) for e in events] == [(5, 8, 4096, READ)]


def test_much_damage_takes_no_longer_than_its_length() -> None:
    stream = BlkStream()
    assert len(stream.feed(b"".join(b"x" * 16 + record(READ_ISSUED) for _ in range(20_000)))) == 20_000
