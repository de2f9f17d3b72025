"""I/O that the load generator counted and the guest's disk did not: a cache served it."""

from collections.abc import Iterable, Iterator

from fairlane.checks._trials import DIRECTIONS, Oddity, Trial, TrialCheck
from fairlane.metrics import rounded
from fairlane.records import Evidence

_SHORT = 0.05
"""fio reads the disk's counters a little before it ends (1 % short in 400 ms on an idle disk); a cache serves either
nothing or much."""
_MORE = 1.25
"""Read-ahead doubles, splitting multiplies; the ramp, which the disk's counters include, is taken off by its share and
may have run at another rate."""
_INDIRECT = (False, 0, "no", "false")


class CacheServed(TrialCheck):
    """The disk's bytes by direction (or its I/Os, with those merged) against the load's, and ``direct`` where it is
    known to be off. The disk's counters cover the ramp and the load's do not, so a shortfall is real."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        for way in DIRECTIONS:
            yield from _against(trial, way)
        if trial.known.get("direct") in _INDIRECT:
            yield Oddity(
                "indirect",
                "warning",
                1.0,
                "the load went through the guest's page cache (direct: false)",
                "memory may have answered in place of the storage path",
                {"direct": False},
            )


def _against(trial: Trial, way: str) -> Iterator[Oddity]:
    load, disk = trial.context("load", "bytes", way), trial.context("disk", f"{way}_bytes")
    unit = "bytes"
    if load is None or disk is None:
        ios, done = trial.context("load", "ios", way), trial.context("disk", f"{way}s")
        load, disk, unit = ios, done, "I/Os"
        if done is not None:
            disk = done + (trial.context("disk", f"{way}_merges") or 0.0)
    if not load or disk is None:
        return
    # I/Os in flight at the end are counted on one side only
    ios = trial.context("load", "ios", way)
    late = (trial.in_flight or 0.0) / ios if ios else 0.0
    proof = {"load": int(load), "disk": int(disk), "unit": unit}
    message = f"the guest's disk saw {_figure(disk, unit)} of {way}s where fio counted {_figure(load, unit)}"
    if disk < load * (1 - _SHORT - late):
        yield Oddity(
            f"fewer-{way}s",
            "critical",
            1 - disk / load,
            message,
            "a cache in the guest served the rest. This is no figure of the storage path"
            if way == "read"
            else "the rest was still in the guest's memory. This is no figure of the storage path",
            proof,
        )
    ramp, runtime = trial.parameter("ramp"), trial.seconds
    if ramp is None or not runtime:
        return
    whole = load * (1 + ramp / 1e9 / runtime)
    if disk > _MORE * whole * (1 + late):
        yield Oddity(
            f"more-{way}s",
            "info",
            disk / whole,
            message,
            "read-ahead, splitting, or another program on the same disk",
            {**proof, "ramp_included": int(whole)},
        )


def _figure(value: float, unit: str) -> str:
    return f"{rounded(value / 2**20, 4)} MiB" if unit == "bytes" else f"{value:,.0f} I/Os"


PLUGIN = CacheServed()
