"""The events of a running study, for progress displays, and an estimate of the time left."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from fairlane.records import Block, Observation
from fairlane.study.spec import Study


class Watch:
    """Receives the events of a run, in order, from one thread. Subclasses override the methods they need; what
    they show is there from ``__enter__`` to ``__exit__``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def note(self, text: str) -> None:
        """One short line for the user."""

    def resumed(self, observations: Iterable[Observation]) -> None:
        """The run begins or continues; these trials are done."""

    def due(self, blocks: Sequence[Block], done: frozenset[str], workers: int) -> None:
        """A stage begins. ``blocks``: all up to its look; ``done``: ids of the finished trials."""

    def trial(self, block: Block, observation: Observation, seconds: float) -> None:
        """A trial is done and on disk. ``seconds``: wall time since the one before it on the same worker."""

    def failed(self, block: Block, reason: str) -> None:
        """The platform failed in a block."""

    def retry(self, block: Block, unjudged: Sequence[str], reason: str) -> None:
        """The block is begun anew; its trials of the lanes ``unjudged`` count no more."""

    def look(self, number: int, opened: frozenset[str], cells: int) -> None:
        """Look ``number`` was taken; of ``cells`` cells, those in ``opened`` continue."""


class Estimate:
    """Time left until the next look: the platform's estimate, corrected by the times of the finished trials."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._remaining: dict[str, float] = {}
        self._workers = 1
        self._expected = self._took = 0.0

    def due(self, blocks: Iterable[Block], done: frozenset[str], workers: int) -> None:
        """See ``Watch.due``."""
        self._workers = max(workers, 1)
        trials = ((block, block.trial_id(lane)) for block in blocks for lane in block.order)
        self._remaining = {trial: self._expect(block) for block, trial in trials if trial not in done}

    def retry(self, block: Block, unjudged: Sequence[str]) -> None:
        """See ``Watch.retry``."""
        self._remaining |= {block.trial_id(lane): self._expect(block) for lane in unjudged}

    def trial(self, trial: str, seconds: float) -> None:
        """Trial id ``trial`` is done and took ``seconds`` of wall time."""
        expected = self._remaining.pop(trial, 0.0)
        if expected:
            self._expected += expected
            self._took += seconds

    @property
    def seconds(self) -> float:
        """Expected wall time until the next look."""
        factor = self._took / self._expected if self._expected else 1.0
        return sum(self._remaining.values()) * factor / self._workers

    def _expect(self, block: Block) -> float:
        workload = self._study.workloads[block.cell.workload]
        return self._study.platform.wall_seconds(workload.trial_seconds(block.cell))
