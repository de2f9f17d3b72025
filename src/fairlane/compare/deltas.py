"""The delta tables: each run's figure, its ratio to the baseline's, and the verdict. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from fairlane.compare.joined import Joined
from fairlane.metrics import METRICS, Metric
from fairlane.records import Observation, Verdict
from fairlane.report.text import DASH, MINUS
from fairlane.stats.histogram import PERCENTILES, Bins, directions, latency, merge, quantiles


@dataclass(frozen=True)
class Delta:
    """One run against the baseline, in one category, cell and metric."""

    alias: str
    value: float | None
    """The run's figure in the registry's unit: the verdict's, or else the geometric mean of its trials."""
    ratio: float | None
    """Run / baseline. For a refused verdict: the plain quotient of both figures, without a test."""
    verdict: Verdict

    @property
    def raw(self) -> bool:
        """Whether the ratio is a plain quotient of two figures, without a verdict."""
        return self.verdict.verdict in ("refused", "no-spread")


@dataclass(frozen=True)
class Row:
    """One category and cell."""

    category: str
    """Title of the category."""
    cell: str
    key: str
    baseline: float | None
    deltas: tuple[Delta, ...]


@dataclass(frozen=True)
class Table:
    """One metric, in one unit for all its figures: cell by cell, categories in the order of the mapping."""

    metric: Metric
    unit: str
    scale: float
    """Divisor from the registry's unit to ``unit``."""
    digits: int
    """Decimals shown."""
    primary: bool
    """Whether the metric is primary in every row."""
    rows: tuple[Row, ...]

    def shown(self, value: float | None) -> str:
        return DASH if value is None else f"{value / self.scale:,.{self.digits}f}"


def delta_tables(joined: Joined, verdicts: Sequence[Verdict]) -> tuple[Table, ...]:
    """One table per metric with verdicts, primary ones first; a metric that is primary in some cells only has two
    tables."""
    figures = _figures(joined.evidence.observations)
    cells = {cell.key: n for n, cell in enumerate(joined.evidence.cells())}
    names = list(dict.fromkeys(cell.name for cell in joined.evidence.cells()))
    tables = []
    for primary in (True, False):
        for metric in dict.fromkeys(v.metric for v in verdicts if v.primary == primary):
            mine = [v for v in verdicts if v.metric == metric and v.primary == primary]
            keys = sorted({v.key for v in mine}, key=lambda key: (names.index(_of(mine, key).cell), cells[key]))
            rows = tuple(_row(joined, [v for v in mine if v.key == key], figures) for key in keys)
            unit, scale, digits = _unit(METRICS[metric], rows)
            tables.append(Table(METRICS[metric], unit, scale, digits, primary, rows))
    return tuple(tables)


def _of(verdicts: Iterable[Verdict], key: str) -> Verdict:
    return next(v for v in verdicts if v.key == key)


def _row(joined: Joined, verdicts: Sequence[Verdict], figures: Mapping[tuple[str, str, str], float]) -> Row:
    first = verdicts[0]
    base = _value(first.baseline_value, figures.get((first.key, first.baseline, first.metric)))
    deltas = []
    for v in verdicts:
        value = _value(v.lane_value, figures.get((v.key, v.lane, v.metric)))
        ratio = v.ratio if v.ratio is not None else value / base if value and base else None
        deltas.append(Delta(v.lane, value, ratio, v))
    return Row(joined.categories[first.workload].title, first.cell, first.key, base, tuple(deltas))


def _value(figure: float | None, raw: float | None) -> float | None:
    return raw if figure is None else figure


def _figures(observations: Iterable[Observation]) -> dict[tuple[str, str, str], float]:
    """(cell key, lane, metric) -> geometric mean of the trials, or the percentile of all their I/Os."""
    values: dict[tuple[str, str, str], list[float]] = {}
    bins: dict[tuple[str, str, str], list[Bins]] = {}
    for observation in observations:
        for metric, value in observation.metrics.items():
            if not observation.failed and metric in METRICS and value > 0 and math.isfinite(value):
                values.setdefault((observation.cell, observation.lane, metric), []).append(value)
        if not observation.failed and observation.histograms:
            parts = {"": latency(observation.histograms), **directions(observation.histograms)}
            for way, part in parts.items():
                bins.setdefault((observation.cell, observation.lane, way), []).append(part)
    figures = {place: geometric_mean(v) for place, v in values.items()}
    for (cell, lane, way), several in bins.items():
        if merged := merge(several):
            shares = PERCENTILES[way]
            ranked = zip(shares, quantiles(merged, shares.values()), strict=True)
            figures |= {(cell, lane, name): float(ns) for name, ns in ranked}
    return figures


_NS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def _unit(metric: Metric, rows: Sequence[Row]) -> tuple[str, float, int]:
    """Unit, its size, decimals: the smallest figure of the table keeps at least three digits (times: four)."""
    values = [v for row in rows for v in (row.baseline, *(d.value for d in row.deltas)) if v]
    least, most = min(values, default=1.0), max(values, default=1.0)
    unit, scale = metric.unit, 1.0
    if metric.unit == "ns":
        middle = math.sqrt(least * most)
        unit, scale = next(((u, s) for u, s in _NS if middle >= s), _NS[-1])
    elif metric.unit == "B/s":
        unit, scale = "MiB/s", 2.0**20
    digits = (3 if metric.unit == "ns" else 2) - math.floor(math.log10(least / scale))
    return unit, scale, min(6, max(digits, 0))


def percent(ratio: float | None) -> str:
    """A ratio as a change in percent with one decimal: ``+1,102.0 %``."""
    if ratio is None:
        return DASH
    text = f"{(ratio - 1) * 100:+,.1f}".replace("-", MINUS)
    return f"{text if text.strip('+0.' + MINUS) else '±0.0'} %"
