"""Evidence made of chosen figures, one number per trial, for the judge to judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from fairlane.records import Block, Evidence, Histogram, Observation
from fairlane.study.load import parse_study

MakeRun = Callable[..., Evidence]


def make_run(
    cells: Sequence[Mapping[str, Sequence[float | None]]],
    *,
    looks: Sequence[int] = (6, 10, 15, 20),
    primary: str = "iops",
    margins: Mapping[str, float] | None = None,
    complete: bool = True,
    latency: Callable[[str, int], Histogram] | None = None,
    others: Callable[[str, int, float], Mapping[str, float]] | None = None,
) -> Evidence:
    """``cells[i][lane][block]`` is the primary's value (or IOPS, where that is a percentile); None: the trial failed.

    The first lane is the baseline. A list shorter than the others': the trial is missing. ``latency(lane, block)``
    gives bins, ``others(lane, block, value)`` further metrics.
    """
    lanes = list(cells[0])
    lane_text = "".join(f"  {lane}: {{transport: local}}\n" for lane in lanes)
    depths = [2**i for i in range(len(cells))]
    study = parse_study(
        f"name: made\nplatform: {{kind: fake}}\nbaseline: {lanes[0]}\nlanes:\n{lane_text}"
        f"workloads:\n  main: {{kind: fio, iodepth: {depths}, runtime: 1s, primary: {primary}}}\n"
        f"design: {{looks: {list(looks)}, margins: {dict(margins or {})}}}\n",
        "made.yaml",
    )
    keyed = dict(zip(study.cells(), cells, strict=True))
    blocks = [
        Block(cell, b, tuple(lanes[(i + b) % len(lanes)] for i in range(len(lanes))), 1 + b)
        for cell, figures in keyed.items()
        for b in range(max(len(values) for values in figures.values()))
    ]
    name = "iops" if primary.startswith("lat_p") else primary
    seen = []
    for block in blocks:
        for position, lane in enumerate(block.order):
            values = keyed[block.cell][lane]
            if block.index >= len(values):
                continue
            value = values[block.index]
            trial = Observation(block.cell.key, block.index, lane, position)
            if value is None:
                seen.append(replace(trial, failed="fio was killed by signal 9"))
                continue
            metrics = {name: value, **(others(lane, block.index, value) if others else {})}
            bins = {"read.lat": latency(lane, block.index)} if latency else {}
            seen.append(replace(trial, metrics=metrics, histograms=bins))
    seen.sort(key=lambda o: (o.cell, o.block, o.lane))
    return Evidence("made", study, "", 1, tuple(blocks), tuple(seen), {}, {}, complete=complete)


@pytest.fixture
def run() -> MakeRun:
    return make_run
