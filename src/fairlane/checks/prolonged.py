"""A load that ran longer than its runtime: processes were stopped, the machine slept, or an I/O hung."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck, at
from fairlane.records import Evidence

_SHARE, _SECONDS = 0.1, 1.0
"""fio ends once the I/Os in flight are answered: on a slow lane that takes a moment."""


class Prolonged(TrialCheck):
    """``load.runtime_ms``, as fio counted it, against the runtime of the cell. Rates are per second of the time that it
    took. Not in trials with a fault, nor with ``end_fsync``, whose flush counts."""

    needs = frozenset({"load"})

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        ran, asked = trial.context("load", "runtime_ms"), trial.parameter("runtime")
        if not ran or not asked or at(trial.observation.context, "fault") is not None:
            return
        jobs = trial.cell.params.get("jobs") or {}
        if any(job.get("end_fsync") for job in (trial.known, *jobs.values())):
            return
        seconds, more = asked / 1e9, ran / 1e3 - asked / 1e9
        if more > _SECONDS and more > _SHARE * seconds:
            yield Oddity(
                "longer",
                "warning",
                more / seconds,
                f"the load ran for {ran / 1e3:,.1f} s in place of {seconds:,.1f} s",
                "an I/O took that long, processes were stopped (SIGSTOP), or the machine slept: rates and the longest "
                "latencies include that time",
                {"ran_seconds": ran / 1e3, "asked_seconds": seconds},
            )


PLUGIN = Prolonged()
