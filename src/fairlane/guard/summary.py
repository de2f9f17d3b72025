"""The matched-parameter table of a run for the report: which parameters match, which do not. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairlane.guard.matched import Row, Table, sides, table_of
from fairlane.records import Evidence


@dataclass(frozen=True)
class Matched:
    """The matched-parameter table for a reader, the baseline first."""

    labels: tuple[str, ...]
    unequal: tuple[Row, ...]
    """Parameters that differ, are not known, were accepted or need not match."""
    equal: tuple[Row, ...]
    verdict: str
    """The sentence above the table."""
    uncompared: str = ""
    """Why nothing is compared; empty: something is."""


def matched(evidence: Evidence, label: Mapping[str, str]) -> Matched:
    """The table of the run's lanes. ``label``: lane -> its name for readers."""
    table = table_of(evidence)
    table = replace(table, columns=tuple(label.get(name, name) for name in table.columns))
    unequal = tuple(row for row in table.rows if row.status not in ("match", ""))
    equal = tuple(row for row in table.rows if row.status in ("match", ""))
    reason = uncompared(evidence)
    return Matched(table.columns, unequal, equal, reason or _verdict(table), reason)


def uncompared(evidence: Evidence) -> str:
    """Why a run compares nothing, in a sentence; empty: it does compare."""
    by_lane = sides(evidence)
    base = by_lane.pop(evidence.study.baseline)
    if not by_lane:
        label = evidence.study.lanes[base.name].label or base.name
        return f"One lane ({label}): nothing is compared."
    if not any(base.tried & side.tried for side in by_lane.values()):
        return "No lane has trials in a cell of the baseline: nothing is compared."
    return ""


def _verdict(table: Table) -> str:
    """The rows in a sentence or more."""
    sentences = []
    for status, words in (
        ("differs", "Different, or stated for one side only, so verdicts are refused"),
        ("unknown", "Not stated for any lane"),
        ("accepted", "Different or not stated, but accepted with a reason (see the findings)"),
    ):
        if titles := [row.title for row in table.rows if row.status == status]:
            sentences.append(f"{words}: {', '.join(titles)}.")
    return " ".join(sentences) or "All parameters that must match are stated and match."
