"""Packets that were dropped or sent again: the network was measured, not the storage path."""

from collections import defaultdict
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_COUNTERS = ("drops", "retransmits")


class DropsRetransmits(Check):
    """Any drop or retransmit in any trial of a cell and lane is critical: one lost segment may wait for TCP's timer of
    200 ms, which is as long as thousands of I/Os."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        seen: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        for trial in evidence.observations:
            net = trial.context.get("net", {})
            counts = {name: int(net.get(name, 0)) for name in _COUNTERS}
            if any(counts.values()):
                total = seen[trial.cell].setdefault(trial.lane, dict.fromkeys((*_COUNTERS, "trials"), 0))
                for name, count in {**counts, "trials": 1}.items():
                    total[name] += count
        names = {cell.key: cell.name for cell in evidence.cells()}
        for key, lanes in seen.items():
            told = "; ".join(
                f"{lane}: {total['drops']} drops, {total['retransmits']} retransmits in {total['trials']} trials"
                for lane, total in lanes.items()
            )
            yield self.finding(
                "critical",
                f"{names.get(key, key)}: packets were lost ({told}): the figures are those of a network in trouble",
                cells=[key],
                lanes=list(lanes),
                evidence=lanes,
            )


PLUGIN = DropsRetransmits()
