"""Absolute values per lane and cell, with those of single blocks, and CPU per I/O by place. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean

from fairlane.records import Cell, Evidence, Verdict
from fairlane.report.phrases import SYMBOL, aligned, metric_of, value
from fairlane.report.text import DASH

PLACES = {
    "generator": "the load generator and its system calls",
    "initiator": "the initiator's own kernel threads",
    "target": "the target's own kernel threads",
    "shared": "kernel workers, which serve both initiator and target where both are in one machine (all of "
    "NVMe/TCP runs on them; of iSCSI, the initiator's sending and the target's access to the medium)",
    "other": "everything else: ksoftirqd, RCU, daemons",
}
"""Place where CPU time was spent, in the order of an I/O's path -> its meaning; unknown places count as other."""


REFUSED = SYMBOL["refused"]


@dataclass(frozen=True)
class Bar:
    """One lane in one cell."""

    lane: str
    """Label."""
    index: int
    """0 for the baseline, 1, 2, ... for the other lanes in the study's order: the lane's colour."""
    value: float | None
    text: str
    points: tuple[float, ...]
    """One per block that succeeded."""
    lowest: str
    highest: str


@dataclass(frozen=True)
class Bars:
    cell: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Levels:
    """One metric over the cells of a workload."""

    metric: str
    """Name in the registry."""
    title: str
    better: int
    cells: tuple[Bars, ...]


@dataclass(frozen=True)
class Stack:
    """CPU time per I/O of one lane in one cell, in ns, mean over blocks, by place in the order of PLACES."""

    lane: str
    parts: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class StackCell:
    cell: str
    stacks: tuple[Stack, ...]


@dataclass(frozen=True)
class Stacks:
    """CPU per I/O over the cells of a workload; places without any time in any cell are left out."""

    places: tuple[str, ...]
    cells: tuple[StackCell, ...]
    note: str


def _cells(evidence: Evidence, workload: str) -> list[Cell]:
    return [cell for cell in evidence.cells() if cell.workload == workload]


def levels(
    evidence: Evidence, verdicts: Sequence[Verdict], workload: str, metrics: Sequence[str], label: Mapping[str, str]
) -> tuple[Levels, ...]:
    """``metrics`` of the cells of ``workload``. The value is the verdict's own, so that table and bar agree. A lane
    that a cell's verdict refuses to compare has ``REFUSED`` before its name."""
    by_verdict: dict[tuple[str, str, str], float] = {}
    for v in verdicts:
        for lane, figure in ((v.lane, v.lane_value), (v.baseline, v.baseline_value)):
            if figure is not None:
                by_verdict.setdefault((v.key, lane, v.metric), figure)
    refused = {(v.key, v.lane) for v in verdicts if v.verdict == "refused"}
    points: dict[tuple[str, str, str], list[float]] = {}
    for o in evidence.observations:
        for metric, figure in o.metrics.items():
            if not o.failed and math.isfinite(figure):
                points.setdefault((o.cell, o.lane, metric), []).append(figure)
    baseline = evidence.study.baseline
    index = {lane: i for i, lane in enumerate([baseline, *(lane for lane in label if lane != baseline)])}
    result = []
    for metric in metrics:
        cells = []
        for cell in _cells(evidence, workload):
            bars = [
                _bar(
                    metric,
                    by_verdict.get((cell.key, lane, metric)),
                    points.get((cell.key, lane, metric), []),
                    f"{REFUSED} {text}" if (cell.key, lane) in refused else text,
                    index[lane],
                )
                for lane, text in label.items()
            ]
            if any(bar.value is not None for bar in bars):
                cells.append(Bars(cell.name, tuple(bars)))
        if cells:
            entry = metric_of(metric)
            result.append(Levels(metric, entry.title, entry.better, _aligned(metric, cells)))
    return tuple(result)


def _aligned(metric: str, cells: Sequence[Bars]) -> tuple[Bars, ...]:
    """The same with all texts of the column in one unit."""
    texts = iter(aligned(metric, [bar.value for cell in cells for bar in cell.bars]))
    return tuple(replace(c, bars=tuple(replace(bar, text=next(texts)) for bar in c.bars)) for c in cells)


def _bar(metric: str, figure: float | None, points: list[float], label: str, index: int) -> Bar:
    if figure is None and points:
        figure = geometric_mean(points) if min(points) > 0 else math.fsum(points) / len(points)
    ends = (value(metric, min(points)), value(metric, max(points))) if points else (DASH, DASH)
    return Bar(label, index, figure, value(metric, figure), tuple(points), *ends)


def cpu(evidence: Evidence, workload: str, label: Mapping[str, str]) -> Stacks | None:
    """CPU per I/O by place; None where the probe does not report it."""
    times: dict[tuple[str, str], list[list[float]]] = {}
    for o in evidence.observations:
        by_place = (o.context.get("cpu") or {}).get("by_place") or {}
        if by_place and not o.failed:
            parts = [float(by_place.get(place) or 0) for place in PLACES]
            parts[-1] += math.fsum(float(v) for k, v in by_place.items() if k not in PLACES)
            times.setdefault((o.cell, o.lane), []).append(parts)
    if not times:
        return None
    means = {key: [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)] for key, rows in times.items()}
    used = [i for i in range(len(PLACES)) if any(parts[i] > 0 for parts in means.values())]
    places = tuple(list(PLACES)[i] for i in used)
    totals = dict(zip(means, aligned("cpu_per_io", [math.fsum(parts) for parts in means.values()]), strict=True))
    cells = []
    for cell in _cells(evidence, workload):
        stacks = []
        for lane, text in label.items():
            if (cell.key, lane) in means:
                parts = means[cell.key, lane]
                stacks.append(Stack(text, tuple(max(parts[i], 0.0) for i in used), totals[cell.key, lane]))
        if stacks:
            cells.append(StackCell(cell.name, tuple(stacks)))
    meant = "; ".join(f"{place}: {PLACES[place]}" for place in places)
    note = f"CPU time during the load per I/O, mean over blocks. {meant[:1].upper()}{meant[1:]}. " + (
        "Interrupt work is charged to the thread it interrupts, or to no thread on an idle core: totals are good to "
        "about "
        "1 % on a busy core and too low at iodepth 1; the split between places is good to about 20 %."
        if evidence.modelled
        else "Interrupt work may be charged to the thread it interrupts: trust totals more than the split."
    )
    return Stacks(places, tuple(cells), note) if cells else None
