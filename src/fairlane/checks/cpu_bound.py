"""A machine without a core to spare, or one that another machine took cores from."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck
from fairlane.records import Evidence

_BUSY = 0.95
"""What is left is lost to waking up and ticks even on a machine that never waits (as in ``generator_bound``)."""
_STEAL = 0.02
"""Of all CPUs: on four, 8 % of the one that serves the I/O, if it is that one; the margin for throughput is 5 %."""


class CpuBound(TrialCheck):
    """``machine.busy`` and ``machine.steal`` in at least half of a cell's trials. Not under the virtual clock, whose
    only core is all there is, and is part of the model."""

    quorum = 0.5

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        if evidence.modelled:
            return
        steal = trial.context("machine", "steal") or 0.0
        busy = _busy(trial)
        proof = {"busy": busy, "steal": steal, "cpus": trial.context("machine", "cpus")}
        # of what the hypervisor left
        if busy is not None and steal < 1 and busy / (1 - steal) >= _BUSY:
            yield Oddity(
                "busy",
                "warning",
                busy,
                f"the machine's CPUs were {busy:.0%} busy",
                "more cores would give more, so this is a limit of the machine, not of the path",
                proof,
            )
        if steal >= _STEAL:
            yield Oddity(
                "steal",
                "warning",
                steal,
                f"the hypervisor took {steal:.1%} of the CPU time from the machine",
                "its neighbours are in the figures",
                proof,
            )


def _busy(trial: Trial) -> float | None:
    """Share of the time under load. The snapshots are taken further apart than the load lasts; the machine is taken to
    idle in between, which no busy machine does, so the share is at most 1."""
    busy = trial.context("machine", "busy")
    window, ran, ramp = trial.context("machine", "window_ms"), trial.seconds, trial.parameter("ramp")
    if busy is None or not window or not ran:
        return busy
    loaded = 1e3 * ran + (ramp or 0.0) / 1e6
    return min(1.0, busy * max(1.0, window / loaded))


PLUGIN = CpuBound()
