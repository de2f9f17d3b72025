"""Rates without a stated direction that are twice the same lane's mix: reads and writes that were added up."""

from collections.abc import Iterable, Iterator

from fairlane.checks._trials import Trial, trials
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_AS_TWICE = 0.01
"""Study 003: 1.990 and 1.994 times. Chance brings a ratio between 1 and 4 so near to 2 once in 70."""
_CERTAIN = 2
"""Lanes of a run: chance brings two of seven so near to it once in 230."""

_LOAD = ("bs", "iodepth", "numjobs", "fleet")
"""What must be the same, beside the direction."""


class Doubled(Check):
    """A lane that its own limit holds does as many reads, writes or both a second. If a figure that does not say which
    (``rw``) is twice the mix's of the same block size, it is the sum of a read job and of a write job. It needs no
    ``cap_iops``, and finds limits that the study does not state.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        pairs = [(one, mix) for one, mix in _pairs(trials(evidence)) if _twice(one, mix)]
        lanes = dict.fromkeys(one.observation.lane for one, _ in pairs)
        for lane in lanes:
            own = [(one, mix) for one, mix in pairs if one.observation.lane == lane]
            one, mix = own[0]
            yield self.finding(
                "iops",
                "critical" if len(lanes) >= _CERTAIN else "warning",
                f"{_iops(one):,.6g} IOPS at {one.cell.name} is {_iops(one) / _iops(mix):.3g} times the "
                f"{_iops(mix):,.6g} at {mix.cell.name}: a read job and a write job under one limit were probably added "
                "up",
                cells=list(dict.fromkeys(one.cell.key for one, _ in own)),
                lanes=[lane],
                evidence={
                    one.cell.key: {"value": _iops(one), "mix": _iops(mix), "factor": _iops(one) / _iops(mix)}
                    for one, mix in own
                },
            )


def _pairs(of: Iterable[Trial]) -> Iterator[tuple[Trial, Trial]]:
    """(figure of unknown direction, mix) of one lane, load and repetition."""
    known = [t for t in of if t.metric("iops") and t.known.get("bs")]
    mixes = [t for t in known if t.directions == (True, True)]
    for one in known:
        if one.directions is None:
            yield from ((one, mix) for mix in mixes if _alike(one, mix))


def _alike(one: Trial, mix: Trial) -> bool:
    a, b = one.observation, mix.observation
    loads = ([trial.known.get(name) for name in _LOAD] for trial in (one, mix))
    return (a.lane, a.block) == (b.lane, b.block) and next(loads) == next(loads)


def _twice(one: Trial, mix: Trial) -> bool:
    return abs(_iops(one) / _iops(mix) / 2 - 1) <= _AS_TWICE + one.step("iops") + mix.step("iops")


def _iops(trial: Trial) -> float:
    return trial.metric("iops") or 0.0


PLUGIN = Doubled()
