"""A lane that moves against the other from block to block: a cache that fills, an SLC buffer that empties."""

from collections.abc import Iterable

from fairlane.checks._pairs import together
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.moving import PROVEN


class MovingLane(Check):
    """A slope of the log-ratio over the blocks, which pairing does not cancel, pooled over all cells of two lanes.
    First blocks are left out until none is left; a warning where they are most of the run. A word that the slope would
    undo is withheld."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        baseline = evidence.study.baseline
        for (lane, _), (cells, past) in together(evidence).items():
            move = past.move
            proof = {"left_out": move.first, "blocks": move.units, "slope": move.slope}
            if move.chance <= PROVEN and move.unsettled:
                mover, other = (lane, baseline)[past.mover], (baseline, lane)[past.mover]
                yield self.finding(
                    "moving",
                    "warning",
                    f"{mover} moves against {other} through most of the run (the first {move.first} of {move.units} "
                    f"blocks have a slope; at the end their ratio moves by {move.slope:+.2%} a block): the mean "
                    "hides that. Load or fill the lanes for longer before the first block, or run more blocks",
                    cells=cells,
                    lanes=[lane],
                    evidence=proof,
                )
            elif move.first:
                yield self.finding(
                    "left-out",
                    "info",
                    f"the first {move.first} of {move.units} blocks of {lane} against {baseline} are left out: the "
                    "ratio of the two still had a slope in them",
                    cells=cells,
                    lanes=[lane],
                    evidence=proof,
                )


PLUGIN = MovingLane()
