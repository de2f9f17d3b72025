"""The plan of a study before it runs: its cells, and blocks, trials and time for every look. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairlane import registry
from fairlane.records import Cell

if TYPE_CHECKING:
    from fairlane.study.base import Design
    from fairlane.study.spec import Study


@dataclass(frozen=True)
class PlannedCell:
    """One cell and the time under load of one of its trials, in the guest's seconds."""

    cell: Cell
    trial_seconds: float


@dataclass(frozen=True)
class PlannedLook:
    """Work done by one look at the verdicts, if no cell is decided before. A study that stops on width lists its first
    and last look only."""

    blocks: int
    """Blocks per cell."""
    trials: int
    """Trials of all cells and lanes."""
    load_seconds: float
    """Time under load, in the guest's seconds."""
    wall_seconds: float
    """Expected wall time with the given number of jobs, without setting up."""


@dataclass(frozen=True)
class PlannedProvisionings:
    """Cost of re-creating volumes and machines, beside the load. Boot times are not known beforehand; a run's journal
    has them (``seconds`` of every opening)."""

    count: int
    blocks: int
    """Blocks of a cell in each."""
    fill_bytes: int | None
    """Bytes that the prefill writes each time, on all volumes of all lanes; None: the volumes' size is not known."""
    steady_seconds: float
    """Longest time under load each time until the lanes are steady; 0: the study sets no such gate."""


@dataclass(frozen=True)
class Plan:
    """The plan of a study for a number of jobs; ``workers`` is how many of them the platform allows."""

    cells: tuple[PlannedCell, ...]
    looks: tuple[PlannedLook, ...]
    workers: int
    provisionings: PlannedProvisionings


def plan(study: "Study", jobs: int) -> Plan:
    """The plan of ``study`` with up to ``jobs`` blocks in parallel (at least 1)."""
    workers = max(1, study.platform.workers(jobs))
    cells = tuple(PlannedCell(c, study.workloads[c.workload].trial_seconds(c)) for c in study.cells())
    lanes = [len(study.lanes_of(c.cell)) for c in cells]
    walls = [k * study.platform.wall_seconds(c.trial_seconds) for k, c in zip(lanes, cells, strict=True)]  # of a block

    def look(n: int) -> PlannedLook:
        blocks = [study.blocks_of(c.cell, n) for c in cells]
        trials = [b * k for b, k in zip(blocks, lanes, strict=True)]
        load = sum(t * c.trial_seconds for t, c in zip(trials, cells, strict=True))
        wall = sum(b * w for b, w in zip(blocks, walls, strict=True)) / workers
        return PlannedLook(n, sum(trials), load, max(wall, max(walls, default=0.0)))

    looks = tuple(map(look, _listed_looks(study.design)))
    return Plan(cells, looks, workers, _provisionings(study))


def _provisionings(study: "Study") -> PlannedProvisionings:
    cells = [(registry.load("workloads", cell.kind), cell) for cell in study.cells()]
    known = study.platform.known()
    capacity = known.get("disk_size")
    prefills: dict[str, int] = {}
    for workload, cell in cells:
        if text := workload.prepare(cell, "/dev/lane"):
            prefills[text] = workload.prepares(cell, capacity) if isinstance(capacity, int) else 0
    volumes = len(study.lanes) * int(known.get("fleet") or 1) * int(known.get("disks") or 1)
    rounds = {(r.cell.name, r.seconds, r.most): r.seconds * r.most for w, cell in cells if (r := w.rounds(cell))}
    return PlannedProvisionings(
        study.design.provisionings,
        study.design.blocks_per_provisioning,
        None if prefills and not isinstance(capacity, int) else volumes * sum(prefills.values()),
        len(study.lanes) * sum(rounds.values()),
    )


def _listed_looks(design: "Design") -> tuple[int, ...]:
    return tuple(dict.fromkeys((design.stop.least, design.stop.most))) if design.stop else design.looks


def about(seconds: float) -> str:
    """A duration in seconds, rounded for a reader: ``0.25 s``, ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
