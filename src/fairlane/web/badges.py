"""Badges: what a reader must know of a run before its first figure, in a word or two."""

from dataclasses import dataclass
from typing import Literal

from fairlane.report.phrases import count


@dataclass(frozen=True)
class Badge:
    """A word beside a run's name, with its meaning."""

    kind: Literal["invented", "modelled", "emulated", "imported", "quick", "incomplete", "critical"]
    text: str
    meaning: str


_MEANING = {
    "invented": "The platform fake makes up its figures. Nothing was measured.",
    "modelled": "Figures of a virtual clock: valid as ratios, not as absolute IOPS or latencies.",
    "emulated": "The guests ran on an emulated processor: absolute figures mean nothing.",
    "imported": "Measured by others, with other tools; Fairlane read their files.",
    "quick": "The short form of the study: decide from the whole one.",
    "incomplete": "Trials of the schedule are missing.",
}


def badges(
    *, invented: bool, modelled: bool, emulated: bool, imported: bool, quick: bool, incomplete: bool, critical: int
) -> tuple[Badge, ...]:
    """The badges of a run. ``critical``: number of its critical findings, 0 if they are not known."""
    on = {
        "invented": invented, "modelled": modelled, "emulated": emulated, "imported": imported, "quick": quick,
        "incomplete": incomplete,
    }  # fmt: skip
    shown = [Badge(kind, kind, _MEANING[kind]) for kind, there in on.items() if there]  # type: ignore[arg-type]
    if critical:
        n = count(critical, "finding")
        shown.append(Badge("critical", f"{critical} critical", f"{n} that can make the answer wrong; see the report."))
    return tuple(shown)
