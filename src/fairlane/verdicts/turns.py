"""Where the answer turns: the verdicts of a lane grouped by the parameter that separates them, in one sentence. Pure.

A sentence speaks of the cells that were measured and of nothing else. It names a parameter only if every cell with the
same value has the same outcome, and no other parameter separates the cells as well: then it names the cells instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from fairlane.records import Cell, Verdict
from fairlane.units import format_size
from fairlane.verdicts.scorecard import Outcome, outcome

Word = Literal["Yes", "No", "It depends", "No difference that matters", "Not decided", "Not comparable"]

_ORDER: tuple[Outcome, ...] = ("better", "worse", "even", "open", "withheld", "refused")
_MOST_CLAUSES = 6
"""A sentence with more parts explains less than a table: then cells are counted."""
_NAMED = 3
"""Most cells that are named instead of counted."""


@dataclass(frozen=True)
class Turn:
    """The answer to "this lane instead of the baseline?" over all cells."""

    word: Word
    decided: int
    """Cells with an outcome that answers the question."""
    cells: int
    where: str
    """``NVMe/TCP from 8 clients on; iSCSI below``: only if outcomes differ, else empty. No full stop."""
    groups: tuple[tuple[Outcome, tuple[Verdict, ...]], ...]
    """Outcome -> its verdicts, contender's wins first; outcomes without any are left out."""

    @property
    def headline(self) -> str:
        """``Yes``, ``Yes in 6 of 8 cells``: the word, with the count where some cells are not decided."""
        limited = self.word in ("Yes", "No", "No difference that matters") and self.decided < self.cells
        return f"{self.word} in {self.decided} of {self.cells} cells" if limited else self.word


def turn(verdicts: Sequence[Verdict], cells: Iterable[Cell], lane: str, baseline: str) -> Turn:
    """The answer of ``verdicts``: those of one lane's primary metrics, one per cell. ``lane``, ``baseline``: labels.

    ``It depends`` needs two settled outcomes of which one is the lane's win: where it never wins the answer is ``No``.
    """
    by_key = {cell.key: cell for cell in cells}
    outcomes = {v.key: outcome(v) for v in verdicts}
    groups = tuple((o, tuple(v for v in verdicts if outcomes[v.key] == o)) for o in _ORDER if o in outcomes.values())
    known: set[Outcome] = {o for o, _ in groups if o in ("better", "worse", "even")}
    decided = sum(len(group) for o, group in groups if o in known)
    where = ""
    if len(groups) > 1:
        rows = [_Row(v, outcomes[v.key], _values(by_key[v.key]) if v.key in by_key else {}) for v in verdicts]
        where = _described(rows, _names(lane, baseline))
    return Turn(_word(known, {o for o, _ in groups}), decided, len(verdicts), where, groups)


def _word(known: set[Outcome], every: set[Outcome]) -> Word:
    if not known:
        return "Not comparable" if every == {"refused"} else "Not decided"
    if "better" in known:
        return "Yes" if known == {"better"} else "It depends"
    return "No" if "worse" in known else "No difference that matters"


def _names(lane: str, baseline: str) -> dict[Outcome, str]:
    return {
        "better": lane, "worse": baseline, "even": "no difference that matters", "open": "not decided",
        "withheld": "withheld", "refused": "not comparable",
    }  # fmt: skip


@dataclass(frozen=True)
class _Axis:
    """A parameter in which cells differ. ``numeric``: its values have an order that a reader thinks in."""

    name: str
    numeric: bool

    def one(self, value: Any) -> str:
        """``64k``, ``iodepth 16``, ``8 clients``, ``reads``."""
        before, after = _UNITS.get(self.name, ("", ""))
        if self.name == "bs":
            return format_size(value)
        if self.numeric:
            single = value == 1 and after.endswith("s")
            return f"{before}{_number(value)}{after.removesuffix('s') if single else after}"
        return f"{before}{value}"

    def bare(self, value: Any) -> str:
        return format_size(value) if self.name == "bs" else _number(value) if self.numeric else str(value)

    def several(self, values: Sequence[Any]) -> str:
        """``4k, 8k and 64k``, ``1, 4 and 8 clients``: the unit once."""
        before, after = _UNITS.get(self.name, ("", ""))
        shown = [self.bare(v) for v in values]
        listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
        return self.one(values[0]) if len(values) == 1 else f"{before}{listed}{after}"


def _number(value: float) -> str:
    return f"{value:,.10g}"


_UNITS: Mapping[str, tuple[str, str]] = {
    "workload": ("workload ", ""), "iodepth": ("iodepth ", ""), "jobs": ("", " jobs"), "clients": ("", " clients"),
    "schemas": ("", " schemas"), "VMs": ("", " VMs"), "rate": ("", " requested IOPS"), "fsync": ("fsync ", ""),
    "fdatasync": ("fdatasync ", ""), "engine": ("engine ", ""), "fault": ("fault ", ""),
}  # fmt: skip
"""Axis -> words before and after its values."""

_LOAD_OF_KIND = {"oltp": "clients", "slob": "schemas"}
_KIN = {"direction": "pattern", "order": "pattern"}
"""Axes that are drawn from another one: they do not compete with it."""


def _values(cell: Cell) -> dict[_Axis, Any]:
    """The parameters of a cell that a sentence can name, by axis."""
    p = cell.params
    values: dict[_Axis, Any] = {_Axis("workload", numeric=False): cell.workload}
    if isinstance(rw := p.get("rw"), str):
        kind = rw.removeprefix("rand")
        mix = p.get("rwmixread")
        if kind in ("read", "write", "rw"):
            words = {"read": "reads", "write": "writes", "rw": "mixes"}
            values[_Axis("direction", numeric=False)] = words[kind]
            values[_Axis("order", numeric=False)] = "random" if rw.startswith("rand") else "sequential"
        values[_Axis("pattern", numeric=False)] = f"{rw} {mix}/{100 - mix}" if isinstance(mix, int) else rw
    numbers = {
        "bs": "bs", "iodepth": "iodepth", "numjobs": _LOAD_OF_KIND.get(cell.kind, "jobs"), "fleet": "VMs",
        "count": "VMs", "rate_iops": "rate", "fsync": "fsync", "fdatasync": "fdatasync",
    }  # fmt: skip
    for key, axis in numbers.items():
        if isinstance(value := p.get(key), int | float) and not isinstance(value, bool):
            values[_Axis(axis, numeric=True)] = value
    for key in ("engine", "fault"):
        if isinstance(value := p.get(key), str):
            values[_Axis(key, numeric=False)] = value
    return values


@dataclass(frozen=True)
class _Row:
    verdict: Verdict
    outcome: Outcome
    values: Mapping[_Axis, Any]


def _described(rows: Sequence[_Row], names: Mapping[Outcome, str]) -> str:
    axes = _axes(rows)
    if found := _one(rows, axes):
        return "; ".join(_clauses(rows, found, names)) + _measured(rows, found)
    best: tuple[int, str] | None = None
    for axis in axes:
        if (text := _two(rows, axis, [a for a in axes if a != axis], names)) and (best is None or text[0] < best[0]):
            best = text
    return best[1] if best else _counted(rows, names)


def _axes(rows: Sequence[_Row]) -> list[_Axis]:
    """The axes that every row has and that differ."""
    every = [axis for axis in rows[0].values if all(axis in row.values for row in rows)] if rows else []
    return [axis for axis in every if len({row.values[axis] for row in rows}) > 1]


def _separates(rows: Sequence[_Row], axis: _Axis) -> bool:
    by_value: dict[Any, set[Outcome]] = {}
    for row in rows:
        by_value.setdefault(row.values[axis], set()).add(row.outcome)
    return all(len(outcomes) == 1 for outcomes in by_value.values())


def _one(rows: Sequence[_Row], axes: Sequence[_Axis]) -> _Axis | None:
    """The axis that separates all outcomes alone; None: there is none, or two do and the cells cannot tell which."""
    found = [axis for axis in axes if _separates(rows, axis)]
    names = {axis.name for axis in found}
    rivals = {_KIN.get(name, name) for name in names}
    if len(rivals) != 1 or len(rows) < 2:
        return None
    return found[0]  # direction before pattern: the shorter words


def _runs(rows: Sequence[_Row], axis: _Axis) -> list[tuple[Outcome, list[Any]]]:
    """Outcome and values of neighbours that share it: in rising order of a number, else in the order of the study."""
    of = {row.values[axis]: row.outcome for row in rows}
    values = sorted(of) if axis.numeric else sorted(of, key=lambda v: (_ORDER.index(of[v]), list(of).index(v)))
    return [(key, list(group)) for key, group in groupby(values, key=of.__getitem__)]


def _clauses(rows: Sequence[_Row], axis: _Axis, names: Mapping[Outcome, str]) -> list[str]:
    """``NVMe/TCP from 8 clients on``, ``iSCSI below``."""
    runs = _runs(rows, axis)
    clauses = []
    for each in _ORDER:
        mine = [n for n, (o, _) in enumerate(runs) if o == each]
        if not mine:
            continue
        if not axis.numeric:
            places = [axis.several(runs[mine[0]][1])]
            clauses.append(f"{names[each]} {'in' if axis.name == 'workload' else 'for'} {places[0]}")
            continue
        places = [_place(runs, n, axis) for n in mine]
        clauses.append(f"{names[each]} {' and '.join(places)}")
    return _below(clauses, runs, axis, names)


def _place(runs: Sequence[tuple[Outcome, list[Any]]], n: int, axis: _Axis) -> str:
    values = runs[n][1]
    if len(values) == 1:
        return f"at {axis.one(values[0])}"
    if n == len(runs) - 1:
        return f"from {axis.one(values[0])} on"
    return f"up to {axis.one(values[-1])}" if n == 0 else f"from {axis.bare(values[0])} to {axis.one(values[-1])}"


def _below(
    clauses: list[str], runs: Sequence[tuple[Outcome, list[Any]]], axis: _Axis, names: Mapping[Outcome, str]
) -> list[str]:
    """The clause of smaller values written as ``below``, where there is one turn and it follows the other clause."""
    if len(runs) == 2 and axis.numeric and len(runs[0][1]) > 1 and len(runs[1][1]) > 1:
        small, large = runs[0][0], runs[1][0]
        return [f"{names[large]} from {axis.one(runs[1][1][0])} on", f"{names[small]} below"]
    return clauses


def _measured(rows: Sequence[_Row], axis: _Axis) -> str:
    """`` (measured at 1, 4, 8 and 16 clients)``: the values behind ``from`` and ``below``."""
    values = sorted({row.values[axis] for row in rows}) if axis.numeric else []
    return f" (measured at {axis.several(values)})" if len(values) > 2 else ""


def _two(
    rows: Sequence[_Row], first: _Axis, others: Sequence[_Axis], names: Mapping[Outcome, str]
) -> tuple[int, str] | None:
    """(number of clauses, sentence): the rows split by ``first``, each part by one other axis; None: it cannot be."""
    of: dict[Any, list[_Row]] = {}
    for row in rows:
        of.setdefault(row.values[first], []).append(row)
    if all(len({row.outcome for row in part}) == 1 for part in of.values()):
        return None  # it separates alone, and so does a rival: see ``_one``
    sentences: dict[str, list[Any]] = {}
    used = 0
    for value in sorted(of) if first.numeric else of:
        part = of[value]
        if len({row.outcome for row in part}) == 1:
            text, n = names[part[0].outcome], 1
        else:
            inner = _one(part, [a for a in others if a in _axes(part)])
            if inner is None or _KIN.get(inner.name, inner.name) == _KIN.get(first.name, first.name):
                return None
            clauses = _clauses(part, inner, names)
            text, n = ", ".join(clauses), len(clauses)
        used += 0 if text in sentences else n
        sentences.setdefault(text, []).append(value)
    if used > _MOST_CLAUSES or len(sentences) < 2:
        return None
    head = {"workload": "in ", "order": ""}.get(first.name, "at " if first.numeric else "for ")
    return used, "; ".join(f"{head}{first.several(values)}: {text}" for text, values in sentences.items())


def _counted(rows: Sequence[_Row], names: Mapping[Outcome, str]) -> str:
    """``NVMe/TCP in 5 of 8 cells; iSCSI at 4k write qd1 and 4k write qd4``: no parameter separates the cells."""
    clauses = []
    for each in _ORDER:
        mine = [row.verdict.cell for row in rows if row.outcome == each]
        if mine and len(mine) <= _NAMED:
            clauses.append(f"{names[each]} at {', '.join(mine)}")
        elif mine:
            clauses.append(f"{names[each]} in {len(mine)} of {len(rows)} cells")
    return "; ".join(clauses)
