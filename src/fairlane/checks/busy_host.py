"""A host that ran other programs beside the virtual machines, or that another hypervisor took CPU time from."""

from collections.abc import Iterable
from statistics import median

from fairlane.checks._trials import trials
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_TAKEN = 0.1
"""Share of the host's CPU time: twice the margin for throughput."""
_OFTEN = 0.25
"""Share of the trials from which on a finding is due: a single job of cron is ordinary."""


class BusyHost(Check):
    """``others`` and ``steal`` of ``system_hypervisor``: the CPU time of all programs but the run's own, and of other
    machines on the same hardware. The evidence has the pressure (PSI), which the run's own load has a part in."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        where = "the hypervisor" if evidence.study.platform.living else "this host"
        known = [trial for trial in trials(evidence) if trial.context("system_hypervisor", "others") is not None]
        for key, kind, who in (
            ("others", "others", "other programs"),
            ("steal", "steal", "other machines on its hardware"),
        ):
            shares = [trial.context("system_hypervisor", key) or 0.0 for trial in known]
            taken = [share for share in shares if share >= _TAKEN]
            if not taken or len(taken) < _OFTEN * len(known):
                continue
            pressure = [p for t in known if (p := t.context("system_hypervisor", "pressure_cpu")) is not None]
            yield self.finding(
                kind,
                "warning",
                f"{where} was busy: {who} took {median(taken):.0%} of its CPU time in {len(taken)} of {len(known)} "
                f"trials (at most {max(taken):.0%}). They delay virtual machines at random, so intervals are wide "
                f"whatever the lanes do. Run the study again while {where} is idle",
                evidence={
                    "trials": len(taken),
                    "of": len(known),
                    "median": median(taken),
                    "most": max(taken),
                    **({"pressure_cpu": median(pressure)} if pressure else {}),
                },
            )


PLUGIN = BusyHost()
