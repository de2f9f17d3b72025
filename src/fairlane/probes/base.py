"""What is watched while a trial runs: a snapshot before and one after, and a pure reading of the two."""

from abc import ABC, abstractmethod
from typing import ClassVar

from fairlane.records import Figures


class Probe(ABC):
    """A probe. ``PLUGIN`` of each file in this package is one instance."""

    capture: ClassVar[str]
    """Shell that prints one snapshot to stdout; it must work as an unprivileged no-op where a source is missing."""

    @abstractmethod
    def observe(self, before: str, after: str, ios: float) -> Figures:
        """Read two snapshots. ``ios`` is the number of I/Os the workload completed between them, 0 if unknown."""
