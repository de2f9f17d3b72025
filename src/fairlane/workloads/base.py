"""What is run in the guest, and how its raw output is read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from fairlane.errors import Garbage
from fairlane.records import Cell, Figures
from fairlane.study.base import WorkloadSpec

__all__ = ["Garbage", "Workload"]


class Workload(ABC):
    """A workload. ``PLUGIN`` of each file in this package is one instance."""

    Spec: ClassVar[type[WorkloadSpec]]
    packages: ClassVar[tuple[str, ...]] = ()
    """Debian packages that the programs come from."""
    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that the scripts call."""

    @abstractmethod
    def script(self, cell: Cell, device: str, seed: int) -> str:
        """Shell that loads ``device``: starts in an empty folder, leaves its outputs there, exits as the tool did."""

    @abstractmethod
    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        """Read the outputs of ``script``: file name -> content. Raises Garbage."""

    def prepare(self, cell: Cell, device: str) -> str:  # noqa: ARG002
        """Shell that makes the medium ready (prefill), run once before the first trial; empty: nothing to do."""
        return ""
