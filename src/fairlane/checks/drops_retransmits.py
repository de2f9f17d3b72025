"""Packets dropped or retransmitted: the network was measured, not the storage path."""

from collections.abc import Iterable

from fairlane.checks._trials import Trial, at, number, trials
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding, Severity

_COUNTERS = ("drops", "retransmits")
_TIMER = 0.2
"""Seconds that a lost segment may wait for TCP's timer: Linux's least retransmission time-out."""
_HARMLESS = 0.01
"""Share of a trial that waits may take without moving a figure by its margin (5 % or more). Counters are the machine's:
in a long trial some other connection will have lost packets."""
_LIVING = 0.1
"""The same where machines have other work: most of the losses may be of other connections."""


class DropsRetransmits(Check):
    """Drops and retransmits of a cell's trials, per lane. Critical where they may have cost more than 1 % of a trial's
    time, as a single one does in a trial below 20 s; else a warning."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        losses: dict[tuple[str, Severity], dict[str, dict[str, int]]] = {}
        for trial in trials(evidence):
            if at(trial.observation.context, "fault") is not None:
                continue  # the trial takes a path away: lost packets are expected
            if not trial.spec.network:
                continue
            counts = {name: int(number(trial.observation.context, "net", name) or 0) for name in _COUNTERS}
            if any(counts.values()):
                cells = losses.setdefault(
                    (
                        trial.observation.lane,
                        _severity(trial, max(counts.values()), living=evidence.study.platform.living),
                    ),
                    {},
                )
                total = cells.setdefault(trial.cell.key, dict.fromkeys((*_COUNTERS, "trials"), 0))
                for name, count in {**counts, "trials": 1}.items():
                    total[name] += count
        for (lane, severity), cells in losses.items():
            sums = {name: sum(total[name] for total in cells.values()) for name in (*_COUNTERS, "trials")}
            details = ", ".join(f"{sums[n]} {n[:-1] if sums[n] == 1 else n}" for n in _COUNTERS if sums[n])
            of = "trial" if sums["trials"] == 1 else "trials"
            means = (
                "the losses may have cost enough time to change the figures. Repair the network first"
                if severity == "critical"
                else "too few to change a mean, but lost packets lengthen the tail of latencies"
            )
            yield self.finding(
                "packets-lost",
                severity,
                f"packets were lost ({details} in {sums['trials']} {of}): {means}",
                cells=list(cells),
                lanes=[lane],
                evidence=cells,
            )


def _severity(trial: Trial, lost: int, *, living: bool) -> Severity:
    seconds, harmless = trial.seconds, _LIVING if living else _HARMLESS
    return "warning" if seconds and lost * _TIMER <= harmless * seconds else "critical"


PLUGIN = DropsRetransmits()
