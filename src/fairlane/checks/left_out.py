"""Files of an import that were left out: unreadable, or copies of another file."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_SHOWN = 20
"""Files that the evidence lists; the others are counted."""


class LeftOut(Check):
    """``left-out`` events with a reason. Events without one are other kinds of files among the results: no finding."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        gone = [e for e in evidence.events if e.get("type") == "left-out" and e.get("reason")]
        if not gone:
            return
        counted = next((e for e in evidence.events if e.get("type") == "files"), {})
        lost = sum(len(_names(event)) or 1 for event in gone)
        read = counted.get("read")
        total = f" of {read + lost}" if isinstance(read, int) else ""
        first = gone[0]
        yield self.finding(
            "left-out",
            "warning",
            f"{lost}{total} files left out of the import: {first.get('where') or 'unnamed'}: "
            f"{first.get('reason')}{f' (and {len(gone) - 1} more)' if len(gone) > 1 else ''}",
            evidence={str(e.get("where")): str(e.get("reason")) for e in gone[:_SHOWN]},
        )


def _names(event: Mapping[str, Any]) -> list[str]:
    names = event.get("files")
    return [str(name) for name in names] if isinstance(names, list) else []


PLUGIN = LeftOut()
