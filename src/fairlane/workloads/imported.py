"""Figures that another tool measured: its importer reads them once and stores them as a record."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from fairlane.errors import FairlaneError
from fairlane.formats import record
from fairlane.guard.values import Scalar
from fairlane.records import Cell, Figures
from fairlane.study.base import WorkloadSpec
from fairlane.study.strict import Strict
from fairlane.workloads.base import Garbage, Workload


class ImportedCell(Strict):
    """One point that was measured."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9]([A-Za-z0-9 ./%+-]*[A-Za-z0-9%])?$")
    """Readable and unique in its workload: 4k randread qd16."""
    params: dict[str, Scalar] = Field(default_factory=dict)
    """Known parameters of the load, by the names of ``guard.parameters`` (sizes in bytes, times in ns)."""


class ImportedSpec(WorkloadSpec):
    """Cells of imported results."""

    kind: Literal["imported"]
    """Measured by another tool."""
    points: tuple[ImportedCell, ...] = Field(min_length=1)
    """The cells."""

    def cells(self, name: str) -> tuple[Cell, ...]:
        return tuple(dict.fromkeys(Cell(name, "imported", point.name, point.params) for point in self.points))

    def trial_seconds(self, cell: Cell) -> float:
        times: list[Any] = [cell.params.get(key, 0) for key in ("ramp", "runtime")]
        return sum(float(t) for t in times if isinstance(t, int | float)) / 1e9


class Imported(Workload):
    """Outputs: ``record.json``, as ``formats.record`` writes it; imports since packs have none (``runs.units``)."""

    Spec = ImportedSpec

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:  # noqa: ARG002
        raise FairlaneError("imported", f"{cell.name} is imported and cannot be run")

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:  # noqa: ARG002
        try:
            trial = record.read(outputs.get("record.json", b""))
        except ValueError as error:
            raise Garbage("output-damaged", f"record.json: {error}") from None
        return record.figures(trial)


PLUGIN = Imported()
