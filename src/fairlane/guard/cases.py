"""Where two sides of a comparison do not provably agree, and what the study says of it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from fairlane.guard.matched import Difference, Relation, Rules, Side, differences, missed
from fairlane.guard.parameters import UNKNOWN, parameter


@dataclass(frozen=True)
class Setting:
    """How the sides are told of, and how they were measured."""

    names: Mapping[str, str]
    """Cell key -> name."""
    labels: Mapping[str, str]
    """Side -> how readers know it."""
    primary: Mapping[str, str]
    """Cell key -> headline metric: tells what kind of load it is."""
    interleaved: bool
    """One run measured all sides; see ``guard.matched.interleaved``."""


@dataclass(frozen=True)
class Case:
    """One controlled parameter in which a side does not provably agree with the baseline."""

    side: str
    name: str
    relation: Relation
    cells: tuple[str, ...]
    said: str
    """``10s on ROKS, unknown on VCF``."""
    alone: tuple[str, str] = ("", "")
    """Where one side alone says it in all cells: its label, and what it says."""

    @property
    def title(self) -> str:
        return parameter(self.name).title

    def fate(self, rules: Rules) -> Literal["refused", "accepted", "varied", "unknown"]:
        if self.name in rules.vary and self.relation != "mixed":
            return "varied"
        if self.name in rules.accept:
            return "accepted"
        return "unknown" if self.relation == "unknown" else "refused"


def cases_of(side: Side, base: Side, setting: Setting) -> Iterator[Case]:
    """Every controlled parameter in which ``side`` does not provably agree with ``base``, or that neither states."""
    first, second = (setting.labels.get(s.name, s.name) for s in (side, base))
    for found in differences(side, base):
        if parameter(found.name).role == "controlled":
            said = found.said(first, second, setting.names)
            alone = _alone(found, first, second)
            yield Case(side.name, found.name, found.relation, tuple(found.cells), said, alone)
    for name, cells in missed(side, base, setting.primary, interleaved=setting.interleaved).items():
        yield Case(side.name, name, "unknown", tuple(cells), f"unknown on {first} and {second}")


def _alone(found: Difference, first: str, second: str) -> tuple[str, str]:
    """``("ROKS", "10s")``; empty where both sides say something, or each in other cells."""
    ours, theirs = (tuple(dict.fromkeys(pair[n] for pair in found.cells.values())) for n in (0, 1))
    for label, values, others in ((first, ours, theirs), (second, theirs, ours)):
        if found.relation == "one-sided" and others == (UNKNOWN,):
            return label, ", ".join(values[:3]) + (", ..." if len(values) > 3 else "")
    return "", ""
