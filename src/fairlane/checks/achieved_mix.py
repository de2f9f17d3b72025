"""A mix of reads and writes that is not the requested one."""

import math
from collections.abc import Iterable

from fairlane.checks._trials import DIRECTIONS, PATTERNS, Oddity, Trial, TrialCheck, text
from fairlane.records import Evidence

POINTS = 0.02
"""A mix that is off by less does not move a result by the margin: where a write costs ten reads, two points of 70/30
are 0.18 of 3.7 reads' worth, 4.9 %; the default margin for throughput is 5 %."""
SIGMAS = 4.0
"""Binomial standard deviations (fio draws the direction of every I/O): beyond by chance once in 16,000 trials."""


class AchievedMix(TrialCheck):
    """Completed I/Os by direction against ``rwmixread``, or against a pattern that only reads or writes."""

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:  # noqa: ARG002
        return _requested(trial) is not None

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        counts = [trial.context("load", "ios", way) for way in DIRECTIONS]
        requested = _requested(trial)
        if requested is None or counts[0] is None or counts[1] is None or not (total := counts[0] + counts[1]):
            return
        ran = counts[0] / total
        noise = SIGMAS * math.sqrt(requested * (1 - requested) / total)
        if (off := abs(ran - requested)) <= POINTS + noise:
            return
        half = abs(ran - 0.5) <= POINTS + SIGMAS * 0.5 / math.sqrt(total)
        yield Oddity(
            "mix",
            "critical",
            off,
            f"the mix of reads and writes was {mix(ran)}, requested was {mix(requested)},",
            "a rate limit for each direction has this effect. The figures are those of another load"
            if half
            else "the figures are those of another load",
            {"asked_reads": requested, "reads": ran, "ios": int(total), "noise": noise, "half": half},
        )


def _requested(trial: Trial) -> float | None:
    """Requested share of reads, 0 to 1; None: not known."""
    pattern = text(trial.known, "rw")
    reads, writes = PATTERNS.get(pattern, (True, True))
    if reads and writes:
        percent = trial.parameter("rwmixread")
        return percent / 100 if percent is not None and percent <= 100 else None
    return 1.0 if reads else 0.0


def mix(reads: float) -> str:
    """``70/30`` for a share of reads of 0.7."""
    return f"{100 * reads:.0f}/{100 - round(100 * reads)}"


PLUGIN = AchievedMix()
