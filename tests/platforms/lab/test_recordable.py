"""QEMU records from half of all counts of instructions: every transport, and set-ups of any length, must end there."""

import asyncio
import os
import re
import signal
from collections.abc import Callable
from itertools import combinations_with_replacement, pairwise
from pathlib import Path

import pytest
from lab_study import study_of

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms.lab import Lab, qemu
from fairlane.platforms.lab.virtual import saved
from fairlane.records import Block
from fairlane.runs.observe import observe
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

TRANSPORTS = [name for name, transport in registry.every("lanes") if transport.virtual]
QUICK = ("local", "nvme_tcp")
PAIRS = [
    pytest.param(pair, id="+".join(pair), marks=[] if pair == QUICK else pytest.mark.slow)
    for pair in combinations_with_replacement(TRANSPORTS, 2)
]
"""A study has two lanes at least: a transport alone is the same one twice."""
HALF, EIGHTH = 2**31, 2**29
PER_BYTE = 50.1
"""Instructions of busybox's md5sum."""

STUDY = """
name: pair
platform: {{kind: lab, settle: 20ms}}
baseline: one
lanes:
  one: {{transport: {0}}}
  two: {{transport: {1}{copy}}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [8], runtime: 60ms, ramp: 20ms, prefill: false}}
design: {{looks: [2]}}
"""


class Padded(Lab):
    """A lab whose set-up works ``padding`` instructions longer."""

    padding = 0

    def setup_script(self) -> str:
        more = f"\nhead -c {self.padding / PER_BYTE:.0f} /dev/zero | md5sum > /dev/null\n"
        return super().setup_script() + (more if self.padding else "")


def lab(pair: tuple[str, str], padding: int = 0) -> Lab:
    made = Padded(study_of(STUDY.format(*pair, copy=", copy_of: one" if pair[0] == pair[1] else "")))
    made.padding = padding
    return made


@pytest.fixture
def counts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every count at which a guest stood while its state was made, in a cache that holds no state."""
    monkeypatch.setenv("FAIRLANE_CACHE", str(cache))
    seen: list[int] = []
    ask = qemu.Qemu.instructions

    async def asked(vm: qemu.Qemu) -> int:
        seen.append(await ask(vm))
        print(f"stopped at {seen[-1]}, eighth {seen[-1] % 2**32 // EIGHTH}")
        return seen[-1]

    monkeypatch.setattr(qemu.Qemu, "instructions", asked)
    return seen


def measured(made: Lab) -> dict[str, float]:
    """IOPS of the lanes in one block."""
    block = Block(made.study.cells()[0], 0, tuple(made.study.lanes), 7)

    async def measure() -> dict[str, float]:
        async with made:
            await made.open(print)
            seen = [observe(block, raw.lane, raw.outputs) async for raw in made.run_block(block)]
        print(f"identity {made.saved.identity}")
        assert [one.failed for one in seen] == ["", ""]
        return {one.lane: one.metrics["iops"] for one in seen}

    return asyncio.run(measure())


@pytest.mark.parametrize("pair", PAIRS)
def test_transports_run_alone_and_beside_each_other(counts: list[int], pair: tuple[str, str]) -> None:
    assert min(measured(lab(pair)).values()) > 1000
    assert counts[-1] % 2**32 < HALF


@pytest.mark.slow
def test_a_set_up_that_ends_in_the_upper_half(counts: list[int]) -> None:
    """Of two set-ups half of 2^32 apart one does; the first, with the packages of today."""
    for padding in (EIGHTH, EIGHTH + HALF):
        counts.clear()
        assert measured(lab(("local", "local"), padding)).keys() == {"one", "two"}
        assert counts[-1] % 2**32 < HALF
        if counts[0] % 2**32 >= HALF:
            break
    assert counts[0] % 2**32 >= HALF
    steps = [later - sooner for sooner, later in pairwise(counts)]
    assert max(steps) < HALF / 2, "a step must not pass over the lower half"


@pytest.mark.slow
def test_set_ups_that_end_in_each_eighth(counts: list[int]) -> None:
    ended: set[int] = set()
    padding = 0
    for _ in range(8):
        counts.clear()
        assert measured(lab(QUICK, padding)).keys() == {"one", "two"}
        assert counts[-1] % 2**32 < HALF
        ended.add(counts[0] % 2**32 // EIGHTH)
        # to the middle of the next eighth: the padding is not exact to the instruction
        padding += EIGHTH + EIGHTH // 2 - counts[0] % EIGHTH
    assert ended == set(range(8))


@pytest.mark.slow
def test_a_state_that_took_several_stops_is_built_again_alike(
    counts: list[int], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lab(QUICK)
    figures = measured(first)
    again = lab(QUICK)
    (cache / "again").mkdir()
    (cache / "again" / "images").symlink_to(cache / "images")
    monkeypatch.setenv("FAIRLANE_CACHE", str(cache / "again"))
    assert measured(again) == figures
    assert again.saved.folder != first.saved.folder
    assert again.saved.identity == first.saved.identity
    half = len(counts) // 2
    assert counts[:half] == counts[half:]


@pytest.mark.slow
def test_a_count_beyond_32_bits(counts: list[int]) -> None:
    """A set-up of 2 10^10 instructions: some minutes."""
    assert measured(lab(QUICK, 20_000_000_000)).keys() == {"one", "two"}
    assert counts[0] > 2**34


@pytest.mark.slow
def test_an_abort_names_qemu_and_what_to_do(counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Saved where QEMU cannot record, it aborts each time: the message says which version, and nothing tries again."""
    monkeypatch.setattr(saved, "recordable", lambda count: count % 2**32 >= HALF)
    with pytest.raises(FairlaneError, match="diff >= 0") as told:
        measured(lab(("local", "local")))
    assert qemu.version() in told.value.hint
    assert "QEMU" in told.value.hint


@pytest.fixture
def endless(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab whose set-up never ends, and of which one hears after each second of CPU time."""
    monkeypatch.setenv("FAIRLANE_CACHE", str(cache))
    monkeypatch.setattr(Lab, "setup_script", lambda self: "while :; do :; done\n")
    monkeypatch.setattr(saved, "_NOTICE_EVERY", 1.0)
    return lab(QUICK)


async def _open(made: Lab, notify: Callable[[str], None]) -> None:
    async with made:
        await made.open(notify)


def _children() -> set[int]:
    return {int(pid) for pid in Path("/proc/thread-self/children").read_text().split()}


@pytest.mark.slow
def test_a_set_up_that_never_ends_is_given_up_by_its_cpu_time(endless: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "_SETUP_CPU", 5.0)
    told: list[str] = []
    with pytest.raises(FairlaneError, match=r"\b\d+ s\b", check=kind("set-up-endless")):
        asyncio.run(_open(endless, told.append))
    assert [text for text in told if re.search(r"\b\d+ s\b", text)]


@pytest.mark.slow
def test_a_guest_that_stands_still_is_given_up(endless: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "_STALLED", 3.0)
    others = _children()  # machines of other tests, which stay for the session

    def halt(text: str) -> None:
        if re.search(r"\b\d+ s\b", text):  # how much CPU time the set-up took so far
            for pid in _children() - others:
                os.kill(pid, signal.SIGSTOP)

    with pytest.raises(FairlaneError, match=r"\b\d+ s\b", check=kind("set-up-stalled")):
        asyncio.run(_open(endless, halt))
