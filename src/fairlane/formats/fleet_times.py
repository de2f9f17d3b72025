"""``fleet.json``: whether the machines of a fleet were under load at the planned time. Pure.

A machine that begins or ends late leaves its share to the others: the total rate is overstated, and the trial is void.
``checks/late_starters.py`` weighs smaller differences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BEGIN = 0.25
"""Seconds after the plan from which on a machine began late, beside the uncertainty of its clock."""
END = 2.0
"""Seconds after the planned end, and after the first machine's end, from which on a machine ended late: programs take
their time to end, and a busy machine takes longer."""
SHARE = 0.05
"""Share of a load's time, if that is more: the margin of IOPS, from which on ``late_starters`` is critical."""
EMULATED = 5.0
"""Factor of both for emulated machines, whose clocks run while they wait for a processor."""


@dataclass(frozen=True)
class Times:
    """When one machine's load began and ended, seconds."""

    machine: str
    began: float
    """After the planned instant."""
    within: float
    """Largest error of the clock's offset."""
    ended: float
    """After the planned end."""


def judge(times: Sequence[Times], seconds: float, *, emulated: bool = False) -> dict[str, Any]:
    """What was planned and what happened, for the trial's raw file ``fleet.json``; ``late`` names the machines that
    void the trial, and is empty if none does. ``seconds``: planned length of the load."""
    factor = EMULATED if emulated else 1.0
    begin, end = (max(least * factor, SHARE * seconds) for least in (BEGIN, END))
    first = min(one.ended for one in times)
    late = [
        *(f"{t.machine} began {t.began:.2f} s late" for t in times if t.began - t.within > begin),
        *(f"{t.machine} ended {t.ended:.2f} s late" for t in times if min(t.ended, t.ended - first) > end),
    ]
    return {
        "seconds": seconds,
        "limits": {"begin": begin, "end": end},
        "machines": {t.machine: {"began": t.began, "within": t.within, "ended": t.ended} for t in times},
        "late": late,
    }


def reason(fleet: Mapping[str, Any]) -> str:
    """Why the trial of this ``fleet.json`` is void; empty: it is not."""
    late = fleet.get("late")
    if not isinstance(late, list) or not late:
        return ""
    return f"the machines were not under load together: {'; '.join(map(str, late))}"
