"""Draw all figures of a report once: for the page, and one by one for ``fairlane figure``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fairlane.metrics import METRICS
from fairlane.report import curves, diagram, ecdf, heatmap, pareto, series, storms, timeline, waterfall
from fairlane.report.bars import bars, stacks
from fairlane.report.curves import LadderView
from fairlane.report.ecdf import EcdfView
from fairlane.report.forest import forest
from fairlane.report.levels import Levels
from fairlane.report.pareto import ParetoView
from fairlane.report.sections import Comparison, Report, Section
from fairlane.report.svg import Figure
from fairlane.report.timeline import FailoverView
from fairlane.report.waterfall import WaterView

V = TypeVar("V")
OfWorkload = ParetoView | EcdfView | WaterView | series.View


@dataclass(frozen=True)
class WorkloadPictures:
    """Figures of one workload."""

    section: Section
    heats: tuple[Figure, ...]
    """One per lane, where there are several block sizes and patterns."""
    forests: tuple[Figure | None, ...]
    """One per primary comparison; None where there is no ratio to draw."""
    effects: Mapping[str, Figure | None]
    """Lane -> the one figure of its effects on the page: a map where there is one, else the forest plot; None where
    the first screen shows all of it."""
    clones: Figure | None
    """Figure of clone storms."""
    levels: tuple[Figure, ...]
    cpu: Figure | None
    cpu_comparisons: tuple[Comparison, ...]
    """Comparisons of CPU per I/O."""
    folded: bool
    """Whether the page folds the absolute figures: curves draw the same figures, or the bars are many."""

    @property
    def cells(self) -> int:
        """Cells of the absolute figures."""
        return max((len(entry.cells) for entry in self.section.levels), default=0)

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
    falls: tuple[Figure, ...]
    ecdfs: tuple[Figure, ...]
    faults: tuple[tuple[FailoverView, Figure | None], ...]
    ladders: tuple[tuple[LadderView, Figure], ...]
    times: tuple[Figure, ...]

    def every(self) -> Iterator[Figure]:
        """Each figure once; its ``id`` is unique in the report."""
        yield from (*self.costs, *self.lanes)
        for of in self.workloads:
            yield from (f for f in (*of.heats, *of.forests, *of.shown, of.cpu) if f)
        yield from self.falls
        yield from (f for _, f in self.faults if f)
        yield from (*self.ecdfs, *(f for _, f in self.ladders), *self.times)


def pictures(report: Report) -> Pictures:
    """Draw all figures of ``report``."""
    return Pictures(
        lanes=diagram.figures(report.lanes, "lanes", diagram.MACHINE if report.living else diagram.BANDS[0]),
        costs=_with_workload(report, report.costs, _all(pareto.figure, report.costs, "cost")),
        workloads=tuple(_workload(report, section, n) for n, section in enumerate(report.sections, start=1)),
        falls=_with_workload(report, report.falls, _all(waterfall.figure, report.falls, "fall")),
        ecdfs=_with_workload(report, report.ecdfs, _all(ecdf.figure, report.ecdfs, "latency")),
        faults=tuple(
            (view, timeline.figure(view, f"fault-{n}") if view.panels else None)
            for n, view in enumerate(report.failovers, start=1)
        ),
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


_MANY = 12
"""Cells from which bars are folded: two screens of them answer no question that a reader has."""


def _workload(report: Report, section: Section, n: int) -> WorkloadPictures:
    comparisons = [c for c in (*section.primary, *section.exploratory) if c.metric == METRICS["cpu_per_io"].title]
    maps = [view for view in report.heats if view.workload == section.name]
    heats = _all(heatmap.figure, maps, f"map-{n}")
    forests = tuple(
        forest(c, f"forest-{n}-{i}") if any(row.ratio is not None for row in c.rows) else None
        for i, c in enumerate(section.primary, start=1)
    )
    effects = {c.lane: drawn for c, drawn in zip(section.primary, forests, strict=True)}
    effects |= {view.lane: drawn for view, drawn in zip(maps, heats, strict=True)}
    complete = {a.lane for a in report.opening.answers if a.plot and not a.plot.note}
    return WorkloadPictures(
        section=section,
        heats=heats,
        forests=forests,
        effects={c.lane: None if c.lane in complete else effects[c.lane] for c in section.primary},
        clones=storms.figure(section.storms, f"storms-{n}") if section.storms else None,
        levels=tuple(bars(levels, f"bars-{n}-{levels.metric}") for levels in _drawn_levels(section.levels)),
        cpu=stacks(section.cpu, f"cpu-{n}") if section.cpu else None,
        cpu_comparisons=tuple(comparisons),
        folded=any(view.workload == section.name for view in report.curves)
        or any(len(entry.cells) > _MANY for entry in section.levels),
    )


def _drawn_levels(levels: tuple[Levels, ...]) -> list[Levels]:
    """The primary metric and one latency: p99 if all bars have it, else the mean. Tables have the rest."""
    by_name = {entry.metric: entry for entry in levels}
    tail = by_name.get("lat_p99")
    complete = tail and all(bar.value is not None for cell in tail.cells for bar in cell.bars)
    latency = tail if complete else by_name.get("lat_mean", tail)
    return [entry for i, entry in enumerate(levels) if i == 0 or entry is latency]
