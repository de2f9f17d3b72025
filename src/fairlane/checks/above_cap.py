"""A result above the lane's own cap."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck
from fairlane.records import Evidence

_OVER = 0.02
"""Limiters work by token buckets: one second's worth saved up is 1.7 % of a minute."""
_SAVED = 0.1
"""Seconds' worth that QEMU's has always saved up when a trial begins (``util/throttle.c``): more than that share of a
short one."""
_DOUBLE = 0.1
"""Two jobs at a cap each come to twice the cap, less what each missed of it (study 003: 1.98 and 1.984 times)."""


class AboveCap(TrialCheck):
    """IOPS against the lane's ``cap_iops``, bandwidth against ``cap_mibs``."""

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:  # noqa: ARG002
        return trial.spec.cap_iops is not None or trial.spec.cap_mibs is not None

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        limits = (
            ("iops", trial.spec.cap_iops, 1.0, "IOPS"),
            ("bw", trial.spec.cap_mibs, 2.0**20, "MiB/s"),
        )
        for metric, cap, unit, name in limits:
            if cap is None or (value := trial.metric(metric)) is None:
                continue
            factor = value / unit / cap
            double = abs(factor - 2) <= 2 * _DOUBLE
            saved = _SAVED / trial.seconds if trial.seconds else 0.0
            if factor <= 1 + trial.step(metric) + (0 if double else max(_OVER, saved)):
                continue
            yield Oddity(
                metric,
                "critical",
                factor,
                f"{value / unit:,.6g} {name} is {factor:.3g} times the lane's cap of {cap:,.6g}",
                "the lane cannot have delivered this. Two jobs at the cap were probably added up"
                if double
                else "the lane cannot have delivered this, so the figure or the cap is wrong",
                {"value": value / unit, "cap": cap, "factor": factor, "double": double},
            )


PLUGIN = AboveCap()
