"""Machines or jobs that were not under load together all the time."""

from collections.abc import Iterable, Iterator, Sequence

from fairlane.checks._trials import Oddity, Trial, TrialCheck, mappings, number, text
from fairlane.metrics import METRICS, rounded
from fairlane.records import Evidence, Severity

_SHARE, _MOST_MS = 0.01, 1000.0
"""Limit as a share of the time measured, and in milliseconds."""
_LEAST_MS = 10.0
"""Processes start some milliseconds apart, and clocks of machines agree no better."""


class LateStarters(TrialCheck):
    """Starts of machines (``vms``), or of jobs that run together (``load.parts``), and run times of jobs
    (``runtime_ms_min``). While one is missing the others have its share: rates are overstated by up to that share of
    the time, which is critical from the margin for IOPS on."""

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        seconds = trial.seconds
        if not seconds:
            return
        limit = max(_LEAST_MS, min(_SHARE * seconds * 1e3, _MOST_MS))
        for kind in ("machine", "job"):
            if kind == "machine":
                entries = mappings(trial.observation.context, "vms")
            else:
                entries = mappings(trial.observation.context, "load", "parts")
                if any(part.get("stonewall") is True for part in entries):
                    continue  # meant to run one after the other: see added_up
            starts = [
                (start, text(entry, "name") or f"{kind} {place}")
                for place, entry in enumerate(entries, 1)
                if (start := number(entry, "start_ms")) is not None
            ]
            yield from _late(kind, starts, seconds * 1e3, limit)
        longest, shortest = trial.context("load", "runtime_ms"), trial.context("load", "runtime_ms_min")
        if longest and shortest is not None and longest - shortest > limit:
            share = 1 - shortest / longest
            yield Oddity(
                "stopped",
                _severity(share),
                share,
                f"a job ran for {rounded(shortest / 1e3)} s of the {rounded(longest / 1e3)} s measured",
                "the remaining jobs got its bandwidth, so the total is overstated",
                {"runtime_ms": longest, "runtime_ms_min": shortest},
            )


def _late(kind: str, starts: Sequence[tuple[float, str]], runtime_ms: float, limit: float) -> Iterator[Oddity]:
    if len(starts) < 2:
        return
    first, last = min(starts), max(starts)
    skew = last[0] - first[0]
    if skew <= limit:
        return
    share = skew / runtime_ms
    yield Oddity(
        kind,
        _severity(share),
        share,
        f"{last[1]} started {rounded(skew / 1e3)} s after {first[1]}, {min(share, 1):.1%} of the time measured,",
        "until then the others got its bandwidth, so the total is overstated",
        {"skew_ms": skew, "runtime_ms": runtime_ms, "first": first[1], "last": last[1], "started": len(starts)},
    )


def _severity(share: float) -> Severity:
    return "critical" if share >= METRICS["iops"].margin else "warning"


PLUGIN = LateStarters()
