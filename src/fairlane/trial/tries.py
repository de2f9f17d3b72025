"""Tries of a block: how often it was begun anew, and whether it may be once more.

A block whose machine died, or that an interruption cut, is begun anew, all lanes on the same machines: lanes are
compared within a try. Trials of an earlier try stay in the journal and in ``raw/``, and are not judged. A platform that
repeats exactly keeps them: they are run again, and compared.
"""

from collections import Counter
from collections.abc import Iterable

from fairlane.records import Block
from fairlane.runs.journal import Event
from fairlane.runs.read import Death, losses

_MORE = 2
"""Further tries of a block after machines died under it."""
_SHARE = 10
"""One block in so many, and at least one, may be tried again in a study: with more deaths the platform is broken."""


class Tries:
    """The tries of a run's blocks, from the events of its journal."""

    def __init__(self, blocks: int, events: Iterable[Event]) -> None:
        """``blocks``: all that are planned."""
        self._most = -(-blocks // _SHARE)
        self._anew: Counter[tuple[str, int]] = Counter()
        self.lost: Counter[Death] = Counter()
        """How often a machine died under a trial."""
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """An event of the journal."""
        self.lost += losses([event])
        if event["type"] == "retry" and event["unjudged"]:
            self._anew[event["cell"], event["block"]] += 1

    def allowed(self, block: Block) -> bool:
        """Whether the block may be tried again after a machine's death."""
        here = sum(self.lost[block.cell.key, block.index, lane] for lane in block.order)
        return here < _MORE and self.lost.total() < self._most

    def file(self, block: Block, lane: str) -> str:
        """Name of a trial's raw file without suffix: the trial's, with the number of the try from the second on."""
        before = self._anew[block.cell.key, block.index]
        return block.trial_id(lane) + (f".try{before + 1}" if before else "")
