"""Ladders: cells that differ only in load, and the figures of each lane on their rungs.

Open and closed loop never share a ladder: in a closed loop (``iodepth``, ``numjobs``, ``fleet``) the load waits for the
answers, in an open one (``rate_iops``) it does not, and a latency means something else (Schroeder, Wierman and
Harchol-Balter, NSDI 2006).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlane.records import Cell
from fairlane.stats.pairs import Reading
from fairlane.units import format_size

if TYPE_CHECKING:
    from fairlane.study.spec import Study

CLIMBS = ("iodepth", "numjobs", "fleet", "rate_iops")
"""Parameters that raise the load; the last one is that of an open loop."""
FEWEST = 3
"""Rungs below which there is no curve."""


@dataclass(frozen=True)
class Ladder:
    """Cells of one workload in rising order of one parameter, all others equal."""

    workload: str
    name: str
    """``4k randread, iodepth 1 to 64``."""
    climb: str
    """The parameter that rises."""
    cells: tuple[Cell, ...]
    loads: tuple[float, ...]
    """Load of each cell: operations in flight (iodepth x numjobs x fleet), or the requested rate (1/s, of all jobs)."""

    @property
    def open_loop(self) -> bool:
        return self.climb == "rate_iops"

    @property
    def throughput(self) -> str:
        """The rate's name in the registry: iops, of a database tps."""
        return "tps" if self.cells[0].kind == "oltp" else "iops"

    @property
    def unit(self) -> str:
        """Of the loads of a closed loop."""
        return "clients" if self.cells[0].kind == "oltp" else "in flight"


@dataclass(frozen=True)
class Point:
    """One rung of one lane in one block."""

    load: float
    throughput: float
    """1/s."""
    latency: float
    """ns, of the requested metric."""


def ladders(study: "Study") -> tuple[Ladder, ...]:
    """All ladders of at least three rungs, in the order of the study."""
    result = []
    for workload in study.workloads:
        cells = [cell for cell in study.cells() if cell.workload == workload]
        for climb in CLIMBS:
            groups: dict[str, list[Cell]] = {}
            for cell in cells:
                paced = cell.params.get("rate_iops") or cell.params.get("rate")
                if _number(cell.params.get(climb)) and (climb == "rate_iops" or not paced):
                    rest = {k: v for k, v in cell.params.items() if k != climb}
                    groups.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(cell)
            for group in groups.values():
                steps = {float(cell.params[climb]): cell for cell in group}
                rungs = [steps[step] for step in sorted(steps)]
                if len(group) == len(rungs) >= FEWEST:
                    loads = tuple(_load(cell.params, climb) for cell in rungs)
                    result.append(Ladder(workload, _name(rungs, climb), climb, tuple(rungs), loads))
    return tuple(result)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and math.isfinite(value)


def _load(params: Mapping[str, Any], climb: str) -> float:
    factors = ("rate_iops" if climb == "rate_iops" else "iodepth", "numjobs", "fleet")
    return math.prod(float(params[key]) for key in factors if _number(params.get(key)))


def _name(rungs: Sequence[Cell], climb: str) -> str:
    """``4k randread, iodepth 1 to 64``, from the parameters; the workload's name where they have neither bs nor rw."""
    first, last = rungs[0].params, rungs[-1].params
    parts = [format_size(int(first["bs"])) if _number(first.get("bs")) else "", str(first.get("rw") or "")]
    mix = first.get("rwmixread")
    parts.append(
        f"{mix:g}/{100 - mix:g}" if isinstance(mix, int | float) and first.get("rw") in ("rw", "randrw") else ""
    )
    if climb in ("numjobs", "rate_iops") and _number(first.get("iodepth")):
        parts.append(f"qd{first['iodepth']}")
    if climb != "numjobs" and _number(first.get("numjobs")) and first["numjobs"] != 1:
        parts.append(f"x{first['numjobs']}")
    head = " ".join(part for part in parts if part) or rungs[0].workload
    title = "clients" if climb == "numjobs" and rungs[0].kind == "oltp" else climb
    return f"{head}, {title} {first[climb]:g} to {last[climb]:g}"


def climb(
    ladder: Ladder, shelves: Mapping[str, Mapping[str, Mapping[int, Reading]]], lane: str, block: int, latency: str
) -> tuple[Point, ...]:
    """The rungs of ``lane`` in ``block`` with ``latency`` (a metric's name), by rising load; empty if one is missing.

    ``shelves`` as ``pairs.shelve`` gives them. The throughput is IOPS or, of a database, transactions per second.
    """
    points = []
    for cell, load in zip(ladder.cells, ladder.loads, strict=True):
        reading = shelves.get(cell.key, {}).get(lane, {}).get(block)
        here = reading and point(reading, load, latency)
        if not here:
            return ()
        points.append(here)
    return tuple(points)


def point(reading: Reading, load: float, latency: str) -> Point | None:
    """A trial as a rung; None: it has no throughput, or no ``latency``."""
    rate = reading.figures.get("iops") or reading.figures.get("tps")
    waited = reading.figures.get(latency)
    return Point(load, rate.value, waited.value) if rate and waited else None
