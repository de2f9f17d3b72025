"""Points that did not reach the requested rate."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck, text
from fairlane.metrics import METRICS
from fairlane.records import Evidence

_REACHED = 0.99
"""STATISTICS: an open-loop point counts as overrun below 99 % of the requested rate."""


class Overrun(TrialCheck):
    """IOPS against ``rate_iops``: of fio per job, so x numjobs x fleet; of other tools the total. I/Os sent late
    wait where no latency is measured, so latencies are too low: critical where one is the headline."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        rate, iops = trial.parameter("rate_iops"), trial.metric("iops")
        if not rate or iops is None:
            return
        per_job = trial.cell.kind == "fio" or text(trial.known, "tool") == "fio"
        requested = rate * (trial.parameter("numjobs") or 1.0) * trial.fleet[0] if per_job else rate
        if iops >= requested * (_REACHED - trial.step("iops")):
            return
        yield Oddity(
            "overrun",
            "critical" if METRICS[trial.primary].name.startswith("lat_") else "warning",
            requested / iops if iops else requested,
            f"overrun: {iops:,.0f} of the {requested:,.0f} IOPS asked for were reached",
            "I/Os that waited to be sent are in no latency, so latencies here must not be compared with those of a "
            "lane that kept up",
            {"iops": iops, "asked": requested, "share": iops / requested},
        )


PLUGIN = Overrun()
