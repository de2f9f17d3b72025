"""Packets that were dropped or sent again: the network was measured, not the storage path."""

from collections import defaultdict
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_COUNTERS = ("drops", "retransmits")


class DropsRetransmits(Check):
    """Any drop or retransmit in any trial of a cell and lane is critical: one lost segment may wait for TCP's timer of
    200 ms, which is as long as thousands of I/Os. One finding per lane."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        seen: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        for trial in evidence.observations:
            net = trial.context.get("net", {})
            counts = {name: int(net.get(name) or 0) for name in _COUNTERS}
            if any(counts.values()):
                total = seen[trial.lane].setdefault(trial.cell, dict.fromkeys((*_COUNTERS, "trials"), 0))
                for name, count in {**counts, "trials": 1}.items():
                    total[name] += count
        for lane, cells in seen.items():
            sums = {name: sum(total[name] for total in cells.values()) for name in (*_COUNTERS, "trials")}
            told = ", ".join(f"{sums[n]} {n[:-1] if sums[n] == 1 else n}" for n in _COUNTERS if sums[n])
            trials = "trial" if sums["trials"] == 1 else "trials"
            yield self.finding(
                "critical",
                f"packets were lost ({told} in {sums['trials']} {trials}): these are figures of a network in trouble",
                cells=list(cells),
                lanes=[lane],
                evidence=cells,
            )


PLUGIN = DropsRetransmits()
