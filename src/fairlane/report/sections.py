"""The report's data classes: made by ``model.build``, laid out as HTML, Markdown and text. All strings are clean."""

from dataclasses import dataclass

from fairlane.guard.summary import Matched
from fairlane.records import Word
from fairlane.report import series
from fairlane.report.curves import LadderView
from fairlane.report.ecdf import EcdfView
from fairlane.report.heatmap import HeatView
from fairlane.report.lanes import Lane, LaneTable
from fairlane.report.levels import Levels, Stacks
from fairlane.report.opening import Opening
from fairlane.report.pareto import ParetoView
from fairlane.report.parts import Part
from fairlane.report.prose import Banner
from fairlane.report.refusals import Refusals
from fairlane.report.scorecard import ScoreView
from fairlane.report.storms import StormView
from fairlane.report.timeline import FailoverView
from fairlane.report.waterfall import WaterView
from fairlane.report.winners import WinnersView


@dataclass(frozen=True)
class Row:
    """One verdict, ready to print; the three numbers are kept for figures."""

    cell: str
    word: Word
    symbol: str
    ratio: float | None
    low: float | None
    high: float | None
    change: str
    interval: str
    sized: str
    """The estimate without its sign, ``13.5 %``, where it is a difference; else empty."""
    tie_low: float | None
    tie_high: float | None
    tie: str
    """The tie test's narrower interval, where it decided: ``tie test: +0.2 % to +0.8 %``."""
    lane_value: str
    baseline_value: str
    coverage: str
    """Coverage of this one interval: ``99.4 %``."""
    blocks: int
    voided: int
    counted: str
    """``6 blocks``, or ``5 of 6 blocks`` where some are void."""
    withheld: str
    """Why a decided verdict is no headline, ``critical finding``; else empty."""
    sentence: str
    notes: tuple[str, ...]
    reason: str
    """Reason why there is no interval; else empty."""
    trials: str
    """Anchor of this cell's trials."""


@dataclass(frozen=True)
class Comparison:
    """A lane against the baseline in one workload and metric."""

    lane: str
    """Label."""
    baseline: str
    metric: str
    """Title: ``p99 latency``."""
    better: int
    margin: float
    primary: bool
    summary: str
    words: tuple[tuple[Word, int], ...]
    """Verdict word -> number of cells; ``withheld`` ones are counted apart."""
    withheld: int
    blocks: int | None
    """Blocks behind every row; None where rows differ or blocks are void."""
    rows: tuple[Row, ...]

    @property
    def all_refused(self) -> bool:
        return all(row.word == "refused" for row in self.rows)


@dataclass(frozen=True)
class Section:
    """One workload."""

    name: str
    kind: str
    primary: tuple[Comparison, ...]
    exploratory: tuple[Comparison, ...]
    levels: tuple[Levels, ...]
    cpu: Stacks | None
    storms: StormView | None
    """Figures of clone storms of several sizes."""

    @property
    def all_refused(self) -> bool:
        """Whether no comparison of the primary metric is one, and nothing exploratory stands beside it."""
        every = (*self.primary, *self.exploratory)
        return bool(self.primary) and all(c.all_refused for c in every)


@dataclass(frozen=True)
class FindingView:
    """A finding with labels in place of keys."""

    message: str
    where: str
    """Cells and lanes, unless the message names them."""
    evidence: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FindingGroup:
    """The findings of one check at one severity."""

    severity: str
    check: str
    items: tuple[FindingView, ...]
    refuses: bool = False
    """Whether they refuse comparisons: the page sums them up by cause, and folds them."""


@dataclass(frozen=True)
class Trial:
    """One trial's link: block number, path of its raw outputs relative to the run directory (empty: none), why it
    failed."""

    block: int
    href: str
    failed: str


@dataclass(frozen=True)
class TrialRow:
    """The trials of one lane in one cell."""

    anchor: str
    """Set on the first lane of a cell."""
    cell: str
    lane: str
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Report:
    """The content of a report, in its order."""

    title: str
    parts: tuple[Part, ...]
    """Parts that a command puts first."""
    question: str
    opening: Opening
    """The first screen."""
    refusals: Refusals
    """What cannot be compared, by cause."""
    banners: tuple[Banner, ...]
    sections: tuple[Section, ...]
    winners: tuple[WinnersView, ...]
    """Lanes that may be the best, if there are three or more."""
    scope: tuple[str, ...]
    """What the answer holds for, and the noise floor."""
    sureness: tuple[str, ...]
    scores: tuple[ScoreView, ...]
    """Counts of verdicts by metric and lane, where several of either are compared."""
    costs: tuple[ParetoView, ...]
    """Cost against performance, where lanes declare a cost."""
    heats: tuple[HeatView, ...]
    """Block size against pattern, where a workload has several of both."""
    curves: tuple[LadderView, ...]
    """Throughput against latency, where cells form ladders."""
    ecdfs: tuple[EcdfView, ...]
    """Latency of all I/Os, where there are histograms."""
    falls: tuple[WaterView, ...]
    """Where the time of an I/O goes, where cells have one in flight."""
    times: tuple[series.View, ...]
    """The run in time."""
    failovers: tuple[FailoverView, ...]
    """IOPS around faults, where paths failed under load."""
    findings: tuple[FindingGroup, ...]
    """The gravest first."""
    matched: Matched
    lanes: tuple[Lane, ...]
    living: bool
    """Whether the load ran on machines that were there before (``Platform.living``)."""
    lane_table: LaneTable
    capabilities: tuple[Part, ...]
    """Named jobs, capabilities of the lanes, and their steady state before the trials."""
    platform: tuple[tuple[str, str], ...]
    method: tuple[str, ...]
    metrics: tuple[tuple[str, str], ...]
    """Definition of each metric shown."""
    words: tuple[tuple[Word, str, str], ...]
    """Verdict word, its symbol, its meaning."""
    repeat: str
    """The sentence above the commands; ends with a colon."""
    commands: tuple[str, ...]
    study_text: str
    provenance: tuple[tuple[str, str], ...]
    inventories: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Long lists of the fingerprint, by name: the packages of an image."""
    trials: tuple[TrialRow, ...]

    @property
    def linked(self) -> bool:
        """Whether trials link to their raw files."""
        return any(t.href for row in self.trials for t in row.trials)

    @property
    def shares(self) -> tuple[int, ...]:
        """Every number of cells in the scorecards: the widths of their bars."""
        scores = [s for view in self.scores for row in view.rows for s in row.scores]
        return tuple(sorted({n for s in scores for n in (s.rest, *(count for _, _, count in s.counts))}))

    @property
    def answers(self) -> tuple[Comparison, ...]:
        """The primary comparisons of all workloads."""
        return tuple(c for s in self.sections for c in s.primary)
