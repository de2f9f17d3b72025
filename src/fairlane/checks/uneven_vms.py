"""Machines of one fleet with unequal figures."""

from collections.abc import Iterable
from math import sqrt

from fairlane.checks._trials import Oddity, Trial, TrialCheck, mappings, number, text
from fairlane.checks.spread import two_modes
from fairlane.records import Evidence

_RANGE = 1.5
"""Largest / smallest: the fastest machine has half as much again as the slowest; the limit between blocks in
``spread``."""
_SIGMAS = 4.0
"""Counts of I/Os scatter by their square root."""


class UnevenVms(TrialCheck):
    """IOPS of single machines (``vms``): two groups, or a wide range, in at least half of a cell's trials."""

    quorum = 0.5

    needs = frozenset({"vms"})

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        rates = [
            (text(vm, "name") or f"machine {place}", iops)
            for place, vm in enumerate(mappings(trial.observation.context, "vms"), 1)
            if (iops := number(vm, "iops")) is not None
        ]
        if len(rates) < 2:
            return
        values = sorted(iops for _, iops in rates)
        least, most = min(rates, key=lambda vm: vm[1]), max(rates, key=lambda vm: vm[1])
        proof = {"iops": {name: round(iops, 1) for name, iops in rates}}
        split = two_modes(values) if values[0] > 0 else None
        if split:
            low, high = split
            yield Oddity(
                "two-groups",
                "warning",
                min(high) / max(low),
                f"the machines fall into two groups ({len(low)} at {min(low):,.0f}-{max(low):,.0f} IOPS, "
                f"{len(high)} at {min(high):,.0f}-{max(high):,.0f})",
                "find out what each group shares (host, path, controller) before trusting the total",
                {**proof, "groups": [len(low), len(high)], "from": [min(low), min(high)], "to": [max(low), max(high)]},
            )
        elif most[1] > _RANGE * least[1] and most[1] - least[1] > _noise(trial, least[1], most[1]):
            yield Oddity(
                "range",
                "warning",
                most[1] / least[1] if least[1] else float(len(rates)) * most[1],
                f"IOPS of single machines range from {least[1]:,.0f} ({least[0]}) to {most[1]:,.0f} ({most[0]})",
                "the total hides that some machines get much less than others",
                proof,
            )


def _noise(trial: Trial, least: float, most: float) -> float:
    """Noise of the difference of two rates, from their numbers of I/Os."""
    seconds = trial.seconds or 1.0
    return _SIGMAS * sqrt((least + most) / seconds)


PLUGIN = UnevenVms()
