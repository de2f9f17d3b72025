"""``design.provisionings``: looks that fit, errors for those that do not, and orders balanced in each provisioning."""

from collections import Counter
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import FairlaneError
from fairlane.runs import plan as plans
from fairlane.study.load import parse_study
from fairlane.study.schedule import design_rows, mirrored_order, schedule
from fairlane.study.spec import Study
from tests.words import kind

STUDY = """\
name: anew
platform: {platform}
baseline: a
lanes:
  a: {lane}
  b: {{transport: local}}
  c: {{transport: iscsi}}
workloads: {{main: {{kind: fio, rw: [randread, randwrite], runtime: 1s}}}}
design: {{{design}}}
"""


def study(design: str, platform: str = "{kind: fake}", lane: str = "{transport: local}") -> Study:
    return parse_study(STUDY.format(design=design, platform=platform, lane=lane), "study.yaml")


@pytest.mark.parametrize(
    ("count", "looks"),
    [(2, (4,)), (3, (6,)), (4, (8,)), (6, (8, 10, 12)), (8, (8, 10, 12, 14, 16)), (1, (6, 8, 10, 12, 14, 16, 18, 20))],
)
def test_looks_are_between_provisionings_unless_they_are_given(count: int, looks: tuple[int, ...]) -> None:
    assert study(f"provisionings: {count}").design.looks == looks


def test_most_provisionings_have_looks() -> None:
    assert study("provisionings: 100").design.looks[-1] == 200


def test_the_provisioning_of_a_block_follows_from_the_design() -> None:
    design = study("provisionings: 3, looks: [8, 12]").design
    assert design.blocks_per_provisioning == 4
    numbers = [design.provisioning_of(block) for block in schedule(study("provisionings: 3, looks: [8, 12]"), 12)]
    assert numbers == sorted(numbers)
    assert Counter(numbers) == {0: 8, 1: 8, 2: 8}  # two cells
    once = study("looks: [8, 12]")
    assert {once.design.provisioning_of(block) for block in schedule(once, 12)} == {0}


@pytest.mark.parametrize(
    ("design", "error"),
    [
        ("provisionings: 6, looks: [20]", "provisionings-uneven"),  # not an integer
        ("provisionings: 6, looks: [6]", "provisionings-uneven"),  # one block each: one order of the lanes
        ("provisionings: 4, looks: [6, 12]", "provisionings-uneven"),  # three each
        ("provisionings: 4, looks: [6, 16]", "provisionings-uneven"),  # a look within the second
        ("provisionings: 6, stop: {width: 2%}", "stop-and-provisionings"),
        ("provisionings: 6, paired: false", "provisionings-unpaired"),
        ("provisionings: 0", "limit"),
        ("provisionings: 101", "limit"),
    ],
)
def test_what_does_not_fit_is_an_error_with_a_hint(design: str, error: str) -> None:
    with pytest.raises(FairlaneError, check=kind(error)) as raised:
        study(design)
    assert error == "limit" or raised.value.hint


@pytest.mark.parametrize(
    ("platform", "lane", "error"),
    [
        ("{kind: lab}", "{transport: local}", "provisionings-same"),
        ("{kind: fake}", "{transport: device, identity: 'serial:S1', destroy: 'serial:S1'}", "provisionings-existing"),
        (
            "{kind: lab, clock: wall}",
            "{transport: iscsi, external: {addresses: [192.0.2.1], iqn: 'iqn.2020-01.x:y', serial: S1}, destroy: S1}",
            "provisionings-existing",
        ),
    ],
)
def test_what_cannot_be_made_anew_has_one_provisioning(platform: str, lane: str, error: str) -> None:
    assert study("looks: [12]", platform, lane)
    with pytest.raises(FairlaneError, check=kind(error)) as raised:
        study("provisionings: 6", platform, lane)
    assert "provisionings: 1" in raised.value.hint


def test_blocks_of_the_command_line_must_fit_too() -> None:
    asked = study("provisionings: 6")
    assert plans.make(asked, "", blocks=24).study.design.blocks_per_provisioning == 4
    with pytest.raises(FairlaneError, check=kind("provisionings-uneven")) as raised:
        plans.make(asked, "", blocks=20)
    assert "--blocks 24" in raised.value.hint


# --- orders ---------------------------------------------------------------------------------------------------------


@given(k=st.integers(2, 7), seed=st.integers(0, 2**63 - 1), number=st.integers(0, 20))
def test_in_two_blocks_each_lane_runs_once_before_and_once_after_every_other(k: int, seed: int, number: int) -> None:
    lanes = tuple(f"l{i}" for i in range(k))
    orders = [mirrored_order(lanes, seed, "main.cell", 2 * number + n) for n in range(2)]
    for first, second in combinations(lanes, 2):
        assert sorted(order.index(first) < order.index(second) for order in orders) == [False, True]


@given(k=st.integers(2, 7), seed=st.integers(0, 2**63 - 1), replicate=st.integers(0, 3))
def test_every_replicate_is_balanced_for_place_and_carry_over(k: int, seed: int, replicate: int) -> None:
    lanes = tuple(f"l{i}" for i in range(k))
    size = len(design_rows(k))
    orders = [mirrored_order(lanes, seed, "main.cell", b) for b in range(replicate * size, (replicate + 1) * size)]
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert len(follows) == k * (k - 1)
    assert len(set(follows.values())) == 1
    for place in range(k):
        assert set(Counter(order[place] for order in orders).values()) == {size // k}


def test_orders_differ_between_provisionings_and_between_cells() -> None:
    blocks = schedule(study("provisionings: 20"), 40)
    for cell in study("").cells():
        assert len({b.order for b in blocks if b.cell.key == cell.key}) == 6
    rounds = {tuple(b.cell.key for b in blocks[i : i + 2]) for i in range(0, len(blocks), 2)}
    assert len(rounds) == 2


GOLDEN = [
    ("4k randread qd1", 0, ("a", "c", "b"), 421382549),
    ("4k randwrite qd1", 0, ("b", "c", "a"), 1549819390),
    ("4k randread qd1", 1, ("b", "c", "a"), 1003355040),
    ("4k randwrite qd1", 1, ("a", "c", "b"), 507001333),
]


def test_golden_schedule() -> None:
    """Runs are resumed and repeated years later: these values may never change."""
    found = [(b.cell.name, b.index, b.order, b.seed) for b in schedule(study("provisionings: 2"), 2)]
    assert found == GOLDEN
