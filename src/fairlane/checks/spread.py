"""Figures of one lane in one cell with two modes, a wide range or an extreme tail."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.histogram import BEYOND, count
from fairlane.stats.pairs import Reading, shelve

_RANGE = 1.5
"""Largest / smallest IOPS over the blocks. 20 normal values span 3.7 standard deviations on average, so 1.5 means 11 %
from block to block; SNIA's PTS calls a device steady whose rounds span at most 20 %, some 8 % from round to round."""

_GAP = math.log(1.05)
"""Least distance between two modes: the default margin for throughput."""
_APART = 2.0
"""... and in units of the wider mode. With at least two blocks in each mode one normal sample in 26 looks so at 6
blocks, one in 120 at 8, one in 1200 at 10 (seeded simulation); below 6 it happens too often to mean anything."""
_FEWEST = 6

_TAIL = 50.0
"""p99 / p50. A memoryless queue has 6.6, flash that collects garbage some 10 to 30; above it I/Os wait for a timer (a
delayed ACK is 40 ms, a TCP timeout 200 ms) or come from two different places."""


_WHY = {
    "two-modes": "find out what differs between the modes before trusting the mean",
    "range": "the lane was not in one steady state",
    "tail": "some I/Os wait for a timer, or come from a slower place than the others",
}


@dataclass(frozen=True)
class _Oddity:
    """Something odd about one lane in one cell."""

    kind: str
    size: float
    """The larger, the odder; among oddities of one kind."""
    message: str
    proof: Mapping[str, object]


class Spread(Check):
    """Warns, once per lane and kind, and drops nothing: an outlier may be the truth about a lane."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        shelves = shelve(evidence.observations, {"iops", "lat_p50", "lat_p99"})
        names = {cell.key: cell.name for cell in evidence.cells()}
        for lane in evidence.study.lanes:
            oddities = [
                (cell.key, o) for cell in evidence.cells() for o in _odd(shelves.get(cell.key, {}).get(lane, {}))
            ]
            for kind, why in _WHY.items():
                odd = {key: oddity for key, oddity in oddities if oddity.kind == kind}
                if odd:
                    worst = max(odd, key=lambda key: odd[key].size)
                    yield self.finding(
                        kind,
                        "warning",
                        f"{odd[worst].message} at {names[worst]}: {why}",
                        cells=list(odd),
                        lanes=[lane],
                        evidence={key: oddity.proof for key, oddity in odd.items()},
                    )


def _odd(readings: Mapping[int, Reading]) -> Iterator[_Oddity]:
    by_block = {b: r.figures["iops"].value for b, r in sorted(readings.items()) if "iops" in r.figures}
    rounded = {str(b): round(iops, 1) for b, iops in by_block.items()}
    least, most = min(by_block.values(), default=1.0), max(by_block.values(), default=1.0)
    split = two_modes(tuple(by_block.values()))
    if split:
        low, high = split
        yield _Oddity(
            "two-modes",
            min(high) / max(low),
            f"the blocks fall into two modes ({len(low)} at {min(low):,.0f}-{max(low):,.0f} IOPS, {len(high)} at "
            f"{min(high):,.0f}-{max(high):,.0f})",
            {
                "iops": rounded,
                "modes": [len(low), len(high)],
                "from": [min(low), min(high)],
                "to": [max(low), max(high)],
            },
        )
    elif most > _RANGE * least:
        yield _Oddity(
            "range",
            most / least,
            f"IOPS of single blocks range from {least:,.0f} to {most:,.0f}",
            {"iops": rounded, "ratio": most / least, "least": least, "most": most},
        )
    stretched = {
        b: r.figures["lat_p99"].value / r.figures["lat_p50"].value
        for b, r in sorted(readings.items())
        if "lat_p99" in r.figures and count(r.latency) >= 100 * BEYOND
    }
    worst = {str(b): round(ratio, 1) for b, ratio in stretched.items() if ratio > _TAIL}
    if worst:
        yield _Oddity(
            "tail",
            max(worst.values()),
            f"p99 latency is up to {max(worst.values()):,.0f} times p50 in {len(worst)} of {len(stretched)} blocks",
            {"p99_over_p50": worst, "of": len(stretched)},
        )


def two_modes(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """The lower and the upper values, where a gap splits them that is wide against either side; else None.

    ``values`` > 0 are compared by ratio. At least 6, at least two on each side.
    """
    if len(values) < _FEWEST:
        return None
    ordered = sorted(values)
    logs = [math.log(v) for v in ordered]
    cut = max(range(2, len(logs) - 1), key=lambda i: logs[i] - logs[i - 1])
    gap = logs[cut] - logs[cut - 1]
    wider = max(logs[cut - 1] - logs[0], logs[-1] - logs[cut])
    return (ordered[:cut], ordered[cut:]) if gap > _GAP and gap >= _APART * wider else None


PLUGIN = Spread()
