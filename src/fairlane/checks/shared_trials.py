"""Lanes that share a trial, or were under load at the same time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from fairlane.checks._trials import Trial, text
from fairlane.checks.base import Check
from fairlane.checks.repeated import alike, by_cell, compared, equal_in, named, overlap, span
from fairlane.records import Evidence, Finding
from fairlane.study.spec import invents


class SharedTrials(Check):
    """A trial under the names of two lanes, or of two runs that are compared, makes them alike and refuses. Lanes that
    were under load at the same time are a warning: each was measured with the other beside it.

    Imports and comparisons only; neither under the virtual clock, nor of invented figures: both may repeat every bin.
    """

    between = True

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if evidence.modelled:
            return
        cells = by_cell(evidence)
        for lanes in cells.values():
            for same in alike(t for own in lanes.values() for t in own if not invents(text(t.known, "platform"))):
                of = list(dict.fromkeys(trial.observation.lane for trial in same))
                if len(of) > 1:
                    yield self.finding(
                        "same-trial",
                        "critical",
                        f"{named(same)} at {same[0].cell.name} are one and the same trial: {equal_in(same[0])}",
                        cells=[same[0].cell.key],
                        lanes=of,
                        evidence={"trials": [trial.observation.trial for trial in same], "equal": compared(same[0])},
                        refuses=True,
                    )
        yield from self._beside(evidence, cells)

    def _beside(self, evidence: Evidence, cells: dict[str, dict[str, list[Trial]]]) -> Iterator[Finding]:
        spans = sorted(
            (times, lane, key)
            for key, lanes in cells.items()
            for lane, own in lanes.items()
            for trial in own
            if (times := span(trial))
        )
        pairs: dict[tuple[str, str], set[str]] = defaultdict(set)
        last: dict[str, tuple[tuple[float, float], str]] = {}
        for times, lane, cell in spans:
            for other, (earlier, its_cell) in last.items():
                if other != lane and overlap(earlier, times):
                    pairs[min(lane, other), max(lane, other)] |= {cell, its_cell}
            if lane not in last or times[1] >= last[lane][0][1]:
                last[lane] = (times, cell)
        for (first, second), keys in pairs.items():
            yield self.finding(
                "together",
                "warning",
                f"{first} and {second} were under load at the same time: each was measured while the "
                "other loaded their shared resources",
                cells=[cell.key for cell in evidence.cells() if cell.key in keys],
                lanes=[first, second],
            )


PLUGIN = SharedTrials()
