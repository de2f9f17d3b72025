"""A mix of reads and writes that is not the mix asked for."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fairlane.checks._trials import DIRECTIONS, PATTERNS, Oddity, Trial, TrialCheck, text, trials
from fairlane.records import Evidence, Finding

_POINTS = 0.02
"""A mix that is off by less does not move a result by the margin: where a write costs ten reads, two points of 70/30
are 0.18 of 3.7 reads' worth, 4.9 %; the default margin for throughput is 5 %."""
_SIGMAS = 4.0
"""Binomial standard deviations (fio draws the direction of every I/O): beyond by chance once in 16,000 trials."""


class AchievedMix(TrialCheck):
    """I/Os that completed, by direction, against ``rwmixread`` or a pattern that only reads or writes. A lane that ran
    another mix than the baseline is not comparable with it, whatever was asked for: refused."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        yield from super().check(evidence)
        ran = _ran(evidence)
        baseline = evidence.study.baseline
        for lane in evidence.study.lanes:
            apart = {
                cell: (mine, theirs)
                for (name, cell), mine in ran.items()
                if name == lane and (theirs := ran.get((baseline, cell))) and _differ(mine, theirs)
            }
            if apart and lane != baseline:
                mine, theirs = max(apart.values(), key=lambda pair: abs(pair[0].reads - pair[1].reads))
                yield self.finding(
                    "critical",
                    f"{lane} ran {_mix(mine.reads)} reads and writes, {baseline} {_mix(theirs.reads)}: "
                    "not the same load",
                    cells=list(apart),
                    lanes=[lane],
                    evidence={cell: {lane: m.reads, baseline: t.reads} for cell, (m, t) in apart.items()},
                    refuses=True,
                )

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        counts = [trial.context("load", "ios", way) for way in DIRECTIONS]
        asked = _asked(trial)
        if asked is None or counts[0] is None or counts[1] is None or not (total := counts[0] + counts[1]):
            return
        ran = counts[0] / total
        noise = _SIGMAS * math.sqrt(asked * (1 - asked) / total)
        if (off := abs(ran - asked)) <= _POINTS + noise:
            return
        half = abs(ran - 0.5) <= _POINTS + _SIGMAS * 0.5 / math.sqrt(total)
        yield Oddity(
            "mix",
            "critical",
            off,
            f"asked for {_mix(asked)} reads and writes, ran {_mix(ran)}",
            "a rate cap that holds for each direction does that. These are figures of another load"
            if half
            else "these are figures of another load",
            {"asked_reads": asked, "reads": ran, "ios": int(total), "noise": noise},
        )


@dataclass(frozen=True)
class _Ran:
    """I/Os of all trials of a lane and cell."""

    reads: float
    """Share."""
    ios: float


def _ran(evidence: Evidence) -> dict[tuple[str, str], _Ran]:
    counts: dict[tuple[str, str], list[float]] = {}
    for trial in trials(evidence):
        total = counts.setdefault((trial.seen.lane, trial.cell.key), [0.0, 0.0])
        for i, way in enumerate(DIRECTIONS):
            total[i] += trial.context("load", "ios", way) or 0.0
    return {
        place: _Ran(reads / (reads + writes), reads + writes)
        for place, (reads, writes) in counts.items()
        if reads + writes
    }


def _differ(one: _Ran, two: _Ran) -> bool:
    noise = _SIGMAS * math.sqrt(sum(ran.reads * (1 - ran.reads) / ran.ios for ran in (one, two)))
    return abs(one.reads - two.reads) > _POINTS + noise


def _asked(trial: Trial) -> float | None:
    """Share of reads; None: not known."""
    pattern = text(trial.known, "rw")
    reads, writes = PATTERNS.get(pattern, (True, True))
    if reads and writes:
        mix = trial.parameter("rwmixread")
        return mix / 100 if mix is not None and mix <= 100 else None
    return 1.0 if reads else 0.0


def _mix(reads: float) -> str:
    return f"{100 * reads:.0f}/{100 - round(100 * reads)}"


PLUGIN = AchievedMix()
