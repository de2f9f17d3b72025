"""The matched-parameter table: parameters of two or more sides of a comparison, and whether they agree. Pure.

A side is a lane, or a whole run. Its parameters are kept per cell, because a load's parameters differ by cell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fairlane.guard.conditions import Known, conditions, stated
from fairlane.guard.parameters import OF_THE_PATH, Group, Role, in_order, parameter, wanted
from fairlane.guard.values import MIXED, NONE
from fairlane.records import Evidence

Relation = Literal["same", "differs", "one-sided", "mixed", "unknown"]
"""``one-sided``: known of one side only. ``mixed``: not the same in all trials of one side."""

Status = Literal["match", "differs", "unknown", "accepted", "varied", ""]
"""Status of a row over all sides. ``differs``: refuses. ``unknown``: no side states it. ``varied``: need not match.
Empty: nothing to compare."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    name: str
    cells: Mapping[str, Known]
    """Cell key -> its known parameters."""
    tried: frozenset[str]
    """Cells that have a successful trial: nothing is compared in others."""


@dataclass(frozen=True)
class Rules:
    """Parameters that need not match, by a study's ``vary`` and ``accept``."""

    vary: frozenset[str] = frozenset()
    accept: Mapping[str, str] = field(default_factory=dict)
    """Name -> reason."""

    @staticmethod
    def of(*studies: Any) -> "Rules":
        """The rules of all ``studies`` together."""
        designs = [study.design for study in studies]
        accept = {name: reason for design in designs for name, reason in design.accept.items()}
        return Rules(frozenset(name for design in designs for name in design.vary), accept)


def sides(evidence: Evidence) -> dict[str, Side]:
    """The lanes of a run as sides, in the order of the study."""
    known = conditions(evidence)
    tried: dict[str, set[str]] = {}
    for trial in evidence.observations:
        if not trial.failed:
            tried.setdefault(trial.lane, set()).add(trial.cell)
    keys = [cell.key for cell in evidence.cells()]
    return {
        name: Side(name, {key: known[name, key] for key in keys}, frozenset(tried.get(name, ())).intersection(keys))
        for name in evidence.study.lanes
    }


def foreseen(study: Any) -> dict[str, Side]:
    """The lanes as sides before anything has run: the study's parameters, with every cell counted as tried.

    A parameter that machines will report (``PlatformSpec.reported_later``) and one side alone states counts as equal.
    """
    known, keys = stated(study), [cell.key for cell in study.cells()]
    later, base = study.platform.reported_later, study.baseline
    cells = {name: {key: _awaiting(known[name, key], known[base, key], later) for key in keys} for name in study.lanes}
    return {name: Side(name, cells[name], frozenset(keys)) for name in study.lanes}


def _awaiting(known: Known, base: Known, later: frozenset[str]) -> Known:
    declared = {name: value for name, value in known.items() if name in base or name not in later}
    return {**{name: base[name] for name in later & base.keys()}, **declared}


def together(name: str, lanes: Iterable[Side]) -> Side:
    """Several lanes as one side; a value they do not agree on becomes text that lists them."""
    members = list(lanes)
    keys = list(dict.fromkeys(key for lane in members for key in lane.cells))
    cells = {
        key: _merged([lane.cells[key] for lane in members if key in lane.cells], "varies by lane: ") for key in keys
    }
    return Side(name, cells, frozenset().union(*(lane.tried for lane in members)))


def comparable(lanes: Sequence[Side]) -> tuple[Side, ...]:
    """The sides, unchanged if each has a cell in common with the first; else all cells of each merged into one, because
    cells of different studies may have different names."""
    if all(lane.tried & lanes[0].tried for lane in lanes):
        return tuple(lanes)
    return tuple(Side(lane.name, {"": overall(lane)}, frozenset({""} if lane.tried else ())) for lane in lanes)


def overall(side: Side) -> Known:
    """A side's parameters over all its cells; a value they do not agree on becomes text that lists them."""
    keys = [key for key in side.cells if key in side.tried] or list(side.cells)
    return _merged([side.cells[key] for key in keys], "varies by cell: ")


def _merged(parts: Sequence[Known], words: str) -> dict[str, object]:
    merged: dict[str, object] = {}
    for name in {name: None for part in parts for name in part}:
        about, values = parameter(name), [part.get(name) for part in parts]
        if about.absent and set(values) != {NONE}:
            values = [value for value in values if value != NONE]
        if all(value is not None and about.match(values[0], value) for value in values):
            merged[name] = values[0]
        else:
            by_text = {about.shown(v): v for v in values}
            numbers = all(isinstance(v, int | float) for v in by_text.values())
            shown = sorted(by_text, key=lambda text: (by_text[text] if numbers else 0, text))
            merged[name] = words + ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
    return merged


def relation(name: str, a: Known, b: Known) -> Relation:
    """Relation of two sides in one parameter, whatever its role."""
    ours, theirs = a.get(name), b.get(name)
    if ours is None and theirs is None:
        return "unknown"
    if any(isinstance(value, str) and value.startswith(MIXED) for value in (ours, theirs)):
        return "mixed"
    if ours is None or theirs is None:
        return "one-sided"
    return "same" if parameter(name).match(ours, theirs) else "differs"


@dataclass(frozen=True)
class Difference:
    """One parameter in which two sides do not agree, with the cells that show it."""

    name: str
    relation: Relation
    """The gravest of its cells: differs, mixed, one-sided."""
    cells: Mapping[str, tuple[str, str]]
    """Cell key -> the first and the second side's value, for a reader."""

    def describe(self, first: str, second: str, names: Mapping[str, str]) -> str:
        """``10s on ROKS, unknown on VCF``; ``names``: cell key -> name, for values that differ between cells."""
        pairs = list(dict.fromkeys(self.cells.values()))
        ours, theirs = pairs[0]
        text = f"{ours} on {first}, {theirs} on {second}"
        if len(pairs) > 1:
            at = names.get(next(iter(self.cells)), "")
            others = len(self.cells) - 1
            text += f"{f' at {at}' if at else ''}, and so on in {others} more cell{'s' * (others > 1)}"
        return text


_GRAVEST: tuple[Relation, ...] = ("differs", "mixed", "one-sided")


def differences(a: Side, b: Side) -> tuple[Difference, ...]:
    """Parameters of any role that are not known to be the same in all cells that both sides have tried."""
    keys = [key for key in a.cells if key in a.tried & b.tried]
    by_name: dict[str, dict[str, tuple[str, str]]] = {}
    grades: dict[str, set[Relation]] = {}
    for key in keys:
        ours, theirs = a.cells[key], b.cells[key]
        for name in {**ours, **theirs}:
            if (grade := relation(name, ours, theirs)) in _GRAVEST:
                about = parameter(name)
                by_name.setdefault(name, {})[key] = (about.shown(ours.get(name)), about.shown(theirs.get(name)))
                grades.setdefault(name, set()).add(grade)
    return tuple(
        Difference(name, next(grade for grade in _GRAVEST if grade in grades[name]), by_name[name])
        for name in in_order(set(by_name))
    )


def missed(a: Side, b: Side, primary: Mapping[str, str], *, interleaved: bool) -> dict[str, list[str]]:
    """Parameters that neither side states and that would matter -> the cells. ``primary``: cell key -> metric.

    ``interleaved``: one run measured both in the same machine, so that only what belongs to the path can differ.
    """
    missing: dict[str, list[str]] = {}
    for key in a.cells:
        if key not in a.tried & b.tried:
            continue
        ours, theirs = a.cells[key], b.cells[key]
        for name in wanted({**ours, **theirs}, primary.get(key, "")):
            if name not in ours and name not in theirs and (not interleaved or name in OF_THE_PATH):
                missing.setdefault(name, []).append(key)
    return missing


@dataclass(frozen=True)
class Row:
    """One parameter over all sides."""

    name: str
    title: str
    group: Group
    role: Role
    values: tuple[str, ...]
    """For a reader, one per side: ``150g``, ``unknown``, ``varies by cell: 4k, 64k``."""
    status: Status


@dataclass(frozen=True)
class Table:
    """Parameters of several sides; the others are compared with the first column."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def table(columns: Sequence[Side], rules: Rules, primary: Mapping[str, str], *, interleaved: bool) -> Table:
    """Every parameter that any side states, and those of ``missed``, which also explains the arguments."""
    base, *others = columns
    unequal: dict[str, set[Relation]] = {}
    unstated: set[str] = set()
    for side in others:
        unstated |= missed(side, base, primary, interleaved=interleaved).keys()
        for difference in differences(side, base):
            unequal.setdefault(difference.name, set()).add(difference.relation)
    compared = any(base.tried & side.tried for side in others)
    known = [overall(side) for side in columns]
    named = {name for column in known for name in column}
    rows = []
    for name in in_order(named | unstated):
        about = parameter(name)
        status: Status = "match" if compared else ""
        if name in unequal:
            free = about.role != "controlled" or (name in rules.vary and "mixed" not in unequal[name])
            status = "varied" if free else "accepted" if name in rules.accept else "differs"
        elif name in unstated:
            free = name in rules.vary
            status = "varied" if free else "accepted" if name in rules.accept else "unknown"
        elif compared and about.absent and len({column.get(name) for column in known}) > 1:
            status = "varied"
        values = tuple(about.shown(column.get(name)) for column in known)
        rows.append(Row(name, about.title, about.group, about.role, values, status))
    return Table(tuple(side.name for side in columns), tuple(rows))


def table_of(evidence: Evidence) -> Table:
    """The table of a run's lanes, the baseline first."""
    study, lanes = evidence.study, sides(evidence)
    columns = [lanes.pop(study.baseline), *lanes.values()]
    return table(columns, Rules.of(study), primaries(study), interleaved=interleaved(study))


def primaries(study: Any) -> dict[str, str]:
    """Cell key -> headline metric."""
    return {cell.key: study.workloads[cell.workload].primary for cell in study.cells()}


def interleaved(study: Any) -> bool:
    """Whether one run measures all lanes side by side, so that only parameters of their paths can differ unnoticed."""
    return bool(study.platform.measured_here and study.design.paired)
