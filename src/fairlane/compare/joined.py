"""Join runs into one evidence: runs become lanes, categories become workloads, matching cells become cells.

The conditions of a source lane and cell go into its trials' ``context["conditions"]``, so that the guard compares each
category by itself. The runs were made at different times: their trials are two independent samples (``design.paired``
false), and blocks of different runs do not belong together.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairlane.compare.mapping import LaneMap, Pair
from fairlane.compare.match import match
from fairlane.errors import FairlaneError
from fairlane.guard.conditions import conditions
from fairlane.guard.parameters import PARAMETERS
from fairlane.records import Block, Cell, Evidence, Observation
from fairlane.stats.efficiency import efficient
from fairlane.study.spec import Study

Place = tuple[str, str]
"""Lane (or alias of a run), cell key."""


@dataclass(frozen=True)
class Alone:
    """Cells of a source lane without a partner in the category: listed, not compared."""

    category: str
    alias: str
    lane: str
    cells: tuple[str, ...]
    """Cell names."""


@dataclass(frozen=True)
class Joined:
    """The runs as one evidence, and the source of each part."""

    evidence: Evidence
    mapping: LaneMap
    runs: Mapping[str, Evidence]
    sources: Mapping[Place, Place]
    """(alias, joined cell key) -> (source lane, source cell key), for everything compared."""
    categories: Mapping[str, Pair]
    """Joined workload -> its pair; a category with several primary metrics has a workload for each."""
    trials: Mapping[str, Place]
    """Trial of the joined evidence -> (alias, the trial's name in its run)."""
    alone: tuple[Alone, ...]
    unpaired: Mapping[str, tuple[str, ...]]
    """Alias -> lanes without a pair."""


def joined(runs: Mapping[str, Evidence], mapping: LaneMap) -> Joined:
    """Join ``runs`` (alias -> evidence) as ``mapping`` pairs their lanes.

    Raises FairlaneError if no cell of any pair matches.
    """
    baseline = runs[mapping.baseline]
    cells: dict[str, list[tuple[Cell, dict[str, Cell]]]] = {}
    categories: dict[str, Pair] = {}
    alone: list[Alone] = []
    for pair in mapping.pairs:
        rows, left = _rows(runs, mapping.baseline, pair)
        alone += left
        primaries = list(
            dict.fromkeys(baseline.study.workloads[row[mapping.baseline].workload].primary for row in rows)
        )
        for primary in primaries:
            name = _workload(pair.name, primary if len(primaries) > 1 else "", categories)
            categories[name] = pair
            mine = [r for r in rows if baseline.study.workloads[r[mapping.baseline].workload].primary == primary]
            names = _names([row[mapping.baseline] for row in mine])
            cells[name] = [
                (Cell(name, "imported", label, _common(runs, row)), row) for label, row in zip(names, mine, strict=True)
            ]
    if not cells:
        raise FairlaneError("no-common-cells", "the paired lanes have no cell in common", hint=_cells_of(runs, mapping))
    study = _study(runs, mapping, cells, categories)
    sources = {
        (alias, cell.key): (categories[name].lanes[alias], source.key)
        for name, rows_ in cells.items()
        for cell, row in rows_
        for alias, source in row.items()
    }
    trials = {new.trial: (new, (alias, old.trial)) for alias, old, new in _trials(runs, sources)}
    observations = tuple(sorted((new for new, _ in trials.values()), key=lambda o: (o.cell, o.block, o.lane)))
    paired = {alias: {pair.lanes.get(alias) for pair in mapping.pairs} for alias in runs}
    return Joined(
        evidence=Evidence(
            name=study.name,
            study=study,
            study_text=mapping.text or baseline.study_text,
            seed=baseline.seed,
            blocks=_blocks(study, observations),
            observations=efficient(study, observations),  # of runs that had links of different speed
            description=_description(runs, mapping),
            fingerprint={alias: run.fingerprint for alias, run in runs.items()},
            events=({"type": "order", "interleaved": False, "spans": _spans(runs)},),
            modelled=any(run.modelled for run in runs.values()),
            emulated=any(run.emulated for run in runs.values()),
            complete=True,  # of a run that is not, the check of its source says so; the trials that are in do count
        ),
        mapping=mapping,
        runs=runs,
        sources=sources,
        categories=categories,
        trials={name: source for name, (_, source) in trials.items()},
        alone=tuple(alone),
        unpaired={
            a: rest for a, run in runs.items() if (rest := tuple(x for x in run.study.lanes if x not in paired[a]))
        },
    )


def _rows(runs: Mapping[str, Evidence], baseline: str, pair: Pair) -> tuple[list[dict[str, Cell]], list[Alone]]:
    """The cells of a category, in the baseline's order, as alias -> source cell; and the cells left over."""
    tried = {alias: _tried(runs[alias], lane) for alias, lane in pair.lanes.items()}
    rows: dict[str, dict[str, Cell]] = {cell.key: {baseline: cell} for cell in tried[baseline]}
    left: dict[str, list[str]] = {alias: [] for alias in pair.lanes}
    for alias in pair.lanes:
        if alias != baseline:
            partners = match(tried[baseline], tried[alias])
            by_key = {cell.key: cell for cell in tried[alias]}
            for ours, theirs in partners.items():
                rows[ours][alias] = by_key.pop(theirs)
            left[alias] = [cell.name for cell in by_key.values()]
    left[baseline] = [row[baseline].name for row in rows.values() if len(row) == 1]
    alone = [Alone(pair.name, alias, pair.lanes[alias], tuple(names)) for alias, names in left.items() if names]
    return [row for row in rows.values() if len(row) > 1], alone


def _tried(run: Evidence, lane: str) -> list[Cell]:
    """The cells in which ``lane`` has a trial."""
    keys = {o.cell for o in run.observations if o.lane == lane}
    return [cell for cell in run.cells() if cell.key in keys]


def _workload(category: str, primary: str, taken: Mapping[str, Pair]) -> str:
    """``best-replicated``, ``best-replicated-lat-p99``: a free name that is valid in a study."""
    suffix = "-" + primary.replace("_", "-") if primary else ""
    name = category[: 31 - len(suffix)].rstrip("-") + suffix
    number = 2
    while name in taken:
        name = f"{category[: 28 - len(suffix)].rstrip('-')}{suffix}-{number}"
        number += 1
    return name


def _names(cells: Sequence[Cell]) -> list[str]:
    """Names valid for imported cells, unique in their category; cells of one name get the workload's name too."""
    plain = [_allowed(cell.name) for cell in cells]
    keys = [_key(n) for n in plain]
    names = [
        n if keys.count(_key(n)) == 1 else _allowed(f"{c.workload} {n}") for n, c in zip(plain, cells, strict=True)
    ]
    keys = [_key(n) for n in names]
    return [n if keys.count(_key(n)) == 1 else f"{n} no.{i + 1}" for i, n in enumerate(names)]


def _key(name: str) -> str:
    """The key that ``Cell.key`` derives from the name."""
    return name.replace(" ", "-").replace("/", "-")


def _allowed(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9 ./%+-]+", "-", name)[:80]
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9%]+$", "", name) or "cell"


def _common(runs: Mapping[str, Evidence], row: Mapping[str, Cell]) -> dict[str, str | int | float | bool]:
    """Load parameters that all sources of a cell state with equal values; a missing one is not copied from another
    source."""
    loads = [runs[alias].study.workloads[cell.workload].known(cell) for alias, cell in row.items()]
    first = loads[0]
    return {
        name: value
        for name, value in first.items()
        if isinstance(value, str | int | float) and all(other.get(name) == value for other in loads)
    }


def _study(
    runs: Mapping[str, Evidence],
    mapping: LaneMap,
    cells: Mapping[str, Sequence[tuple[Cell, Mapping[str, Cell]]]],
    categories: Mapping[str, Pair],
) -> Study:
    """The study of the joined evidence, validated like any other."""
    baseline = runs[mapping.baseline]
    design = baseline.study.design
    longest = max(len(run.blocks) and 1 + max(b.index for b in run.blocks) for run in runs.values())
    workloads = {}
    for name, rows in cells.items():
        source = baseline.study.workloads[rows[0][1][mapping.baseline].workload]
        points = [{"name": cell.name, "params": dict(cell.params)} for cell, _ in rows]
        workloads[name] = {"kind": "imported", "primary": source.primary, "points": points}
    used = {alias for pair in categories.values() for alias in pair.lanes}
    return Study.model_validate(
        {
            "name": "-against-".join([*(a for a in runs if a in used and a != mapping.baseline), mapping.baseline])[
                :31
            ].rstrip("-"),
            "question": mapping.question or _question(runs, mapping, used),
            "platform": {"kind": "imported"},
            "baseline": mapping.baseline,
            "lanes": {
                alias: {"transport": "imported", "source": run.name} for alias, run in runs.items() if alias in used
            },
            "workloads": workloads,
            "design": {
                "seed": baseline.seed,
                "looks": (max(2, longest),),
                "alpha": design.alpha,
                "margins": dict(design.margins),
                "paired": False,
                "vary": mapping.vary,
                "accept": dict(mapping.accept),
            },
        }
    )


def _question(runs: Mapping[str, Evidence], mapping: LaneMap, used: set[str]) -> str:
    others = " and ".join(alias for alias in runs if alias in used and alias != mapping.baseline)
    return f"How does {others} compare with {mapping.baseline}?"


def _trials(
    runs: Mapping[str, Evidence], sources: Mapping[Place, Place]
) -> Iterator[tuple[str, Observation, Observation]]:
    """Alias, source trial, renamed trial: numbered from 0 within cell and lane."""
    known = {alias: conditions(run) for alias, run in runs.items()}
    by_place: dict[str, dict[Place, list[Observation]]] = {alias: {} for alias in runs}
    for alias, run in runs.items():
        for observation in run.observations:
            by_place[alias].setdefault((observation.lane, observation.cell), []).append(observation)
    position = {alias: n for n, alias in enumerate(runs)}
    for (alias, key), source in sources.items():
        run, (lane, _) = runs[alias], source
        spec = run.study.lanes[lane]
        own = {"transport": spec.transport, "platform": run.study.platform.kind}
        stated = {name: value for name, value in own.items() if value != "imported"} | dict(
            known[alias].get(source, {})
        )
        for number, observation in enumerate(sorted(by_place[alias][source], key=lambda o: o.block)):
            # the trial's own value wins: the guard must notice trials of one lane that disagree
            trial = observation.context.get("conditions")
            context = {**observation.context, "conditions": {**stated, **(trial if isinstance(trial, Mapping) else {})}}
            new = dataclasses.replace(
                observation, cell=key, block=number, lane=alias, position=position[alias], context=context
            )
            yield alias, observation, new


def _spans(runs: Mapping[str, Evidence]) -> dict[str, list[str]]:
    """Alias -> first and last date of its trials, if all runs state dates."""
    spans = {}
    for alias, run in runs.items():
        days = [known["date"] for known in conditions(run).values() if isinstance(known.get("date"), int | float)]
        if days:
            spans[alias] = [PARAMETERS["date"].shown(day) for day in (min(days), max(days))]
    return spans if len(spans) == len(runs) else {}


def _blocks(study: Study, observations: Sequence[Observation]) -> tuple[Block, ...]:
    """Blocks by number: only their count means anything."""
    cells = {cell.key: cell for cell in study.cells()}
    order: dict[tuple[str, int], list[str]] = {}
    for observation in observations:
        order.setdefault((observation.cell, observation.block), []).append(observation.lane)
    return tuple(Block(cells[key], number, tuple(lanes), 0) for (key, number), lanes in order.items())


def _description(runs: Mapping[str, Evidence], mapping: LaneMap) -> dict[str, object]:
    """Per run: its name and the compared lanes."""
    lanes = {
        alias: {
            "path": [f"run {run.name}", f"lanes {', '.join(used)}"],
        }
        for alias, run in runs.items()
        if (used := list(dict.fromkeys(pair.lanes[alias] for pair in mapping.pairs if alias in pair.lanes)))
    }
    platform = {
        alias: dict(run.description.get("platform") or {"kind": run.study.platform.kind}) for alias, run in runs.items()
    }
    return {"lanes": lanes, "platform": platform}


def _cells_of(runs: Mapping[str, Evidence], mapping: LaneMap) -> str:
    """Cells on each side of the first pair, for the error message."""
    pair = mapping.pairs[0]
    parts = []
    for alias, lane in pair.lanes.items():
        names = [cell.name for cell in _tried(runs[alias], lane)]
        shown = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
        parts.append(f"{alias}'s {lane} has {shown or 'no trial'}")
    return "cells match by bs, rw, iodepth, numjobs and mix, or by name; " + "; ".join(parts)
