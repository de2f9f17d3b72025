"""SLOB: Oracle's own I/O, made by the Silly Little Oracle Benchmark of Kevin Closson. Described, not carried out yet.

Keys are those of its ``slob.conf``, and so are the defaults (SLOB 2.4.0).
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.records import Cell
from fairlane.study.base import WorkloadSpec
from fairlane.units import Duration, Size
from fairlane.workloads._described import Described

_SECOND = 10**9


class SlobSpec(WorkloadSpec):
    """SLOB on one Oracle database, whose instances run on all machines of the lane (RAC, if these are several): every
    combination of the lists is one cell. Described; not carried out yet."""

    kind: Literal["slob"]
    """SLOB, the Silly Little Oracle Benchmark."""
    schemas: tuple[int, ...] = Field((64,), min_length=1)
    """Schemas, over all instances, each with a user of its own (argument of runit.sh)."""
    threads: int = Field(default=1, ge=1, le=1000)
    """Sessions of each schema (THREADS_PER_SCHEMA)."""
    update_pct: tuple[int, ...] = Field((10,), min_length=1)
    """Percent of the operations that change rows (UPDATE_PCT); the others read them. It is in the cell's name."""
    scan_pct: int = Field(default=0, ge=0, le=100)
    """Percent of the reading operations that scan a table (SCAN_PCT)."""
    scale: Size = 80 * 1024**2
    """Data of each schema (SCALE). The sum must be far larger than the instances' caches, or nothing is read."""
    work_unit: int = Field(default=64, ge=1, le=1024)
    """Blocks of an operation (WORK_UNIT)."""
    redo_stress: Literal["lite", "heavy"] = "lite"
    """How much redo an update makes (REDO_STRESS)."""
    runtime: Duration = 300 * _SECOND
    """Time measured, whole seconds (RUN_TIME). SLOB has no ramp."""
    platforms = ("kubevirt", "vsphere")

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        for key, values, least, most in (("schemas", self.schemas, 1, 4096), ("update_pct", self.update_pct, 0, 100)):
            if wrong := [value for value in values if not least <= value <= most]:
                raise ValueError(f"{key}: expected {least} to {most}, found {wrong[0]}")
        if self.runtime % _SECOND or not self.runtime:
            raise ValueError("runtime: expected whole seconds, at least 1s")
        return self

    def cells(self, name: str) -> tuple[Cell, ...]:
        common = {
            "threads": self.threads,
            "scan_pct": self.scan_pct,
            "scale": self.scale,
            "work_unit": self.work_unit,
            "redo_stress": self.redo_stress,
            "runtime": self.runtime,
        }
        points = dict.fromkeys((schemas, update) for update in self.update_pct for schemas in self.schemas)
        return tuple(
            Cell(
                name,
                "slob",
                f"SLOB updates {update} x{schemas * self.threads}",
                {"numjobs": schemas * self.threads, "schemas": schemas, "update_pct": update, **common},
            )
            for schemas, update in points
        )

    def known(self, cell: Cell) -> Mapping[str, Any]:
        params = cell.params
        own = ("update_pct", "scan_pct", "work_unit", "redo_stress")
        return {
            "tool": "SLOB",
            "scale": f"{params['schemas']} schemas of {params['scale'] // 1024**2} MiB",
            "numjobs": params["numjobs"],
            "ramp": 0,
            "runtime": params["runtime"],
            **{key: params[key] for key in own},
        }

    def trial_seconds(self, cell: Cell) -> float:
        return int(cell.params["runtime"]) / 1e9


class Slob(Described):
    Spec = SlobSpec


PLUGIN = Slob()
