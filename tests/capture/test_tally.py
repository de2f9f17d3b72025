"""Counts of traces whose truth is known."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.capture.events import COMPLETE, EVENT, FLUSH, ISSUE, READ, WRITE, Events
from fairlane.capture.popular import Popularity
from fairlane.capture.tally import Tally

GIB = 1 << 30
MS = 1_000_000


def events(*rows: tuple[int, int, int, int, int]) -> Events:
    """(time in ms, kind, op, sector, bytes)."""
    out = np.zeros(len(rows), EVENT)
    for i, (time, kind, op, sector, size) in enumerate(rows):
        out[i] = (time * MS, sector, size, kind, op, 0)
    return out


def counts(*parts: Events) -> dict[str, Any]:
    tally = Tally(GIB)
    for part in parts:
        tally.feed(part)
    tally.close()
    return tally.counts()


def trace(seed: int, number: int = 400) -> Events:
    """Reads and writes at chance, with up to some dozens in flight, several of them at one place."""
    rng = np.random.default_rng(seed)
    begin = np.cumsum(rng.integers(1, 20, number)) * MS
    out = np.zeros(2 * number, EVENT)
    for part, kind, time in ((out[:number], ISSUE, begin), (out[number:], COMPLETE, begin + rng.integers(1, 99) * MS)):
        part["time"], part["kind"] = time, kind
    for name, values in (
        ("sector", rng.integers(0, 20, number) * 8),
        ("bytes", rng.choice([4096, 8192], number)),
        ("op", rng.choice([READ, WRITE], number)),
    ):
        out[name] = np.tile(values, 2)
    return out[np.argsort(out["time"], kind="stable")]


def test_streams_among_random_ios_are_sequential() -> None:
    rng = np.random.default_rng(1)
    rows, at = [], [10**5, 10**6]
    for i in range(3000):
        stream = i % 3
        if stream < 2:
            rows.append((i, ISSUE, WRITE, at[stream], 65536))
            at[stream] += 128
        else:
            rows.append((i, ISSUE, WRITE, int(rng.integers(0, 2**18)) * 8, 4096))
    found = counts(events(*rows))["sizes"]
    assert found["write_sequential"] == [[65536, 1998]]  # the first of either stream follows nothing
    assert found["write_random"] == [[4096, 1000], [65536, 2]]


def test_depth_and_latency_where_several_ios_hit_one_place() -> None:
    rows = [(0, COMPLETE, READ, 8, 4096)]  # of an I/O from before the capture
    rows += [(t, ISSUE, READ, 8, 4096) for t in (1, 2, 3)] + [(t, COMPLETE, READ, 8, 4096) for t in (11, 12, 13)]
    found = counts(events(*rows))
    assert found["depth_time"]["all"] == [[1, 2.0 * MS], [2, 2.0 * MS], [3, 8.0 * MS]]
    assert sum(n for _, n in found["latency"]["read"]) == 3
    assert len(found["latency"]["read"]) == 1  # 10 ms each: the first that came is the first that went


def test_writes_between_flushes_over_several_batches() -> None:
    rows = []
    for i in range(4000):
        rows.append((i * 10, ISSUE, WRITE, 8 * i, 4096))
        if i % 4 == 3:
            rows.append((i * 10 + 1, ISSUE, FLUSH, 0, 0))
    whole = events(*rows)
    found = counts(*(whole[i : i + 333] for i in range(0, len(whole), 333)))
    assert found["writes_between_flushes"]["write"] == [[4, 1000]]
    assert found["flushes"] == 1000


@pytest.mark.slow
@given(st.integers(0, 1000), st.integers(1, 300))
def test_batches_change_no_count(seed: int, batch: int) -> None:
    whole = trace(seed)
    once, parts = counts(whole), counts(*(whole[i : i + batch] for i in range(0, len(whole), batch)))
    for key in ("sizes", "depth_time", "depth_issue", "latency", "seconds", "touched", "span", "late", "lost"):
        assert parts[key] == once[key], key
    assert [b for *_, b in parts["repeats"]["all"]] == [b for *_, b in once["repeats"]["all"]]
    depths = once["depth_issue"]["all"]
    assert sum(n for _, n in depths) == len(whole) / 2


def test_every_io_ends_and_the_depth_returns_to_none() -> None:
    whole = trace(7)
    issued = whole["time"][whole["kind"] == ISSUE].astype(float)
    ended = whole["time"][whole["kind"] == COMPLETE].astype(float)
    found = counts(whole)
    area = sum(depth * time for depth, time in found["depth_time"]["all"])
    assert area == pytest.approx(ended.sum() - issued.sum())  # Little: the sum of all latencies


def test_ios_without_completion_are_given_up_where_events_were_lost() -> None:
    tally = Tally(GIB)
    tally.lossy = True
    for second in range(20):
        start = second * 1000
        tally.feed(events((start, ISSUE, READ, 8 * second, 4096), (start + 900, ISSUE, READ, 8, 512)))
    tally.close()
    assert max(depth for depth, _ in tally.counts()["depth_issue"]["all"]) <= 8
    assert tally.lost > 30


def test_popularity_is_bounded_and_its_sample_is_complete() -> None:
    rng = np.random.default_rng(3)
    table = Popularity(most=1 << 12)
    blocks = rng.integers(0, 100_000, 400_000)
    for part in np.array_split(blocks, 40):
        table.add(part, np.zeros(len(part), np.int64))
    repeats = np.array(table.repeats((0,)))
    number, ios = repeats[:, 2].sum(), ((repeats[:, 0] + repeats[:, 1]) * repeats[:, 2]).sum()
    assert number <= 1 << 12
    assert number / table.share == pytest.approx(len(np.unique(blocks)), rel=0.05)
    assert ios / table.share == pytest.approx(len(blocks), rel=0.05)


def test_events_of_a_processor_that_is_read_late() -> None:
    """Its completions come ten seconds after the issues of the other."""
    rows = [(i * 10, ISSUE, READ, 8 * i, 4096) for i in range(1000)]
    ends = [(i * 10 + 5, COMPLETE, READ, 8 * i, 4096) for i in range(1000)]
    tally = Tally(GIB)
    for i in range(0, 1000, 10):
        tally.feed(events(*rows[i : i + 10]), 0)
    tally.feed(events(*ends), 9_990 * MS)
    tally.close()
    found = tally.counts()
    assert found["late"] == 0
    assert [depth for depth, _ in found["depth_time"]["all"]] == [0, 1]
