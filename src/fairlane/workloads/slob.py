"""SLOB: Oracle's own I/O, made by the Silly Little Oracle Benchmark of Kevin Closson. Planned, and not run yet."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.records import Cell
from fairlane.study.base import WorkloadSpec
from fairlane.units import Duration, Size, format_size
from fairlane.workloads._described import Described

_SECOND = 10**9


class SlobSpec(WorkloadSpec):
    """SLOB on one Oracle database, whose instances run on all machines of the lane (RAC, if these are several): every
    number of schemas is one cell. Studies are planned; they cannot be run yet."""

    kind: Literal["slob"]
    """SLOB, the Silly Little Oracle Benchmark."""
    schemas: tuple[int, ...] = Field((64,), min_length=1)
    """Schemas over all instances, each with one session (argument of runit.sh)."""
    scale: Size = 80 * 1024**2
    """Data of each schema (SCALE). The sum must be far larger than the instances' caches, or nothing is read."""
    runtime: Duration = 300 * _SECOND
    """Time measured, whole seconds (RUN_TIME). SLOB has no ramp."""
    platforms = ("kubevirt", "vsphere")

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        if wrong := [value for value in self.schemas if not 1 <= value <= 4096]:
            raise ValueError(f"schemas: expected 1 to 4096, found {wrong[0]}")
        if self.runtime % _SECOND or not self.runtime:
            raise ValueError("runtime: expected whole seconds, at least 1s")
        return self

    def cells(self, name: str) -> tuple[Cell, ...]:
        return tuple(
            Cell(name, "slob", f"SLOB x{schemas}", {"numjobs": schemas, "runtime": self.runtime})
            for schemas in dict.fromkeys(self.schemas)
        )

    def known(self, cell: Cell) -> Mapping[str, Any]:
        scale = f"{cell.params['numjobs']} schemas of {format_size(self.scale)}"
        return {"tool": "SLOB", "scale": scale, "ramp": 0, **cell.params}

    def trial_seconds(self, cell: Cell) -> float:
        return int(cell.params["runtime"]) / 1e9


class Slob(Described):
    Spec = SlobSpec


PLUGIN = Slob()
