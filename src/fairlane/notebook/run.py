"""A run in a notebook: its study, its tables as records, its histograms, its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from markupsafe import Markup

from fairlane.errors import FairlaneError
from fairlane.export._gather import Tables, read
from fairlane.export._records import (
    COMMON,
    FindingRow,
    LaneRow,
    ParameterRow,
    PercentileRow,
    Row,
    TrialRow,
    VerdictRow,
)
from fairlane.notebook.comparison import Comparison, compared
from fairlane.notebook.picture import Picture, drawn
from fairlane.notebook.records import Records
from fairlane.report import model
from fairlane.report.sections import Report
from fairlane.runs.choose import existing, newest
from fairlane.stats.histogram import Bins, percentile, reportable
from fairlane.study.spec import Study

R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Histogram(PercentileRow):
    """The latencies of a lane in a cell: of all I/Os of all successful trials together."""

    ns: tuple[int, ...]
    """Midpoints of the bins in ns, rising."""
    counts: tuple[int, ...]
    """I/Os in each bin."""

    def percentile(self, share: float) -> int | None:
        """Latency in ns at or below which a share (0.99: 99 %) of the I/Os lies; None where fewer than ten lie beyond.

        Raises ValueError unless 0 < share <= 1.
        """
        bins = Bins(self.ns, self.counts)
        if not 0 < share <= 1:
            raise ValueError(f"a percentile is a share above 0 and up to 1, not {share}")
        return percentile(bins, share) if reportable(bins, share) else None


class Run:
    """A run as it was when it was opened: nothing is written, and a run that continues is to be opened again.

    Records are those of ``fairlane export``: the same names, units and values. Each has ``run``, ``uuid``, ``figures``
    and ``complete``, so that records of several runs can be combined.
    """

    def __init__(self, path: Path, run: Tables) -> None:
        """Made by ``fairlane.open``."""
        self.path = path
        self._tables = run

    @property
    def name(self) -> str:
        """Name of the run directory."""
        return str(self.provenance["run"])

    @property
    def study(self) -> Study:
        """The study that was carried out: ``lanes``, ``baseline``, ``workloads``, ``design``."""
        return cast(Study, self._tables.evidence.study)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where the figures come from: study and its SHA-256, seed, versions, caveats, fingerprint. docs/export.md."""
        return self._tables.provenance

    @property
    def figures_are(self) -> str:
        """``measured``, ``modelled``, ``emulated``, ``invented``, or several of them with commas."""
        return str(self.provenance["figures"])

    @property
    def complete(self) -> bool:
        """Whether all planned trials are in."""
        return bool(self.provenance["complete"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that every use of the figures must carry."""
        return tuple(self.provenance["caveats"])

    @property
    def answers(self) -> tuple[str, ...]:
        """One sentence per contender and workload, as ``fairlane run`` ends with."""
        return tuple(comparison.summary for comparison in self._report.answers)

    def verdicts(self) -> Records[VerdictRow]:
        """A lane against the baseline per cell and metric."""
        return self._records("verdicts", VerdictRow)

    def findings(self) -> Records[FindingRow]:
        """What the checks found."""
        return self._records("findings", FindingRow)

    def trials(self) -> Records[TrialRow]:
        """The completed trials, with a field per metric: ``iops_per_s``, ``lat_p99_ns``."""
        return self._records("trials", TrialRow)

    def percentiles(self) -> Records[PercentileRow]:
        """Percentiles per lane, cell and histogram."""
        return self._records("percentiles", PercentileRow)

    def lanes(self) -> Records[LaneRow]:
        """The lanes, with the path of an I/O."""
        return self._records("lanes", LaneRow)

    def parameters(self) -> Records[ParameterRow]:
        """The parameters of the lanes: from the study, from the machines, and as the guard compares them."""
        return self._records("parameters", ParameterRow)

    def histograms(self, name: str = "lat") -> Records[Histogram]:
        """The merged histogram ``name`` of each lane and cell: ``lat`` (all directions, submission to completion),
        ``read.lat``, ``write.clat``. Raises FairlaneError for a name that no trial has."""
        rows = self.percentiles()
        known = tuple(dict.fromkeys(row.histogram for row in rows))
        if known and name not in known:
            raise FairlaneError(
                "histogram-unknown",
                f"no histogram {name!r} in this run",
                where=str(self.path),
                hint=f"one of: {', '.join(known)}",
            )
        return Records(Histogram, (self._histogram(row) for row in rows if row.histogram == name))

    def histogram(self, cell: str, lane: str, name: str = "lat") -> Histogram:
        """One of ``histograms``; ``cell``: its name (``4k randread qd16``) or its key.

        Raises FairlaneError where there is none, and for a name that cells of several workloads have.
        """
        rows = [row for row in self.histograms(name) if row.lane == lane and cell in (row.cell, row.cell_key)]
        if len(rows) == 1:
            return rows[0]
        of_name = [row for row in self.percentiles() if row.histogram == name]
        keys = ", ".join(dict.fromkeys(row.cell_key for row in rows or of_name))
        lanes = ", ".join(dict.fromkeys(row.lane for row in of_name))
        raise FairlaneError(
            "histogram-ambiguous" if rows else "histogram-missing",
            f"{'several cells are' if rows else 'no histogram of a cell'} called {cell!r} on the lane {lane!r}",
            where=str(self.path),
            hint=f"cells: {keys or 'none'}; lanes: {lanes or 'none'}",
        )

    def compare(
        self,
        *others: "Run | str | PathLike[str]",
        names: Sequence[str] = (),
        pairs: str | PathLike[str] | None = None,
        accept: Mapping[str, str] | None = None,
    ) -> Comparison:
        """``others`` against this run, the baseline. Lanes of equal name are compared, or those that the file ``pairs``
        pairs (docs/compare.md). ``names``: of this run and of each other, if those of the folders will not do;
        ``accept``: parameter that may differ -> reason.

        Raises FairlaneError, as ``fairlane compare`` does.
        """
        runs = (self, *(other if isinstance(other, Run) else opened(other) for other in others))
        return compared([(run.path, run._tables.evidence) for run in runs], names, pairs, accept or {})

    def figures(self, *names: str) -> tuple[Picture, ...]:
        """The figures of the report that ``names`` name, or all: ``forest-1-1``, ``forest`` (all whose name begins so),
        ``*-1``. Raises FairlaneError for a name that no figure has."""
        return drawn(self._report, names, str(self.path))

    def figure(self, name: str) -> Picture:
        """The first of ``figures(name)``."""
        return self.figures(name)[0]

    @cached_property
    def _report(self) -> Report:
        return model.build(*self._tables.judged)

    def _records(self, name: str, record: type[R]) -> Records[R]:
        """The table ``name``; of trials a subclass of ``record`` has the metrics."""
        table = self._tables.table(name)
        made = cast(type[R], table.record)
        if not issubclass(made, record):
            raise TypeError(f"{name} are {made.__name__}, not {record.__name__}")
        return Records(made, (made(*row) for row in table.beside(self.provenance, COMMON).rows))

    def _histogram(self, row: PercentileRow) -> Histogram:
        bins = self._tables.merged[row.cell_key, row.lane][row.histogram]
        return Histogram(**vars(row), ns=tuple(bins.ns.tolist()), counts=tuple(bins.counts.tolist()))

    def __repr__(self) -> str:
        state = "" if self.complete else ", not complete"
        about = self.provenance
        return f"<Run {self.path}: study {about['study']}, {about['trials']} trials, {self.figures_are}{state}>"

    def _repr_html_(self) -> str:
        """Question, answers, caveats."""
        points = Markup("").join(Markup("<li>{}</li>").format(text) for text in (*self.answers, *self.caveats))
        page = Markup("<p><b>{}</b></p><ul>{}</ul><p>{}</p>")
        return str(page.format(self._report.question, points, repr(self)))


def opened(run: "str | PathLike[str] | None" = None, accept: Mapping[str, str] | None = None) -> Run:
    """See ``fairlane.open``."""
    path = newest() if run is None else existing(Path(run))
    return Run(path, read(path, accept or {}))
