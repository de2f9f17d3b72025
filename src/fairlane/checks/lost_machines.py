"""Machines that died under load: their blocks are done again, and the lane under which they die is to be known."""

from collections import Counter
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.lopsided import worse


class LostMachines(Check):
    """One warning with the deaths by lane; another one if some lanes lost more machines than the baseline, or fewer:
    in the cells concerned, ties are withheld, and words that these trials could have changed, as for failed trials.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        deaths = [e for e in evidence.events if e.get("type") == "block-failed" and e.get("error") == "machine-lost"]
        by_lane = Counter(str(e["lane"]) for e in deaths if e.get("lane") in evidence.study.lanes)
        if not by_lane:
            return
        cells = tuple(cell.key for cell in evidence.cells() if cell.key in {e.get("cell") for e in deaths})
        reasons = Counter(str(e.get("reason", "")).partition("\n")[0] for e in deaths)
        counts = ", ".join(f"{lane} {by_lane[lane]}" for lane in evidence.study.lanes)
        yield self.finding(
            "lost",
            "warning",
            f"machines died under load, by lane: {counts}; mostly: {reasons.most_common(1)[0][0]}. Their blocks were "
            "done again where that was allowed. What the machines left is in the run directory, in lost/",
            cells=cells,
            lanes=tuple(by_lane),
            evidence={"deaths": dict(by_lane), "reasons": dict(reasons.most_common())},
        )
        tried = Counter(trial.lane for trial in evidence.observations) + by_lane
        baseline = evidence.study.baseline
        uneven = {}
        for lane in evidence.study.rivals:
            side = worse((by_lane[lane], by_lane[baseline]), (tried[lane], tried[baseline]))
            if side is not None:
                more, less = (lane, baseline)[side], (baseline, lane)[side]
                uneven[lane] = (
                    f"{more} {by_lane[more]} of {tried[more]} trials, {less} {by_lane[less]} of {tried[less]}"
                )
        if uneven:
            yield self.finding(
                "lopsided-losses",
                "warning",
                f"one lane lost more machines than the other ({'; '.join(uneven.values())}): if the loads that kill "
                "machines are the fast ones, or the slow ones, the trials that remain flatter it. Where machines "
                "died, ties are withheld, and so is any word that these trials could have changed",
                cells=cells,
                lanes=tuple(uneven),
                evidence=uneven,
            )


PLUGIN = LostMachines()
