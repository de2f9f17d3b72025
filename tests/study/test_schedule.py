"""The schedule: balance, determinism, and that a longer one continues a shorter one."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.study.load import parse_study
from fairlane.study.schedule import Stream, design_rows, lane_order, lba_seed, schedule
from fairlane.study.spec import Study

TRANSPORTS = ("local", "iscsi", "nvme_tcp")

GOLDEN = [
    ("64k randread qd16", 0, ("lane-2", "lane-0", "lane-1"), 638640965),
    ("64k randread qd1", 0, ("lane-0", "lane-2", "lane-1"), 1377811648),
    ("4k randread qd1", 0, ("lane-2", "lane-0", "lane-1"), 421382549),
    ("4k randread qd16", 0, ("lane-0", "lane-2", "lane-1"), 868474177),
    ("64k randread qd1", 1, ("lane-1", "lane-0", "lane-2"), 364085736),
    ("4k randread qd1", 1, ("lane-1", "lane-2", "lane-0"), 1003355040),
    ("4k randread qd16", 1, ("lane-2", "lane-1", "lane-0"), 1317740159),
    ("64k randread qd16", 1, ("lane-0", "lane-1", "lane-2"), 840008881),
]
GOLDEN_PAIRS = [("a", "b"), ("b", "a"), ("b", "a"), ("a", "b"), ("b", "a"), ("a", "b")]


def study(lanes: int = 3, depths: str = "1, 16", seed: int = 1, backwards: bool = False) -> Study:
    names = [f"lane-{i}" for i in range(lanes)]
    rows = [f"  {name}: {{transport: {TRANSPORTS[i % 3]}}}" for i, name in enumerate(names)]
    text = [
        "name: test",
        "platform: {kind: lab}",
        "baseline: lane-0",
        "lanes:",
        *(rows[::-1] if backwards else rows),
        "workloads:",
        f"  main: {{kind: fio, bs: [4k, 64k], iodepth: [{depths}]}}",
        f"design: {{seed: {seed}}}",
    ]
    return parse_study("\n".join(text), "test")


@pytest.mark.parametrize("k", range(2, 12))
def test_design_is_balanced_for_place_and_for_carry_over(k: int) -> None:
    rows = design_rows(k)
    assert len(rows) == (k if k % 2 == 0 else 2 * k)
    for square in (rows[i : i + k] for i in range(0, len(rows), k)):
        for place in range(k):
            assert {row[place] for row in square} == set(range(k))
    follows = Counter(pair for row in rows for pair in pairwise(row))
    assert len(follows) == k * (k - 1)
    assert set(follows.values()) == {1 if k % 2 == 0 else 2}


@given(k=st.integers(2, 7), seed=st.integers(0, 2**63 - 1), window=st.integers(0, 5))
def test_every_window_of_k_blocks_has_every_lane_once_in_every_place(k: int, seed: int, window: int) -> None:
    lanes = tuple(f"l{i}" for i in range(k))
    orders = [lane_order(lanes, seed, "main.cell", b) for b in range(window * k, window * k + k)]
    for place in range(k):
        assert sorted(order[place] for order in orders) == sorted(lanes)


@given(k=st.integers(2, 7), seed=st.integers(0, 2**63 - 1), replicate=st.integers(0, 3))
def test_every_replicate_is_balanced_for_carry_over(k: int, seed: int, replicate: int) -> None:
    lanes = tuple(f"l{i}" for i in range(k))
    size = len(design_rows(k))
    orders = [lane_order(lanes, seed, "main.cell", b) for b in range(replicate * size, (replicate + 1) * size)]
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert len(follows) == k * (k - 1)
    assert len(set(follows.values())) == 1


@given(seed=st.integers(0, 2**63 - 1), short=st.integers(0, 7), more=st.integers(0, 7))
def test_a_longer_schedule_begins_with_the_shorter_one(seed: int, short: int, more: int) -> None:
    asked = study()
    long = schedule(asked, short + more, seed=seed)
    first = schedule(asked, short, seed=seed)
    assert long[: len(first)] == first


@given(seed=st.integers(0, 2**63 - 1))
def test_every_round_holds_every_cell_once_and_every_block_every_lane_once(seed: int) -> None:
    asked = study()
    cells = {cell.key for cell in asked.cells()}
    blocks = schedule(asked, 6, seed=seed)
    for index in range(6):
        in_round = blocks[index * len(cells) : (index + 1) * len(cells)]
        assert {b.index for b in in_round} == {index}
        assert sorted(b.cell.key for b in in_round) == sorted(cells)
    assert all(sorted(b.order) == sorted(asked.lanes) for b in blocks)


def test_the_order_in_the_study_file_does_not_matter() -> None:
    forwards = schedule(study(), 6)
    backwards = schedule(study(depths="16, 1", backwards=True), 6)
    assert forwards == backwards


def test_the_seed_of_the_study_is_the_default() -> None:
    assert schedule(study(seed=7), 3) == schedule(study(seed=1), 3, seed=7)
    assert schedule(study(seed=7), 3) != schedule(study(seed=8), 3)


def test_address_seeds_are_fresh_in_every_block_and_fit_every_generator() -> None:
    seeds = [b.seed for b in schedule(study(), 200)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 < seed < 2**31 for seed in seeds)


def test_cells_of_a_round_and_lanes_of_a_block_come_in_many_orders() -> None:
    blocks = schedule(study(), 60)
    rounds = {tuple(b.cell.key for b in blocks[i : i + 4]) for i in range(0, len(blocks), 4)}
    assert len(rounds) > 15  # of 24; 60 fair draws miss only some of them
    for cell in study().cells():
        assert len({b.order for b in blocks if b.cell.key == cell.key}) == 6


def test_golden_schedule() -> None:
    """Runs are resumed and repeated years later: these values may never change."""
    found = [(b.cell.name, b.index, b.order, b.seed) for b in schedule(study(), 2)]
    assert found == GOLDEN
    cell = study().cells()[0]
    assert cell.key == "main.4k-randread-qd1"
    assert [lba_seed(1, cell, b) for b in (0, 1)] == [s for name, _, _, s in GOLDEN if name == cell.name]
    assert [lane_order(("a", "b"), 1, "c", b) for b in range(6)] == GOLDEN_PAIRS


def test_stream_is_uniform() -> None:
    stream = Stream("uniform", 1)
    counts = Counter(stream.below(6) for _ in range(6000))
    # chi-square with 5 degrees of freedom: 20.5 is the 0.1 % point
    assert sum((counts[i] - 1000) ** 2 / 1000 for i in range(6)) < 20.5


def test_permutations_are_uniform() -> None:
    counts = Counter("".join(Stream("perm", i).shuffled("abc")) for i in range(6000))
    assert len(counts) == 6
    assert sum((n - 1000) ** 2 / 1000 for n in counts.values()) < 20.5
