"""fio: what is written before the first trial, and the gate until a lane is steady."""

import pytest
from pydantic import ValidationError

from fairlane.workloads.fio import Fio, FioSpec

FIO = Fio()


def spec(**keys: object) -> FioSpec:
    return FioSpec.model_validate({"kind": "fio", "runtime": "1s", **keys})


@pytest.mark.parametrize(
    ("keys", "capacity", "least"),
    [
        ({}, 1 << 20, 1 << 20),
        ({}, (1 << 20) + 512, 1 << 20),
        ({"size": "512k"}, 1 << 20, 1 << 19),
        ({"size": "2m"}, 1 << 20, 1 << 20),
        ({"prefill": False}, 1 << 20, 0),
    ],
)
def test_the_prefill_must_write_the_part_in_use(keys: dict[str, object], capacity: int, least: int) -> None:
    assert FIO.prepares(spec(**keys).cells("main")[0], capacity) == least


@pytest.mark.parametrize(
    ("rw", "writes"), [("read", False), ("randread", False), ("randwrite", True), ("randrw", True), ("rw", True)]
)
def test_a_load_that_only_reads_is_known(rw: str, writes: bool) -> None:
    assert FIO.writes(spec(rw=[rw]).cells("main")[0]) is writes


def test_without_a_gate_nothing_changes() -> None:
    cell = spec().cells("main")[0]
    assert FIO.rounds(cell) is None
    assert "steady" not in cell.params


def test_the_gate_runs_its_own_load_on_the_same_part() -> None:
    one = spec(rw=["randread"], bs=["64k"], size="64m", ramp="1s",
               steady={"bs": "8k", "rw": "randrw", "iodepth": 4, "round": "2s", "limit": "21s"})  # fmt: skip
    rounds = FIO.rounds(one.cells("main")[0])
    assert rounds
    assert (rounds.seconds, rounds.most) == (2.0, 10)
    script = FIO.script(rounds.cell, ("/dev/lane/a",), 1)
    for line in (
        "rw=randrw",
        "bs=8192",
        "iodepth=4",
        "runtime=2000ms",
        "ramp_time=0ms",
        "rwmixread=70",
        "size=67108864",
    ):
        assert line in script.splitlines()


def test_cells_share_one_gate() -> None:
    cells = spec(iodepth=[1, 4], steady={}).cells("main")
    assert FIO.rounds(cells[0]) == FIO.rounds(cells[1])


GATE = ["4k", "randwrite", "qd16", "rounds", "of", "30s"]


def test_the_gate_is_part_of_what_is_known_of_a_cell() -> None:
    one = spec(steady={"round": "30s"})
    assert one.known(one.cells("main")[0])["steady"].replace(",", "").split() == GATE


@pytest.mark.parametrize("steady", [{"round": "60s", "limit": "4m"}, {"bs": 100}, {"round": "1500us"}, {"rounds": 3}])
def test_a_gate_that_cannot_be_judged_is_refused(steady: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        spec(steady=steady)
