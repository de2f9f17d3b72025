"""The base of workloads that a study file can describe but that cannot be run yet.

They belong to platforms that cannot be run either (``WorkloadSpec.platforms``), so no run reaches them.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from fairlane.errors import FairlaneError
from fairlane.records import Cell, Figures
from fairlane.workloads.base import Workload


class Described(Workload):
    """Cannot be run; outputs of the tool itself can be imported."""

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:  # noqa: ARG002
        self._refuse(cell)

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:  # noqa: ARG002
        self._refuse(cell)

    def unable(self, cell: Cell, platform: str) -> str:  # noqa: ARG002
        return f"workload {cell.kind!r} can be planned, but not run yet"

    def _refuse(self, cell: Cell) -> NoReturn:
        raise FairlaneError(
            "workload-unsupported",
            self.unable(cell, ""),
            where=f"workloads.{cell.workload}",
            hint="results of the tool itself can be imported: docs/importers.md",
        )
