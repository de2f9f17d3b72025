"""What trials without a figure could have shown.

A failed trial has no figure, and which trials fail is seldom chance: a lane whose slow trials fail looks as fast as its
other trials. So every interval is drawn twice more, with the missing figures of one lane as low and those of the other
as high as they may have been, and the other way round: what decides spans all three (worst-case bounds: Manski, Am.
Econ. Rev. 80, 1990, 319-323). A machine that died under a trial took its figure along, though the trial was then
carried out once more.

Where more than ``FEW`` of a lane's trials fail in all its cells together, a cell in which fewer did was lucky: the rest
of the share counts there, too. Where fewer do, a single one in a cell is an exception, however few blocks it has.
"""

import math
from collections.abc import Sequence
from statistics import median

FEW = 0.1
"""Share of a lane's trials that may fail as exceptions. Where more do, failing is a state of the lane that its other
trials need not show."""
_STATE = math.log(2)
"""How far from its lane's median a trial may have been in such a state, on the log scale: half or twice as much."""


def reach(lanes: Sequence[Sequence[float]], shares: Sequence[float]) -> tuple[float, float]:
    """Least and most, from its lane's median, that a missing figure may have been, on the log scale.

    As far off as any figure of the lanes is from its own lane's median, and at least ``_STATE`` where more than ``FEW``
    of a lane's trials are missing. ``lanes``: the logarithms of their figures; ``shares``: of each lane's trials, those
    without one. ValueError: a lane has no figure.
    """
    away = [log - centre for logs in lanes for centre in [median(logs)] for log in logs]
    state = _STATE if max(shares) > FEW else 0.0
    return min(*away, -state), max(*away, state)
