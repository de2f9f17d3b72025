"""Controlled parameters that are not proven equal on both sides of a comparison, and the study's rule for each.
Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from fairlane.guard.matched import Difference, Relation, Rules, Side, differences, missed
from fairlane.guard.parameters import UNKNOWN, parameter


@dataclass(frozen=True)
class Setting:
    """Names for messages, and how the sides were measured."""

    names: Mapping[str, str]
    """Cell key -> name."""
    labels: Mapping[str, str]
    """Side -> its name for readers."""
    primary: Mapping[str, str]
    """Cell key -> headline metric, which shows the kind of load."""
    interleaved: bool
    """Whether one run measured all sides; see ``guard.matched.interleaved``."""


@dataclass(frozen=True)
class Case:
    """One controlled parameter in which a side does not provably agree with the baseline."""

    side: str
    name: str
    relation: Relation
    cells: tuple[str, ...]
    text: str
    """``10s on ROKS, unknown on VCF``."""
    alone: tuple[str, str] = ("", "")
    """(label, value) of the side that alone states the parameter in all cells; empty otherwise."""

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
    for difference in differences(side, base):
        if parameter(difference.name).role == "controlled":
            text = difference.describe(first, second, setting.names)
            alone = _alone(difference, first, second)
            yield Case(side.name, difference.name, difference.relation, tuple(difference.cells), text, alone)
    for name, cells in missed(side, base, setting.primary, interleaved=setting.interleaved).items():
        yield Case(side.name, name, "unknown", tuple(cells), f"unknown on {first} and {second}")


def _alone(difference: Difference, first: str, second: str) -> tuple[str, str]:
    """``("ROKS", "10s")``; empty strings where both sides state a value in some cell."""
    ours, theirs = (tuple(dict.fromkeys(pair[n] for pair in difference.cells.values())) for n in (0, 1))
    for label, values, others in ((first, ours, theirs), (second, theirs, ours)):
        if difference.relation == "one-sided" and others == (UNKNOWN,):
            return label, ", ".join(values[:3]) + (", ..." if len(values) > 3 else "")
    return "", ""
