"""Draw all figures of a report once: for the page, and one by one for ``fairlane figure``."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fairlane.metrics import METRICS
from fairlane.report import curves, depth, diagram, ecdf, heatmap, pareto, series, storms, timeline
from fairlane.report.bars import bars, stacks
from fairlane.report.curves import LadderView
from fairlane.report.ecdf import EcdfView
from fairlane.report.forest import forest
from fairlane.report.levels import Levels
from fairlane.report.pareto import ParetoView
from fairlane.report.sections import Comparison, Report, Section
from fairlane.report.svg import Figure
from fairlane.report.timeline import FailoverView

V = TypeVar("V")
OfWorkload = ParetoView | EcdfView | series.View


@dataclass(frozen=True)
class WorkloadPictures:
    """Figures of one workload."""

    section: Section
    heats: tuple[Figure, ...]
    """One per lane, where there are several block sizes and patterns."""
    forests: tuple[Figure | None, ...]
    """One per primary comparison; None where there is no ratio to draw."""
    clones: Figure | None
    """Figure of clone storms."""
    levels: tuple[Figure, ...]
    cpu: Figure | None
    cpu_comparisons: tuple[Comparison, ...]
    """Comparisons of CPU per I/O."""

    @property
    def shown(self) -> tuple[Figure, ...]:
        """Absolute figures."""
        return (self.clones, *self.levels) if self.clones else self.levels


@dataclass(frozen=True)
class Pictures:
    """All figures, in the order of the page."""

    lanes: tuple[Figure, ...]
    costs: tuple[Figure, ...]
    workloads: tuple[WorkloadPictures, ...]
    ecdfs: tuple[Figure, ...]
    faults: tuple[tuple[FailoverView, Figure | None], ...]
    depths: tuple[Figure, ...]
    ladders: tuple[tuple[LadderView, Figure], ...]
    times: tuple[Figure, ...]

    def every(self) -> Iterator[Figure]:
        """Each figure once; its ``id`` is unique in the report."""
        yield from (*self.costs, *self.lanes)
        for of in self.workloads:
            yield from (f for f in (*of.heats, *of.forests, *of.shown, of.cpu) if f)
        yield from (f for _, f in self.faults if f)
        yield from (*self.ecdfs, *self.depths, *(f for _, f in self.ladders), *self.times)


def pictures(report: Report) -> Pictures:
    """Draw all figures of ``report``."""
    return Pictures(
        lanes=diagram.figures(report.lanes, "lanes"),
        costs=_with_workload(report, report.costs, _all(pareto.figure, report.costs, "cost")),
        workloads=tuple(_workload(report, section, n) for n, section in enumerate(report.sections, start=1)),
        ecdfs=_with_workload(report, report.ecdfs, _all(ecdf.figure, report.ecdfs, "latency")),
        faults=tuple(
            (view, timeline.figure(view, f"fault-{n}") if view.panels else None)
            for n, view in enumerate(report.failovers, start=1)
        ),
        depths=_all(depth.figure, report.depths, "load"),
        times=_with_workload(report, report.times, _all(series.figure, report.times, "time")),
        ladders=tuple((view, curves.figure(view, f"curve-{n}")) for n, view in enumerate(report.curves, start=1)),
    )


def _all(draw: Callable[[V, str], Figure], views: Iterable[V], name: str) -> tuple[Figure, ...]:
    return tuple(draw(view, f"{name}-{n}") for n, view in enumerate(views, start=1))


def _with_workload(report: Report, views: Sequence[OfWorkload], figures: Iterable[Figure]) -> tuple[Figure, ...]:
    """The figures, titled with their workload where there are several."""
    several = len(report.sections) > 1
    return tuple(
        replace(f, title=f"{f.title}, workload {v.workload}") if several else f
        for v, f in zip(views, figures, strict=True)
    )


def _workload(report: Report, section: Section, n: int) -> WorkloadPictures:
    comparisons = [c for c in (*section.primary, *section.exploratory) if c.metric == METRICS["cpu_per_io"].title]
    return WorkloadPictures(
        section=section,
        heats=_all(heatmap.figure, (view for view in report.heats if view.workload == section.name), f"map-{n}"),
        forests=tuple(
            forest(c, f"forest-{n}-{i}") if any(row.ratio is not None for row in c.rows) else None
            for i, c in enumerate(section.primary, start=1)
        ),
        clones=storms.figure(section.storms, f"storms-{n}") if section.storms else None,
        levels=tuple(bars(levels, f"bars-{n}-{levels.metric}") for levels in _drawn_levels(section.levels)),
        cpu=stacks(section.cpu, f"cpu-{n}") if section.cpu else None,
        cpu_comparisons=tuple(comparisons),
    )


def _drawn_levels(levels: tuple[Levels, ...]) -> list[Levels]:
    """The primary metric and one latency: p99 if all bars have it, else the mean. Tables have the rest."""
    by_name = {entry.metric: entry for entry in levels}
    tail = by_name.get("lat_p99")
    complete = tail and all(bar.value is not None for cell in tail.cells for bar in cell.bars)
    latency = tail if complete else by_name.get("lat_mean", tail)
    return [entry for i, entry in enumerate(levels) if i == 0 or entry is latency]
