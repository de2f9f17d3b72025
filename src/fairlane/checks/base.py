"""What is wrong with a run, or odd: each check is one file that reads the evidence and says what it found."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlane import registry
from fairlane.records import Evidence, Finding, Severity

_FIRST: tuple[Severity, ...] = ("critical", "warning", "info")


class Check(ABC):
    """A check. ``PLUGIN`` of each file in this package is one instance.

    ``Observation.context`` and ``Evidence.events`` come from outside and from other versions: whatever a check reads
    there may be missing, and is then no finding.
    """

    @abstractmethod
    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """The findings, in any order; nothing found: none. Pure, and raises nothing."""

    @property
    def name(self) -> str:
        """The file's name."""
        return type(self).__module__.rpartition(".")[2]

    def finding(
        self,
        severity: Severity,
        message: str,
        *,
        cells: Sequence[str] = (),
        lanes: Sequence[str] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Finding:
        """A finding of this check. No cells or no lanes: all of them. Reports add cells and lanes that ``message`` does
        not name: one finding per lane and kind says it once for all its cells."""
        return Finding(self.name, severity, message, tuple(cells), tuple(lanes), evidence or {})


def run_all(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of every check, the most severe first, then by check."""
    found = [finding for _, check in registry.every("checks") for finding in check.check(evidence)]
    return tuple(sorted(found, key=lambda f: (_FIRST.index(f.severity), f.check)))
