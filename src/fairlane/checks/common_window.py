"""Machines of a fleet that were under load together for too little of the time."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck
from fairlane.metrics import METRICS
from fairlane.records import Evidence

_LEAST = 0.95
"""Least share of the time from the first start to the last end. Rates are overstated by up to the rest."""


class CommonWindow(TrialCheck):
    """``window.share`` in at least half of a cell's trials. ``late_starters`` names the machine that began late; this
    check also covers early ends and many small delays."""

    quorum = 0.5

    needs = frozenset({"window"})

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        share = trial.context("window", "share")
        if share is None or share >= _LEAST:
            return
        yield Oddity(
            "window",
            "critical" if 1 - share >= 2 * METRICS["iops"].margin else "warning",
            1 - share,
            f"all machines were under load together for only {share:.0%} of the time",
            "the summed rate was never reached at any one time. Use longer trials or fewer machines",
            {"share": share, "skew_ms": trial.context("window", "skew_ms")},
        )


PLUGIN = CommonWindow()
