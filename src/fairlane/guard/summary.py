"""The matched-parameter table of a run for the report: which parameters match, which do not. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairlane.guard.matched import Row, Table, table_of
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


def matched(evidence: Evidence, label: Mapping[str, str]) -> Matched:
    """The table of the run's lanes. ``label``: lane -> its name for readers."""
    table = table_of(evidence)
    table = replace(table, columns=tuple(label.get(name, name) for name in table.columns))
    unequal = tuple(row for row in table.rows if row.status not in ("match", ""))
    equal = tuple(row for row in table.rows if row.status in ("match", ""))
    return Matched(table.columns, unequal, equal, _verdict(table))


def _verdict(table: Table) -> str:
    """The rows in a sentence or more."""
    sentences = []
    for status, words in (
        ("differs", "differ, or are known of one side only, so that verdicts are refused"),
        ("unknown", "are not known of any lane"),
        ("accepted", "do not match, or are not known, and are accepted for a reason that the findings give"),
    ):
        if titles := [row.title for row in table.rows if row.status == status]:
            sentences.append(f"{', '.join(titles)} {words}.")
    compared = any(row.status for row in table.rows)
    if not compared:
        return "No two lanes have a trial in the same cell: nothing was compared."
    return " ".join(sentences) or "All that must match is known and matches."
