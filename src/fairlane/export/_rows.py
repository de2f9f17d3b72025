"""The tables of an export, row by row; ``_records`` has their columns. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fairlane.export._columns import metric_column
from fairlane.export._records import FindingRow, LaneRow, ParameterRow, PercentileRow, VerdictRow, trial_row
from fairlane.export._values import instant, of_days
from fairlane.export.base import Table
from fairlane.guard.conditions import conditions
from fairlane.guard.parameters import in_order, parameter
from fairlane.guard.values import date
from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence, Finding, Observation, Verdict
from fairlane.report import lanes as paths
from fairlane.report import phrases
from fairlane.report.text import flatten
from fairlane.runs.raw import FOLDER
from fairlane.stats.histogram import Bins, merge, percentile, reportable
from fairlane.stats.histogram import mean as mean_of
from fairlane.verdicts.scorecard import withheld

Label = Mapping[str, str]
"""Lane -> its label."""
Merged = Mapping[tuple[str, str], Mapping[str, Bins]]
"""(cell key, lane) -> name of a histogram -> that histogram over all successful trials."""

LAT = "lat"
"""The histogram of all directions, from submission to completion."""

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}


def verdicts(all_verdicts: Sequence[Verdict], label: Label) -> Table:
    """One row per lane, cell and metric."""
    key = ("cell_key", "lane", "metric")
    return Table.of("verdicts", VerdictRow, key, (_verdict(v, label) for v in all_verdicts))


def _verdict(v: Verdict, label: Label) -> dict[str, Any]:
    lane, baseline = label.get(v.lane, v.lane), label.get(v.baseline, v.baseline)
    metric = phrases.metric_of(v.metric)
    return {
        **vars(v),
        "cell_key": v.key,
        "lane_label": lane,
        "baseline_label": baseline,
        "unit": metric.unit,
        "better": metric.better,
        "withheld": withheld(v),
        "sentence": phrases.sentence(v, lane, baseline),
        "reason": phrases.reason(v) or None,
    }


def findings(all_findings: Sequence[Finding]) -> Table:
    """One row per finding. ``n``: number of the finding among those of its check, lanes and cells, from 0."""
    numbers: dict[Any, int] = {}
    rows = []
    for finding in all_findings:
        about = (finding.check, finding.cells, finding.lanes)
        numbers[about] = numbers.get(about, -1) + 1
        rows.append({**vars(finding), "n": numbers[about]})
    return Table.of("findings", FindingRow, ("check", "cells", "lanes", "n"), rows)


def trials(evidence: Evidence, events: Mapping[tuple[Any, Any, Any], Mapping[str, Any]], label: Label) -> Table:
    """One row per completed trial; a metric without values has no column."""
    present = {name for observation in evidence.observations for name in observation.metrics}
    metrics = {name: metric_column(name) for name in METRICS if name in present}
    cells, known = {cell.key: cell for cell in evidence.cells()}, conditions(evidence)
    here = evidence.study.platform.measured_here
    rows = (
        {
            **_place(cells[observation.cell], observation.lane, label),
            **_load(known[observation.lane, observation.cell]),
            **_journaled(
                observation, events.get((observation.cell, observation.block, observation.lane), {}), here=here
            ),
            "trial": observation.trial,
            "provisioning": evidence.study.design.provisioning_of(observation.block),
            "block": observation.block,
            "position": observation.position,
            "failed": observation.failed or None,
            **{column.name: observation.metrics.get(name) for name, column in metrics.items()},
        }
        for observation in evidence.observations
    )
    return Table.of("trials", trial_row(tuple(metrics)), ("cell_key", "block", "lane"), rows)


def _place(cell: Cell, lane: str, label: Label) -> dict[str, Any]:
    return {"workload": cell.workload, "cell": cell.name, "cell_key": cell.key, "lane": lane, "lane_label": label[lane]}


def _load(known: Mapping[str, Any]) -> dict[str, Any]:
    """Load columns for grouping; a parameter that differs between trials is text, not a number."""
    numbers = {"rwmixread": "rwmixread_percent", "bs": "bs_bytes", "iodepth": "iodepth", "numjobs": "numjobs"}
    values = {column: known.get(name) for name, column in numbers.items()}
    whole = {
        c: int(v) for c, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool) and v == int(v)
    }
    rw = known.get("rw")
    return {"rw": rw if isinstance(rw, str) else None, **whole}


def _journaled(observation: Observation, event: Mapping[str, Any], *, here: bool) -> dict[str, Any]:
    """Time and raw file of a trial. An import's journal has the time of the import only."""
    raw, sha256, seconds = event.get("raw"), event.get("sha256"), event.get("seconds")
    return {
        "at": instant(event.get("at")) if here else _stated_date(observation),
        "seconds": seconds if here and isinstance(seconds, int | float) else None,
        "raw": f"{FOLDER}/{raw}" if isinstance(raw, str) else None,
        "raw_sha256": sha256 if isinstance(sha256, str) else None,
    }


def _stated_date(observation: Observation) -> datetime | None:
    """The date in an imported result."""
    stated = observation.context.get("conditions")
    try:
        return of_days(date(stated.get("date"))) if isinstance(stated, Mapping) else None
    except (ValueError, OverflowError):
        return None


def merged(evidence: Evidence) -> Merged:
    """Every histogram of every lane and cell, in study order; ``LAT`` first."""
    parts: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for observation in evidence.observations:
        if not observation.failed:
            for name, bins in observation.histograms.items():
                for full in _names(name):
                    parts.setdefault((observation.cell, observation.lane), {}).setdefault(full, []).append(bins)
    return {
        (cell.key, lane): {name: merge(part[name]) for name in sorted(part, key=lambda name: (name != LAT, name))}
        for cell in evidence.cells()
        for lane in evidence.study.lanes
        if (part := parts.get((cell.key, lane)))
    }


def _names(name: str) -> set[str]:
    """The histograms that ``name`` counts towards: itself and ``LAT``."""
    return {name, LAT} if name.rpartition(".")[2] == LAT else {name}


def percentiles(evidence: Evidence, of: Merged, label: Label) -> Table:
    """One row per lane, cell and histogram; a percentile with fewer than ten I/Os beyond it is empty."""
    trials = Counter(
        (observation.cell, observation.lane, name)
        for observation in evidence.observations
        if not observation.failed
        for name in {part for full in observation.histograms for part in _names(full)}
    )
    cells = {cell.key: cell for cell in evidence.cells()}
    rows = (
        {
            **_place(cells[key], lane, label),
            "histogram": name,
            "trials": trials[key, lane, name],
            "ios": bins.total,
            "mean_ns": mean_of(bins),
            **{f"{p}_ns": percentile(bins, q) for p, q in PERCENTILES.items() if reportable(bins, q)},
        }
        for (key, lane), several in of.items()
        for name, bins in several.items()
        if bins
    )
    return Table.of("percentiles", PercentileRow, ("cell_key", "lane", "histogram"), rows)


def lanes(evidence: Evidence) -> Table:
    """One row per lane."""
    rows = (
        {
            "lane": lane.name,
            "lane_label": lane.label,
            "transport": lane.transport,
            "is_baseline": lane.baseline,
            "copy_of": evidence.study.lanes[lane.name].copy_of or None,
            "role": evidence.study.lanes[lane.name].role,
            "path": lane.path,
        }
        for lane in paths.views(evidence)
    )
    return Table.of("lanes", LaneRow, ("lane",), rows)


def parameters(evidence: Evidence) -> Table:
    """One row per lane and parameter; of conditions, per cell."""
    rows = (*_settings(evidence), *_conditions(evidence))
    return Table.of("parameters", ParameterRow, ("lane", "cell_key", "source", "parameter"), rows)


def _settings(evidence: Evidence) -> Iterator[dict[str, Any]]:
    described = evidence.description.get("lanes") or {}
    for name, lane in evidence.study.lanes.items():
        requested = lane.model_dump(mode="json", exclude={"label", "conditions"}, exclude_none=True)
        read = {key: value for key, value in described.get(name, {}).items() if key != "path"}
        for source, tree in (("asked", requested), ("read back", read)):
            for key, value in flatten(tree).items():
                yield {"lane": name, "source": source, "parameter": key, "value": value}


def _conditions(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Conditions in the registry's order and units, as the guard compares them."""
    known = conditions(evidence)
    for cell in evidence.cells():
        for lane in evidence.study.lanes:
            here = known[lane, cell.key]
            for name in in_order(here):
                value, about = here[name], parameter(name)
                yield {
                    "lane": lane,
                    "workload": cell.workload,
                    "cell": cell.name,
                    "cell_key": cell.key,
                    "source": "condition",
                    "parameter": name,
                    "role": about.role,
                    "value": about.shown(value),
                    "number": value if isinstance(value, int | float) and not isinstance(value, bool) else None,
                }
