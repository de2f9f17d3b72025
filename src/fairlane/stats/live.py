"""Progress of a running study, trial by trial: the cells decided so far, valid at any moment."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fairlane.metrics import METRICS
from fairlane.records import Block, Observation, Word
from fairlane.stats import anytime
from fairlane.stats.answers import DECIDED, word
from fairlane.stats.pairs import Reading, pair, shelve

if TYPE_CHECKING:
    from fairlane.study.spec import Study


@dataclass(frozen=True)
class Standing:
    """A lane against the baseline, in the primary metric of one cell, after the newest block."""

    cell: str
    """``Cell.name``."""
    lane: str
    blocks: int
    low: float
    """Ends of the anytime-valid interval as log-ratios; infinite while there is none."""
    high: float
    word: Word
    """``inconclusive`` unless the interval excludes no difference, or that of the tie test lies within the margin."""
    alone: tuple[float, float] = (-math.inf, math.inf)
    """Ends of the plain t interval of this one comparison after ``blocks`` blocks, as log-ratios, at the error rate of
    the study: for a reader who looks once, at a number of blocks fixed beforehand. Infinite below 2 blocks, or
    below 2 provisionings where a study has several."""

    @property
    def decided(self) -> bool:
        return self.word in DECIDED


class Live:
    """The state of every primary comparison so far.

    Each has the share alpha / (number of primaries) of the error (Bonferroni), over all moments: the chance that any of
    them is ever called different without being so is at most alpha. The verdicts, from the planned looks, are sharper.
    """

    def __init__(self, study: "Study") -> None:
        self._study = study
        self._cells = {cell.key: cell for cell in study.cells()}
        self._others = study.rivals
        self._shelves: dict[str, dict[str, dict[int, Reading]]] = {}
        self._standings: dict[tuple[str, str], Standing] = {}

    @cached_property
    def _spent(self) -> tuple[float, float]:
        return anytime.spent(self._study)

    @property
    def cells(self) -> int:
        return len(self._cells)

    @property
    def comparisons(self) -> int:
        """Primary comparisons: the baseline's rivals in every cell."""
        return len(self._cells) * len(self._others)

    @property
    def decided(self) -> int:
        """Cells in which every lane is decided so far."""
        return sum(
            all((s := self._standings.get((key, lane))) and s.decided for lane in self._others) for key in self._cells
        )

    def add(self, observation: Observation) -> tuple[Standing, ...]:
        """Add a trial, in any order. Returns the changed standings: none while its partner is missing or has failed."""
        concerned = self.keep(observation)
        return tuple(s for lane in concerned if (s := self.standing(observation.cell, lane, observation.block)))

    def keep(self, observation: Observation) -> Sequence[str]:
        """Add a trial, in any order. Returns the lanes whose standings in its cell may change."""
        cell = self._cells.get(observation.cell)
        if cell is None or not self._study.design.paired:  # trials apart have no blocks to watch
            return ()
        primary = self._study.workloads[cell.workload].primary
        reading = shelve([observation], [primary])[observation.cell][observation.lane][observation.block]
        self._shelves.setdefault(observation.cell, {}).setdefault(observation.lane, {})[observation.block] = reading
        return [lane for lane in self._others if observation.lane in (lane, self._study.baseline)]

    def retry(self, block: Block, unjudged: Iterable[str]) -> None:
        """A block is begun anew: its trials of the lanes ``unjudged`` count no more."""
        for lane in unjudged:
            self._shelves.get(block.cell.key, {}).get(lane, {}).pop(block.index, None)

    def standing(self, key: str, lane: str, block: int | None = None) -> Standing | None:
        """Of ``lane`` in the cell ``key``; None while no block, or ``block`` if it is given, has both trials."""
        metric = METRICS[self._study.workloads[self._cells[key].workload].primary]
        each = self._study.design.blocks_per_unit
        lane_pair = pair(self._shelves.get(key, {}), lane, self._study.baseline, metric.name, each)
        if all(block not in (None, row.block) for row in lane_pair.rows):
            return None
        margin = self._study.design.margins.get(metric.name, metric.margin)
        alpha, g = self._spent
        outer = anytime.interval(lane_pair.effect, alpha, g)
        tie = anytime.interval(lane_pair.effect, 2 * self._study.design.alpha, g)
        verdict = word(lane_pair.effect.mean, outer, tie, margin, metric.better)
        alone = lane_pair.effect.interval(self._study.design.alpha) if lane_pair.effect.n > 1 else Standing.alone
        standing = Standing(self._cells[key].name, lane, len(lane_pair.rows), *outer, verdict, alone)
        self._standings[key, lane] = standing
        return standing
