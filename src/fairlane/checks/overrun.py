"""Points that did not reach the requested rate."""

from collections.abc import Iterable, Iterator

from fairlane.checks._trials import Oddity, Trial, TrialCheck, number, text
from fairlane.records import Evidence

_REACHED = 0.99
"""STATISTICS: an open-loop point counts as overrun below 99 % of the requested rate."""
_LATENCIES, _COSTS = ("lat_", "sync_lat_"), ("cpu_per_io", "switches_per_io")
"""How metrics begin that are compared at one rate: what an I/O takes, and what it costs."""


class Overrun(TrialCheck):
    """IOPS against ``rate_iops``: of fio per job, so x numjobs x fleet; of other tools the total. I/Os sent late
    wait where no latency is measured, so latencies are too low: critical where one is the headline. Where the headline
    is the cost of an I/O at one rate for all lanes, a lane below it had another load: ``rate-not-kept``, critical. Of
    named jobs that of each counts."""

    def concerns(self, trial: Trial, evidence: Evidence) -> bool:  # noqa: ARG002
        return bool(trial.parameter("rate_iops") or trial.cell.params.get("jobs"))

    def odd(self, trial: Trial, evidence: Evidence) -> Iterable[Oddity]:  # noqa: ARG002
        missed = [oddity for oddity in (_whole(trial), *_jobs(trial)) if oddity]
        return [max(missed, key=lambda oddity: oddity.size)] if missed else []


def _whole(trial: Trial) -> Oddity | None:
    rate, iops = trial.parameter("rate_iops"), trial.metric("iops")
    if not rate or iops is None:
        return None
    per_job = trial.cell.kind == "fio" or text(trial.known, "tool") == "fio"
    requested = rate * (trial.parameter("numjobs") or 1.0) * trial.fleet[0] if per_job else rate
    return _missed(trial, iops, requested)


def _jobs(trial: Trial) -> Iterator[Oddity | None]:
    """Named jobs that ran beside the judged one, or all of them."""
    for name, job in (trial.cell.params.get("jobs") or {}).items():
        rate, iops = job.get("rate_iops"), number(trial.observation.context, "jobs", name, "iops")
        if rate and iops is not None and name != trial.cell.params.get("judged"):
            yield _missed(trial, iops, rate * job["numjobs"] * trial.fleet[0], f" by job {name}")


def _missed(trial: Trial, iops: float, requested: float, by: str = "") -> Oddity | None:
    if iops >= requested * (_REACHED - trial.step("iops")):
        return None
    cost = trial.primary.startswith(_COSTS)
    reached = f"only {iops:,.0f} of {requested:,.0f} requested IOPS were reached{by}"
    return Oddity(
        "rate-not-kept" if cost else "overrun",
        "critical" if cost or trial.primary.startswith(_LATENCIES) else "warning",
        requested / iops if iops else requested,
        f"unequal load: {reached}" if cost else f"overrun: {reached}",
        "the cost of an I/O depends on the rate, so this lane is not comparable with lanes that reached it"
        if cost
        else "latencies leave out the time that I/Os waited to be sent. Do not compare them with those of a lane that "
        "reached the rate",
        {"iops": iops, "asked": requested, "share": iops / requested},
    )


PLUGIN = Overrun()
