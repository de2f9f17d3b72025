"""The records of a run: one class per table. They define the columns of every export, and are what a notebook gets.

A field is a column; the order of the fields is that of the columns. Ratios are plain factors (1.12 is 12 % more), times
are in ns unless a name states another unit, and a value that does not exist is None: never NaN, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal

from fairlane.errors import FairlaneError, nearest
from fairlane.export._columns import Column, Prose, Unit, columns_of, metric_column
from fairlane.metrics import METRICS
from fairlane.records import Held, Severity, Word


@dataclass(frozen=True)
class Row:
    """Provenance in every record, so that records of several runs can be combined and modelled or emulated figures stay
    marked."""

    run: str
    """Name of the run directory."""
    uuid: str
    """Stays when the run is moved, renamed or continued."""
    figures: str
    """``measured``, ``modelled``, ``emulated``, ``invented``, or several of them with commas."""
    complete: bool
    """Whether all planned trials are in."""


COMMON = columns_of(Row)
"""Provenance columns in every row."""


@dataclass(frozen=True)
class _Placed(Row):
    workload: str
    cell: str
    """Readable, unique in its workload: ``4k randread qd16``."""
    cell_key: str
    """Unique in the study: ``main.4k-randread-qd16``."""
    lane: str
    lane_label: str


@dataclass(frozen=True)
class VerdictRow(_Placed):
    """A lane against the baseline in one cell and metric."""

    baseline: str
    baseline_label: str
    metric: str
    """Name in the registry: ``iops``, ``lat_p99``."""
    unit: str
    """Unit of ``lane_value`` and ``baseline_value``."""
    verdict: Word
    held: Held
    """Why a decided primary verdict is no headline; empty: it is one, or is not decided."""
    held_because: Prose
    """The same in words."""
    better: int
    """1: more is better; -1: less is."""
    primary: bool
    headline: bool
    """Primary, decided, and no critical finding on the cell."""
    withheld: bool
    """Decided, and no headline."""
    control: bool
    """A/A control: the lane is a copy of the baseline."""
    ratio: float | None
    """Lane / baseline of the metric itself."""
    low: float | None
    """Lower end of the adjusted interval of ``ratio``."""
    high: float | None
    joint_low: float | None
    """Lower end of the interval that decides the word."""
    joint_high: float | None
    tie_low: float | None
    """Lower end of the tie test's interval."""
    tie_high: float | None
    margin: float
    """Smallest relative difference that matters: 0.05 = 5 %."""
    level: float
    """Two-sided error rate of the interval: 1 - level is its coverage."""
    blocks: int
    """Blocks that count."""
    voided: int
    """Blocks lost to failed trials."""
    more_blocks: int | None
    """Further blocks that would decide an ``inconclusive``."""
    blocks_per_unit: int
    """Blocks of a provisioning, where several are compared; else 1."""
    detectable: float | None
    """Smallest relative difference that as many blocks detect with 80 % power."""
    unseen: float | None
    """Share of slow trials that so few blocks do not exclude (at 95 %)."""
    lane_value: float | None
    baseline_value: float | None
    sentence: Prose
    reason: Prose | None
    """Why there is no interval."""
    notes: tuple[str, ...]
    """Footnotes."""


@dataclass(frozen=True)
class FindingRow(Row):
    """A finding of a check."""

    check: str
    severity: Severity
    refuses: bool
    """Whether lane and baseline cannot be compared."""
    message: Prose
    cells: tuple[str, ...]
    """Keys of the cells that it is about; empty: all."""
    lanes: tuple[str, ...]
    n: int
    """Number of the finding among those of its check, lanes and cells, from 0."""
    evidence: Mapping[str, Any]


@dataclass(frozen=True)
class _Trial(Row):
    trial: str
    """``main.4k-randread-qd16.b003.iscsi``"""


@dataclass(frozen=True)
class TrialRow(_Placed, _Trial):  # in this order of fields: trial, its place, the rest
    """A completed trial. Further fields, those of the metrics that the run has, are named with their unit:
    ``iops_per_s``, ``bw_bytes_per_s``, ``lat_p99_ns``; ``value("iops")`` reads them too."""

    provisioning: int
    block: int
    position: int
    """Place in the block's order, from 0."""
    at: datetime | None
    """When it ended (UTC); of an imported result its own date."""
    seconds: Annotated[float | None, Unit("s")]
    """How long it took."""
    rw: str | None
    rwmixread_percent: Annotated[int | None, Unit("%")]
    bs_bytes: Annotated[int | None, Unit("B")]
    iodepth: int | None
    numjobs: int | None
    failed: Prose | None
    """Why it has no figures; None: it has."""
    raw: str | None
    """Its raw file, relative to the run."""
    raw_sha256: str | None

    def value(self, metric: str) -> float | None:
        """The figure of ``metric`` (``iops``, ``lat_p99``), in the registry's unit; None if the trial has none.

        Raises FairlaneError for a metric that does not exist.
        """
        if metric not in METRICS:
            near = nearest(metric, METRICS)
            hint = f"did you mean {near}?" if near else f"metrics: {', '.join(METRICS)}"
            raise FairlaneError("metric-unknown", f"no metric {metric!r}", hint=hint)
        figure: float | None = getattr(self, metric_column(metric).name, None)
        return figure

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: the class with the run's metrics exists in this process alone."""
        names = type(self).__dataclass_fields__
        metrics = tuple(name for name in METRICS if metric_column(name).name in names)
        return _trial_again, (metrics, tuple(getattr(self, name) for name in names))


@cache
def trial_row(metrics: tuple[str, ...]) -> type[TrialRow]:
    """``TrialRow`` with a field for each of ``metrics``, names in the registry."""
    columns = [metric_column(name) for name in metrics]
    extra = [(column.name, Annotated[float | None, Unit(column.unit)]) for column in columns]
    return make_dataclass("TrialRow", extra, bases=(TrialRow,), frozen=True, namespace={"__module__": __name__})


def _trial_again(metrics: tuple[str, ...], values: tuple[Any, ...]) -> TrialRow:
    return trial_row(metrics)(*values)


@dataclass(frozen=True)
class PercentileRow(_Placed):
    """One histogram of a lane and cell: of all I/Os of all successful trials together, never averaged. A percentile
    beyond which fewer than ten I/Os lie is None."""

    histogram: str
    """``lat``: all directions, submission to completion; ``read.lat``, ``write.clat``, ..."""
    trials: int
    ios: int
    mean_ns: Annotated[float, Unit("ns")]
    p50_ns: Annotated[int | None, Unit("ns")]
    p90_ns: Annotated[int | None, Unit("ns")]
    p95_ns: Annotated[int | None, Unit("ns")]
    p99_ns: Annotated[int | None, Unit("ns")]
    p999_ns: Annotated[int | None, Unit("ns")]
    p9999_ns: Annotated[int | None, Unit("ns")]


@dataclass(frozen=True)
class LaneRow(Row):
    """A lane."""

    lane: str
    lane_label: str
    transport: str
    is_baseline: bool
    copy_of: str | None
    role: str | None
    path: tuple[str, ...]
    """From the guest's device to the medium."""


@dataclass(frozen=True)
class ParameterRow(Row):
    """A parameter of a lane; of conditions, per cell."""

    lane: str
    workload: str | None
    cell: str | None
    cell_key: str | None
    source: Literal["asked", "read back", "condition"]
    """From the study, from the machines, or as the guard compares it."""
    parameter: str
    role: str | None
    value: Prose
    number: float | None
    """The value in bytes, ns, bit/s."""


def own_columns(record: type[Row]) -> tuple[Column, ...]:
    """The columns of a record without those of its provenance."""
    return columns_of(record)[len(COMMON) :]
