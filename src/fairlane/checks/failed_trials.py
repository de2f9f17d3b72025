"""Trials without figures: each voids its block, and a lane whose slow trials fail looks faster than it is."""

from collections import Counter
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding
from fairlane.stats.lopsided import worse

Place = tuple[str, str]
"""Cell key and lane."""

_NAMED = 4
"""Comparisons that the message names; the evidence has all."""


class FailedTrials(Check):
    """Critical per lane without a good trial in a cell; one warning for all other failures, with their reasons, and one
    for failures that one lane has and the other has not."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        tried = Counter((trial.cell, trial.lane) for trial in evidence.observations)
        failures = [trial for trial in evidence.observations if trial.failed]
        failed = Counter((trial.cell, trial.lane) for trial in failures)
        lost = {place for place, count in failed.items() if count == tried[place]}
        for lane in evidence.study.lanes:
            cells = [cell.key for cell in evidence.cells() if (cell.key, lane) in lost]
            if not cells:
                continue
            reasons = Counter(trial.failed for trial in failures if trial.lane == lane and trial.cell in cells)
            yield self.finding(
                "all-failed",
                "critical",
                f"all {reasons.total()} trials failed: {_commonest(reasons)}",
                cells=cells,
                lanes=[lane],
                evidence={
                    "trials": {cell: tried[cell, lane] for cell in cells},
                    "reasons": dict(reasons.most_common()),
                },
            )
        others = [trial for trial in failures if (trial.cell, trial.lane) not in lost]
        if others:
            reasons = Counter(trial.failed for trial in others)
            yield self.finding(
                "some-failed",
                "warning",
                f"{len(others)} of {tried.total()} trials failed, and each one voids its block: {_commonest(reasons)}",
                cells=list(dict.fromkeys(trial.cell for trial in others)),
                lanes=list(dict.fromkeys(trial.lane for trial in others)),
                evidence={
                    "failed": {f"{c} {lane}": f"{n} of {tried[c, lane]}" for (c, lane), n in failed.items()},
                    "trials": tried.total(),
                    "reasons": dict(reasons.most_common()),
                },
            )
        yield from self._lopsided(evidence, failed, tried, lost)

    def _lopsided(
        self, evidence: Evidence, failed: Counter[Place], tried: Counter[Place], lost: set[Place]
    ) -> Iterable[Finding]:
        study, uneven = evidence.study, {}
        for cell in evidence.cells():
            other = (cell.key, study.baseline)
            for lane in study.rivals:
                place = (cell.key, lane)
                if not {place, other} & lost and (
                    worse((failed[place], failed[other]), (tried[place], tried[other])) is not None
                ):
                    first, second = sorted((place, other), key=lambda p: -failed[p] / tried[p])
                    counts = (
                        f"{first[1]} failed in {failed[first]} of {tried[first]} trials of {cell.name}, "
                        f"{second[1]} in {failed[second]} of {tried[second]}"
                    )
                    uneven[place] = first[1], counts
        if uneven:
            texts = list(dict.fromkeys(text for _, text in uneven.values()))
            yield self.finding(
                "lopsided-failures",
                "warning",
                f"{'; '.join(texts[:_NAMED])}{'; ...' * (len(texts) > _NAMED)}: if the slow trials are those "
                "that fail, the others flatter the lane. Ties are withheld there, and so is any word that the failed "
                "trials could have changed",
                cells=list(dict.fromkeys(cell for cell, _ in uneven)),
                lanes=list(dict.fromkeys(lane for lane, _ in uneven.values())),
                evidence={f"{cell} {lane}": text for (cell, lane), (_, text) in uneven.items()},
            )


def _commonest(reasons: Counter[str]) -> str:
    """The commonest reason, and the number of other reasons."""
    (commonest, _), others = reasons.most_common(1)[0], len(reasons) - 1
    return commonest + (f" (and {others} other reason{'s' * (others > 1)})" if others else "")


PLUGIN = FailedTrials()
