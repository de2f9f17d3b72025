"""Frozen data classes passed from the journal to the report.

Units, everywhere: time in nanoseconds, sizes in bytes, rates per second, ratios as plain factors (1.12 = 12 % more).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Histogram = Mapping[int, int]
"""Latency bins as fio's json+ gives them: midpoint in ns -> count of I/Os."""

FaultKind = Literal["link", "port", "state"]
"""Way of cutting a path: ``link``: its network link goes down; ``port``: the target's port is removed; ``state``: the
target declares the path inaccessible (ANA, ALUA)."""


@dataclass(frozen=True)
class Cell:
    """One point of a workload, compared across lanes. ``params`` is what the workload needs to run it."""

    workload: str
    """Name of the workload in the study."""
    kind: str
    """Plugin that runs it: fio, ..."""
    name: str
    """Readable and unique in its workload: ``4k randread qd16``."""
    params: Mapping[str, Any] = field(hash=False, compare=False)

    @cached_property
    def key(self) -> str:
        """Unique in the study, good in a file name: ``main.4k-randread-qd16``."""
        return f"{self.workload}.{self.name.replace(' ', '-').replace('/', '-')}"


@dataclass(frozen=True)
class Block:
    """One pass over all lanes of a cell: the unit of statistics."""

    cell: Cell
    index: int
    """0, 1, 2, ... within the cell."""
    order: tuple[str, ...]
    """Names of the lanes in the order in which they run."""
    seed: int
    """Seed of the LBA streams: the same for all lanes of the block, fresh in every block."""

    @property
    def key(self) -> str:
        return f"{self.cell.key}.b{self.index:03d}"

    def trial_id(self, lane: str) -> str:
        """Name of one trial, and of its raw files: ``main.4k-randread-qd16.b003.iscsi``."""
        return f"{self.key}.{lane}"


@dataclass(frozen=True)
class Figures:
    """Figures that one source (a workload, a probe) reads from a trial; see ``Observation`` for the fields."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """The parsed figures of one trial. ``failed``: why the trial has no figures; empty: it has."""

    cell: str
    """``Cell.key``."""
    block: int
    lane: str
    position: int
    """Place in the block's order, from 0."""
    failed: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Name in the metric registry -> value in that metric's unit."""
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    """``"read.lat"``, ``"write.clat"``, ...: all jobs of the trial merged."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """Further values for checks and readers (drops, retransmits, fio's version): plain JSON. Keys are described in
    ``fairlane.checks.base``."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """Metric -> largest relative error because the tool counts in steps (whole I/Os, whole milliseconds). Repetition
    does not reduce it, so no interval is narrower."""
    lost: int = 0
    """How often a machine died under this trial before it could be carried out."""

    @property
    def trial(self) -> str:
        return f"{self.cell}.b{self.block:03d}.{self.lane}"


Held = Literal["", "finding", "few-blocks", "alike-blocks", "moving"]
Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True)
class Finding:
    """A check's result. A ``critical`` finding takes the headline from the cells it names; one that ``refuses`` turns
    their verdicts into ``refused``, with the message as reason."""

    check: str
    severity: Severity
    message: str
    """A sentence for readers."""
    cells: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    refuses: bool = False
    """Whether lane and baseline cannot be compared in the named cells (none: all), for the named lanes (none: all)."""
    kind: str = ""
    """Kind of the finding within its check (``two-modes``): unchanged when the words change."""


Word = Literal["faster", "slower", "different-but-small", "tie", "inconclusive", "no-spread", "refused"]
"""``no-spread``: compared, but with too few trials to estimate their variation."""


class Note(str):
    """A footnote: its sentence, with a kind (``pulled``) that stays when the words change."""

    kind: str

    def __new__(cls, kind: str, text: str) -> "Note":
        note = super().__new__(cls, text)
        note.kind = kind
        return note

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.kind, str(self)


@dataclass(frozen=True)
class Verdict:
    """Lane against baseline in one cell and metric. Ratios are lane / baseline of the metric itself (not "better")."""

    workload: str
    cell: str
    """``Cell.name`` within the workload (readable); ``key`` is unique in the study."""
    key: str
    """``Cell.key``."""
    lane: str
    baseline: str
    metric: str
    primary: bool
    """Whether the metric is its workload's primary: Holm-adjusted, may be a headline. Others are exploratory."""
    verdict: Word
    ratio: float | None
    low: float | None
    """Lower end of the printed interval of ``ratio``: 95 % by default over all studies, those that ended early
    included; of an exploratory metric, adjusted."""
    high: float | None
    tie_low: float | None
    """The tie test's interval (two one-sided tests at 5 % each)."""
    tie_high: float | None
    margin: float
    """Smallest relative difference that matters: 0.05 = 5 %."""
    level: float
    """Nominal two-sided level of the t interval [low, high]."""
    blocks: int
    """Blocks that count: both trials succeeded. Of lanes that ran at different times: trials of the one with fewer."""
    voided: int
    """Blocks lost to a failed trial; of such lanes: failed trials."""
    lane_value: float | None
    """The lane's own figure: geometric mean over blocks, or percentile of the merged histogram."""
    baseline_value: float | None
    headline: bool
    """Whether the verdict may stand in a summary: primary, decided, no critical finding on the cell."""
    blocks_per_unit: int = 1
    """Blocks of a provisioning, where several are compared; 1: each block counts by itself."""
    more_blocks: int | None = None
    """For ``inconclusive``: further blocks that would decide it, at the observed ratio and spread."""
    notes: tuple[str, ...] = ()
    """Footnotes: robustness, carry-over, autocorrelation, refusal; each a ``Note`` but the messages of findings that
    refuse."""
    detectable: float | None = None
    """Smallest relative difference (0.04: 4 % more) that as many blocks detect with 80 % power, at the observed spread
    and this interval's level; where there is an interval."""
    held: Held = ""
    """Why a decided primary verdict is no headline: a critical finding, too few blocks, blocks that remember the ones
    before, a lane that still moves; empty: it is one, or is not decided."""
    held_because: str = ""
    """The same in words: ``4 blocks, 6 are needed``."""
    control: bool = False
    """A/A control: the lane is a copy of ``baseline``, and the interval is the noise floor. Never a claim."""
    joint_low: float | None = None
    """Lower end of the interval that decides the word: those of all primaries hold together, at every look."""
    joint_high: float | None = None
    unseen: float | None = None
    """Of a decided verdict that was measured: trials that are slow (stalls, failovers) are not excluded up to this
    share, because so many blocks may have none of them by chance (at 95 %)."""


@dataclass(frozen=True)
class Winners:
    """The lanes that may be the best in a cell, of three or more, by the primary metric of the workload."""

    workload: str
    key: str
    """``Cell.key``."""
    cell: str
    """``Cell.name`` within the workload."""
    metric: str
    lanes: tuple[str, ...]
    """The lanes compared with each other, in the study's order."""
    out: Mapping[str, tuple[str, float]]
    """Lane that cannot be the best -> the lane that beats it most clearly, and the end nearest to 1 of the ratio
    winner / beaten of the metric itself: 1.12 is at least 12 % more IOPS, 0.9 at least 10 % less latency."""
    level: float
    """Chance that the truly best lane is missing in ``plausible``: at most this."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Lane -> why it is not compared: refused, or without an interval."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Lane but the baseline -> its verdict."""

    @property
    def plausible(self) -> tuple[str, ...]:
        """Lanes that no other is shown to beat: the truly best of ``lanes`` is among them."""
        return tuple(lane for lane in self.lanes if lane not in self.out)


@dataclass(frozen=True)
class Evidence:
    """A run as everything to the right of the journal sees it: the argument of checks, verdicts and reports."""

    name: str
    """Name of the run directory, for titles."""
    study: Any
    """``fairlane.study.spec.Study``; not typed here because records know nothing of the study."""
    study_text: str
    """The YAML as the user wrote it."""
    seed: int
    blocks: tuple[Block, ...]
    """The schedule as carried out so far and still planned."""
    observations: tuple[Observation, ...]
    """Sorted by cell, block, lane."""
    description: Mapping[str, Any]
    """Description of the lanes as built, read back from the machines: ``{"lanes": {NAME: {...}}, "platform":
    {...}}``."""
    fingerprint: Mapping[str, Any]
    """Versions of fairlane, QEMU, kernel, fio; CPU; hashes of image and state."""
    events: tuple[Mapping[str, Any], ...] = ()
    """Other journal lines: starts, resumes, failed blocks, looks."""
    modelled: bool = False
    """Virtual clock: figures are modelled."""
    emulated: bool = False
    """Wall clock without hardware virtualization."""
    complete: bool = True
    raw: Mapping[str, str] = field(default_factory=dict)
    """Trial id -> path of its raw file in the run directory, where it has another name than its trial: of imports whose
    files are packed, and of blocks that were begun anew."""

    def raw_file(self, trial: str) -> str:
        """Path, in the run directory, of a trial's raw file."""
        return self.raw.get(trial, f"raw/{trial}.tar.gz")

    def cells(self) -> tuple[Cell, ...]:
        """The cells in the order of the study; the schedule has them in random order."""
        cells: tuple[Cell, ...] = self.study.cells()
        return cells
