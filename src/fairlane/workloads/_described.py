"""Workloads whose part of a study is settled before anybody carries them out. Not a workload.

They belong to platforms that are not carried out either (``WorkloadSpec.platforms``), so that no run can reach them.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from fairlane.errors import FairlaneError
from fairlane.records import Cell, Figures
from fairlane.workloads.base import Workload


class Described(Workload):
    """Cannot be run; what other runs of the tool printed can be imported."""

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:  # noqa: ARG002
        self._refuse(cell)

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:  # noqa: ARG002
        self._refuse(cell)

    def _refuse(self, cell: Cell) -> NoReturn:
        raise FairlaneError(
            f"workload {cell.kind!r} is described, not carried out yet",
            where=f"workloads.{cell.workload}",
            hint="results that the tool itself printed can be imported: docs/importers.md",
        )
