"""IOPS, block size and bandwidth that contradict each other."""

import math
from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck
from fairlane.metrics import rounded
from fairlane.records import Evidence

_OFF = 0.02
"""Tools print three digits or more: half a step in the last of three is at most 0.5 %, twice. MB mistaken for MiB, the
commonest slip, is 4.9 %, kB for KiB 2.4 %."""
_SLIPS = (
    (1.024, "kB and KiB"), (1.024**2, "MB and MiB"), (1.024**3, "GB and GiB"),
    (8.0, "bits and bytes"), (1000.0, "1 and k"), (1024.0, "1 and Ki"), (2.0, "one of two directions"),
)  # fmt: skip


class Bandwidth(TrialCheck):
    """IOPS x bs against bandwidth, where bs is one number. I/Os cut short (fio's ``short_ios``) also show here."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        iops, bw, bs = trial.metric("iops"), trial.metric("bw"), trial.parameter("bs")
        if not iops or not bw or not bs:
            return
        factor = bw / (iops * bs)
        if abs(factor - 1) <= _OFF or abs(factor - 1) <= _OFF + trial.step("iops", "bw"):
            return
        stretch = abs(math.log(bw) - math.log(iops) - math.log(bs))  # of a quotient that may have become 0 or infinite
        slip = next((name for size, name in _SLIPS if abs(stretch - math.log(size)) <= 0.005), "")
        yield Oddity(
            "product",
            "critical",
            stretch,
            f"bandwidth is {factor:.3g} times IOPS x bs ({iops:,.0f} x {bs:,.0f} B, but "
            f"{rounded(bw / 2**20, 4)} MiB/s)",
            f"one of the three figures is wrong. The factor suggests a mix-up of {slip}"
            if slip and slip != "one of two directions"
            else "one of the three figures is wrong. The factor suggests that only one of two directions was counted"
            if slip
            else "one of the three figures is wrong",
            {"iops": iops, "bs": bs, "bw": bw, "factor": factor, "slip": slip},
        )


PLUGIN = Bandwidth()
