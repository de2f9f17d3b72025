"""A comparison as parts of a report, and as plain data. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlane.compare.comparison import Comparison
from fairlane.compare.deltas import Delta, Row, Table, percent
from fairlane.compare.scorecard import Score
from fairlane.compare.takeaways import takeaways
from fairlane.guard.matched import table_of
from fairlane.guard.values import NONE
from fairlane.metrics import METRICS
from fairlane.records import Cell, Word
from fairlane.report.parts import Part, part
from fairlane.report.phrases import SYMBOL
from fairlane.report.text import DASH, scrub
from fairlane.verdicts.scorecard import SIGN

_COLUMNS = 5
"""Cells with a scorecard column each; above this, each metric is one column."""
_SHOWN = 3
"""Places listed per finding."""
_LEAN = (
    "In brackets: the run whose figure is better by more than the margin. It is not statistically tested and is not a "
    "verdict."
)


def parts(c: Comparison, *, every_metric: bool = False) -> tuple[Part, ...]:
    """Mapping, matched parameters, deltas, scorecard, takeaways: a terminal shows the end."""
    tables = [t for t in c.tables if t.primary or every_metric]
    before = [_mapping(c), _matched(c), *(_deltas(c, t) for t in tables), *_scorecard(c)]
    return (*before, part("Takeaways", sentences=takeaways(c)))


def page(c: Comparison) -> tuple[Part, ...]:
    """The same parts for a web page, takeaways first."""
    first = [part("Takeaways", sentences=takeaways(c)), *_scorecard(c)]
    return (*first, *(p for p in parts(c) if p not in first))


def _mapping(c: Comparison) -> Part:
    aliases = (*c.aliases, c.baseline)
    reasons = any(p.rationale for p in c.joined.mapping.pairs)
    pairs = [
        (p.title, *(p.lanes.get(a, DASH) for a in aliases), *([p.rationale] if reasons else []))
        for p in c.joined.mapping.pairs
    ]
    left = [
        f"Only {x.alias}'s {x.lane} has {', '.join(x.cells[:6])}{' ...' if len(x.cells) > 6 else ''}."
        for x in c.joined.alone
    ]
    free = [f"Not paired: {', '.join(lanes)} of {alias}." for alias, lanes in c.joined.unpaired.items()]
    runs = [f"{alias}: run {c.joined.runs[alias].name}" for alias in aliases]
    heads = ("category", *aliases, *(["rationale"] if reasons else []))
    notes = ["; ".join(runs) + ".", *left, *free]
    return part("Mapping of lanes", columns=heads, rows=pairs, notes=notes, folded=True)


_STATUS = {"match": "match", "differs": "DIFFERS", "unknown": "unknown", "accepted": "accepted", "varied": "may differ"}


def _matched(c: Comparison) -> Part:
    table = table_of(c.evidence)
    aliases = (*c.aliases, c.baseline)
    nowhere = [row.title for row in table.rows if row.status == "match" and set(row.values) == {NONE}]
    rows = [row for row in table.rows if row.title not in nowhere]
    lines = []
    for row in rows:
        values = dict(zip(table.columns, row.values, strict=True))
        lines.append((row.title, *(values[a] for a in aliases), _STATUS.get(row.status, "")))
    return part(
        "Matched parameters",
        folded=True,
        columns=("parameter", *aliases, ""),
        rows=lines,
        notes=[
            "A parameter that differs, or that one side alone states, refuses the verdict. A parameter that neither "
            "side states is not assumed equal.",
            *([f"Not applicable on any side: {', '.join(nowhere)}."] if nowhere else []),
        ],
        marked=[n for n, row in enumerate(rows) if row.status == "differs"],
    )


def _deltas(c: Comparison, t: Table) -> Part:
    cells = len({row.cell for row in t.rows}) > 1
    heads = [*(["cell"] if cells else []), "category"]
    first = len(heads)
    for alias in c.aliases:
        heads += [alias, c.baseline, "delta", "verdict"] if alias == c.aliases[0] else [alias, "delta", "verdict"]
    lines = []
    for row in t.rows:
        line = [*([row.cell] if cells else []), row.category]
        by_alias = {d.alias: d for d in row.deltas}
        for alias in c.aliases:
            d = by_alias.get(alias)
            line.append(t.shown(d.value if d else None))
            if alias == c.aliases[0]:
                line.append(t.shown(row.baseline))
            line += [percent(d.ratio), _word(d)] if d else [DASH, DASH]
        lines.append(line)
    where = "" if cells else f", {t.rows[0].cell}"
    unit = f" ({t.unit})" if t.unit != "1/s" else ""
    less = "; less is better" if t.metric.better < 0 else ""
    title = f"{t.metric.title}{unit}{where}{less}" + ("" if t.primary else " (exploratory)")
    numbers = [n for n, head in enumerate(heads) if n >= first and head != "verdict"]
    return part(title, columns=heads, rows=lines, numbers=numbers)


def _word(d: Delta) -> str:
    return f"{SYMBOL[d.verdict.verdict]} {d.verdict.verdict}"


def _scorecard(c: Comparison) -> list[Part]:
    cards = []
    for alias in c.aliases:
        mine = [s for s in c.scores if s.alias == alias and s.primary]
        if mine:
            cards.append(_card(c, alias, mine))
    return cards


def _card(c: Comparison, alias: str, scores: Sequence[Score]) -> Part:
    columns = list(dict.fromkeys((s.metric, s.cell) for s in scores))
    split = len(columns) <= _COLUMNS
    if not split:
        columns = list(dict.fromkeys((s.metric, "") for s in scores))
    lines = []
    for category in dict.fromkeys(s.category for s in scores):
        line = [category]
        for metric, cell in columns:
            here = [s for s in scores if s.category == category and s.metric == metric and cell in ("", s.cell)]
            line.append(_tally(here))
        lines.append(line)
    heads = ["category", *(f"{METRICS[m].title} {cell}".strip() for m, cell in columns)]
    leaning = any(s.leans for s in scores)
    versus = f" of {alias} against {c.baseline}"
    return part(f"Scorecard{versus}", columns=heads, rows=lines, notes=[_LEAN] if leaning else [])


def _tally(scores: Sequence[Score]) -> str:
    """``roks``; ``refused (vcf)``; of several cells: ``roks 3, even 1, refused 12``."""
    if len(scores) == 1:
        (s,) = scores
        return s.winner or s.outcome + (f" ({s.leans})" if s.leans else "")
    counts = Counter(s.winner or s.outcome for s in sorted(scores, key=lambda s: list(SIGN).index(s.outcome)))
    return ", ".join(f"{word} {n}" for word, n in counts.items()) or DASH


def findings_part(c: Comparison) -> tuple[Part, ...]:
    """The findings, for outputs without a report."""
    lines = []
    for f in c.findings:
        places = _places(c, set(f.cells))
        shown = ", ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
        lines.append(f"{f.severity}: {f.message}" + (f" ({shown})" if shown else ""))
    return (part("Findings", sentences=lines),) if lines else ()


def _places(c: Comparison, keys: set[str]) -> list[str]:
    """Where a finding applies: titles of whole categories, else cells; empty if everywhere."""
    cells: dict[str, list[Cell]] = {}
    for cell in c.evidence.cells():
        cells.setdefault(c.joined.categories[cell.workload].title, []).append(cell)
    if not keys or keys.issuperset(cell.key for mine in cells.values() for cell in mine):
        return []
    places = []
    for title, mine in cells.items():
        here = [cell.name for cell in mine if cell.key in keys]
        whole = len(here) == len(mine)
        places += [title] if whole else [f"{title}/{name}" if len(cells) > 1 else name for name in here]
    return places


def as_data(c: Comparison) -> dict[str, Any]:
    """The whole comparison for ``--format json``: ratios as plain factors, values in the registry's units."""
    data = {
        "baseline": c.baseline,
        "runs": {alias: run.name for alias, run in c.joined.runs.items()},
        "mapping": [
            {"category": p.name, "title": p.title, "lanes": dict(p.lanes), "rationale": p.rationale}
            for p in c.joined.mapping.pairs
        ],
        "deltas": [{**vars(row), "notes": list(row.notes)} for row in delta_rows(c)],
        "scorecard": [vars(s) for s in c.scores],
        "takeaways": list(takeaways(c)),
        "findings": [
            {
                "check": f.check,
                "kind": f.kind,
                "severity": f.severity,
                "message": f.message,
                "cells": list(f.cells),
                "runs": list(f.lanes),
                "refuses": f.refuses,
            }
            for f in c.findings
        ],
        "not_compared": {
            "cells": [
                {"category": a.category, "run": a.alias, "lane": a.lane, "cells": list(a.cells)} for a in c.joined.alone
            ],
            "lanes": {alias: list(lanes) for alias, lanes in c.joined.unpaired.items()},
        },
    }
    return scrub(data)


@dataclass(frozen=True)
class DeltaRow:
    """One run against the baseline run, in one category, cell and metric."""

    category: str
    """Title of the pair of lanes."""
    cell: str
    key: str
    """``Cell.key`` in the joined evidence."""
    metric: str
    unit: str
    """Unit of ``value`` and ``baseline_value``."""
    primary: bool
    run: str
    """Alias of the run."""
    value: float | None
    baseline_value: float | None
    ratio: float | None
    """Run / baseline run: 1.12 is 12 % more. For a refused verdict the plain quotient, without a test."""
    delta: str
    """The ratio as a change: ``+12.0 %``."""
    verdict: Word
    low: float | None
    """Lower end of the interval of ``ratio``."""
    high: float | None
    headline: bool
    notes: tuple[str, ...]
    """Footnotes."""


def delta_rows(c: Comparison) -> tuple[DeltaRow, ...]:
    """All deltas, in the order of the tables, primary metrics first."""
    return tuple(_delta_row(t, row, d) for t in c.tables for row in t.rows for d in row.deltas)


def _delta_row(t: Table, row: Row, d: Delta) -> DeltaRow:
    v = d.verdict
    return DeltaRow(
        category=row.category,
        cell=row.cell,
        key=row.key,
        metric=t.metric.name,
        unit=t.metric.unit,
        primary=t.primary,
        run=d.alias,
        value=d.value,
        baseline_value=row.baseline,
        ratio=d.ratio,
        delta=percent(d.ratio),
        verdict=v.verdict,
        low=v.low,
        high=v.high,
        headline=v.headline,
        notes=v.notes,
    )
