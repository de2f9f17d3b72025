"""A platform that repeats outputs exactly, and this time did not."""

from collections import defaultdict
from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class NotReproducible(Check):
    """``mismatch`` events: a resumed run replays the interrupted block and compares. A mismatch is critical for its
    cell; the reader judges the rest of the run."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        cells: dict[str, list[str]] = defaultdict(list)
        lanes: dict[str, set[str]] = defaultdict(set)
        known = {block.trial_id(lane): (block, lane) for block in evidence.blocks for lane in block.order}
        for event in evidence.events:
            if event.get("type") != "mismatch":
                continue
            cell, number, lane = (event.get(name) for name in ("cell", "block", "lane"))
            trial = str(event.get("trial") or f"{cell}.b{number or 0:03d}.{lane}")
            block, lane = known.get(trial, (None, lane))
            key = block.cell.key if block else str(cell or "")
            cells[key].append(trial)
            lanes[key].add(str(lane or ""))
        for key, trials in cells.items():
            yield self.finding(
                "outputs-differ",
                "critical",
                f"outputs differ in a repetition with the same inputs: {', '.join(trials)}. This platform repeats "
                "exactly, so something outside the model affected it",
                cells=[key] if key else [],
                lanes=sorted(lanes[key] - {""}),
                evidence={"trials": trials},
            )


PLUGIN = NotReproducible()
