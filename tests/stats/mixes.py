"""Runs of mixed loads with chosen latencies of reads and of writes, read from the text that fio would print."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairlane.records import Block, Cell, Evidence, Verdict
from fairlane.runs.observe import observe
from fairlane.study.load import parse_study
from fairlane.workloads import _fio_text
from fairlane.workloads._fio_text import Latency

MS = 1e6


@dataclass(frozen=True)
class Way:
    """One direction of one trial."""

    ios: float
    mean: float
    """ns."""


Lane = Callable[[Cell], Mapping[str, Way]]
"""Both directions of a lane in a cell, without noise."""


def mix(reads: Way, writes: Way) -> Lane:
    return lambda _: {"read": reads, "write": writes}


def fio_json(cell: Cell, ways: Mapping[str, Way]) -> bytes:
    sides = {}
    for name in ("read", "write"):
        way = ways.get(name, Way(0, 0.0))
        parts = (Latency(way.mean * share) for share in (0.05, 0.95, 1.0))
        sides[name] = _fio_text.Side(round(way.ios), *parts)
    return _fio_text.report(cell, sides, 10_000, usr_cpu=5.0, sys_cpu=20.0)


def run(
    lanes: Mapping[str, Lane], *, blocks: int = 10, noise: float = 0.02, load: str = "rw: [randrw]", seed: int = 7
) -> Evidence:
    """Complete; the first lane is the baseline. ``noise``: sd of each trial's figures, of each direction by itself,
    beside one of the same size that the lanes of a block share."""
    text = (
        f"name: mixes\nplatform: {{kind: fake}}\nbaseline: {next(iter(lanes))}\nlanes:\n"
        + "".join(f"  {name}: {{transport: iscsi}}\n" for name in lanes)
        + f"workloads:\n  main: {{kind: fio, bs: [8k], runtime: 10s, {load}}}\ndesign: {{looks: [{blocks}]}}\n"
    )
    study = parse_study(text, "mixes.yaml")
    chance = random.Random(seed)  # noqa: S311 - noise
    planned, seen = [], []
    for cell in study.cells():
        for index in range(blocks):
            names = list(lanes) if index % 2 else list(lanes)[::-1]
            block = Block(cell, index, tuple(names), 1 + index)
            planned.append(block)
            shared = chance.gauss(0, noise)
            for name in names:
                ways = {
                    way: Way(of.ios / (factor := 2.718281828 ** (shared + chance.gauss(0, noise))), of.mean * factor)
                    for way, of in lanes[name](cell).items()
                }
                seen.append(observe(block, name, {"status": b"0", "fio.json": fio_json(cell, ways)}))
    assert not [o.failed for o in seen if o.failed]
    seen.sort(key=lambda o: (o.cell, o.block, o.lane))
    return Evidence("mixes", study, text, 1, tuple(planned), tuple(seen), {}, {})


def words(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Metric -> word."""
    return {v.metric: v.verdict for v in verdicts}
