"""IOPS, latency and queue depth that contradict each other (Little's law)."""

from collections.abc import Iterable

from fairlane.checks._trials import Oddity, Trial, TrialCheck
from fairlane.metrics import rounded
from fairlane.records import Evidence
from fairlane.stats.histogram import latency

_OFF = 0.05
"""A saturated closed loop keeps its depth: STATISTICS, "fio facts that bite". A healthy generator spends a few per cent
between two I/Os."""
_PACED = ("rate_iops", "rate", "thinktime", "fsync", "fdatasync")
"""Parameters under which a loop is not closed, or not saturated, or spends its time in syncs too."""


class LittlesLaw(TrialCheck):
    """IOPS x mean latency = I/Os in flight (Little, Operations Research 9, 1961), against iodepth x numjobs x fleet.

    Below: the generator did not keep the depth; under the virtual clock, where its time is part of the model, for
    information. Above: rate and latency exclude each other. I/Os in flight at either end of a trial count with all
    their latency, which allows for depth / I/Os. Above the depth the longest latency / time measured is allowed for
    too: one stall may be longer than a short trial.
    """

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:
        iops, mean, depth = trial.metric("iops"), trial.metric("lat_mean"), trial.in_flight
        if not iops or not mean or not depth or any(trial.known.get(name) for name in _PACED):
            return
        if trial.cell.params.get("direct") is False:  # memory answers as fast as a generator asks
            return
        seconds = trial.seconds
        allowed = _OFF + trial.step("iops", "lat_mean") + (depth / (iops * seconds) if seconds else 0.0)
        flying = iops * mean / 1e9
        proof = {"in_flight": flying, "asked": depth, "iops": iops, "lat_mean_ns": mean, "allowed": allowed}
        if flying < depth * (1 - allowed):
            yield Oddity(
                "below",
                "info" if evidence.modelled else "warning",
                depth / flying,
                f"on average {rounded(flying)} of {depth:,.0f} requested I/O{' was' if depth == 1 else 's were'} in "
                "flight (Little's law: IOPS x mean latency)",
                "for the rest of the time the load generator was busy itself, or submitted I/O that its latency leaves "
                "out. Real differences between lanes are larger than shown. A faster CPU, or more jobs, makes that "
                "share smaller",
                proof,
            )
        elif flying > depth * (1 + allowed) and flying > depth * (1 + _OFF + _longest(trial)):
            certain = trial.fleet[1] or trial.cell.kind != "imported"
            yield Oddity(
                "above",
                "critical" if certain else "warning",
                flying / depth,
                f"on average {rounded(flying)} I/Os were in flight (Little's law: IOPS x mean latency), more than the "
                f"possible {depth:,.0f},",
                "rate and latency come from different I/Os"
                if certain
                else "rate and latency come from different I/Os, or from several machines",
                proof,
            )


def _longest(trial: Trial) -> float:
    """The longest latency, as a share of the time measured; 0 where there is no histogram, or no time."""
    bins = latency(trial.observation.histograms)
    return max(bins) / 1e9 / trial.seconds if len(bins) and trial.seconds else 0.0


PLUGIN = LittlesLaw()
