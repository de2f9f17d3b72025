"""A run that took weeks, with pauses."""

from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.guard.conditions import days
from fairlane.guard.parameters import PARAMETERS
from fairlane.records import Evidence, Finding


class LongRun(Check):
    """First against last event of the journal, where it was written while measuring: a warning beyond the distance that
    the guard allows between dates. Pairing within blocks keeps lanes comparable; the figures of one lane span more than
    one time."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        dates = days(evidence) if evidence.study.platform.measured_here else []
        date = PARAMETERS["date"]
        if not dates or max(dates) - min(dates) <= date.tolerance:
            return
        first, last = date.shown(min(dates)), date.shown(max(dates))
        yield self.finding(
            "long",
            "warning",
            f"the run was measured between {first} and {last}: array, network and other load may have changed in "
            "between. Each block compares its lanes close in time, but describes only its own day",
            evidence={"first": first, "last": last, "days": round(max(dates) - min(dates), 1)},
        )


PLUGIN = LongRun()
