"""Syncs that came after more or fewer writes than requested."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck, number
from fairlane.metrics import rounded
from fairlane.records import Evidence

_OFF = 0.05
"""A trial ends between two syncs, which is one of hundreds."""


class AchievedSyncs(TrialCheck):
    """Writes / syncs against ``fsync`` or ``fdatasync`` of fio. In a mix fio 3.33 syncs once more after every read that
    follows a sync, so that there are fewer writes to a sync than asked for; lanes are alike in it unless their mixes
    differ."""

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:  # noqa: ARG002
        return trial.cell.kind == "fio" and not trial.several and bool(_every(trial))

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        every = _every(trial)
        writes, syncs = trial.context("load", "ios", "write"), trial.context("load", "syncs")
        if not every or not writes or not syncs:
            return
        # each process begins anew, and one write is on its way when the time is up
        processes = (number(trial.observation.context, "fio", "jobs") or 1.0) * 2
        ran = writes / syncs
        if abs(ran - every) <= every * (_OFF + processes * every / writes):
            return
        yield Oddity(
            "syncs",
            "info",
            max(ran / every, every / ran),
            f"one sync per {rounded(ran)} writes, requested was one per {every:,.0f},",
            "fio counts this way in mixes of reads and writes, for all lanes alike. To model a log, use a job that "
            "only writes",
            {"writes": int(writes), "syncs": int(syncs), "asked": int(every)},
        )


def _every(trial: Trial) -> float | None:
    """Writes between two syncs, as requested."""
    return trial.parameter("fsync") or trial.parameter("fdatasync")


PLUGIN = AchievedSyncs()
