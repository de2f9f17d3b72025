"""A result above the lane's own cap."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck
from fairlane.records import Evidence

_OVER = 0.02
"""Limiters work by token buckets: one second's worth saved up is 1.7 % of a minute."""
_DOUBLE = 0.1
"""Two jobs at a cap each come to twice the cap, less what each missed of it (study 003: 1.98 and 1.984 times)."""


class AboveCap(TrialCheck):
    """IOPS against the lane's ``cap_iops``, bandwidth against ``cap_mibs``."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        limits = (
            ("iops", trial.spec.cap_iops, 1.0, "IOPS"),
            ("bw", trial.spec.cap_mibs, 2.0**20, "MiB/s"),
        )
        for metric, cap, unit, name in limits:
            value = trial.metric(metric)
            if cap is None or value is None:
                continue
            factor = value / unit / cap
            if factor <= 1 + _OVER + trial.step(metric):
                continue
            double = abs(factor - 2) <= 2 * _DOUBLE
            yield Oddity(
                metric,
                "critical",
                factor,
                f"{value / unit:,.6g} {name} from a tier that is limited to {cap:,.6g}, {factor:.3g} times as much,",
                "as if two jobs under the cap had been added up. No such rate can have come from the tier"
                if double
                else "no such rate can have come from the tier",
                {"value": value / unit, "cap": cap, "factor": factor, "double": double},
            )


PLUGIN = AboveCap()
