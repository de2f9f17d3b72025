"""OLTP: HammerDB's TPROC-C, which is like TPC-C, on a database in each machine. Described, not carried out yet."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.records import Cell
from fairlane.study.base import MetricName, WorkloadSpec
from fairlane.units import Duration, Size
from fairlane.workloads._described import Described

_MINUTE = 60 * 10**9
_NAMES = {"mariadb": "MariaDB", "postgresql": "PostgreSQL"}


class OltpSpec(WorkloadSpec):
    """HammerDB's TPROC-C: every combination of the lists is one cell. Each machine has a database of its own on its
    volume, built once, put back before every trial, and a HammerDB of its own; all start together. Described; not
    carried out yet."""

    kind: Literal["oltp"]
    """HammerDB, TPROC-C."""
    database: Literal["mariadb", "postgresql"]
    """The database server."""
    warehouses: int = Field(default=500, ge=1, le=100_000)
    """Warehouses of each database: the size of the data (count_ware)."""
    users: tuple[int, ...] = Field((1, 2, 4, 8, 16, 32, 64), min_length=1)
    """Virtual users of each database, without keying and thinking time. Three and more make a ladder."""
    vms: tuple[int, ...] = Field((1,), min_length=1)
    """Machines, each with a database, in place of the platform's fleet."""
    ramp: Duration = 2 * _MINUTE
    """Time under load before the measurement, whole minutes (rampup)."""
    runtime: Duration = 5 * _MINUTE
    """Time measured, whole minutes (duration)."""
    all_warehouses: bool = False
    """Every transaction takes another warehouse (allwarehouse). Otherwise a user stays in its own, and of many
    warehouses most are never touched: they need no I/O."""
    buffer: Size | None = None
    """The database's cache: innodb_buffer_pool_size, shared_buffers. It decides how much of the load reaches the
    storage; not given: the server's default."""
    disk_size: Size | None = None
    """Size of the volume, in place of the platform's."""
    primary: MetricName = "nopm"
    """The one metric that may be headlined: nopm, which compares between databases, or tpm."""
    platforms = ("kubevirt", "vsphere")

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        for key, values, most in (("users", self.users, 10_000), ("vms", self.vms, 1000)):
            if wrong := [value for value in values if not 1 <= value <= most]:
                raise ValueError(f"{key}: expected 1 to {most}, found {wrong[0]}")
        for key, time in (("ramp", self.ramp), ("runtime", self.runtime)):
            if time % _MINUTE:
                raise ValueError(f"{key}: HammerDB counts whole minutes")
        if not self.runtime:
            raise ValueError("runtime: expected 1m at least")
        return self

    def cells(self, name: str) -> tuple[Cell, ...]:
        common = {
            "database": self.database,
            "warehouses": self.warehouses,
            "ramp": self.ramp,
            "runtime": self.runtime,
            "all_warehouses": self.all_warehouses,
            "buffer": self.buffer,
            "disk_size": self.disk_size,
        }
        points = dict.fromkeys((vms, users) for vms in self.vms for users in self.users)
        return tuple(
            Cell(
                name,
                "oltp",
                f"{_NAMES[self.database]} {vms} VM{'s' * (vms > 1)} x{users}",
                {"fleet": vms, "numjobs": users, **common},
            )
            for vms, users in points
        )

    def known(self, cell: Cell) -> Mapping[str, Any]:
        params = cell.params
        sizes = {"disk_size": params["disk_size"], "database_buffer": params["buffer"]}
        return {
            "tool": "HammerDB",
            "database": _NAMES[self.database],
            "scale": params["warehouses"],
            "all_warehouses": params["all_warehouses"],
            **{key: params[key] for key in ("fleet", "numjobs", "ramp", "runtime")},
            **{key: value for key, value in sizes.items() if value is not None},
        }

    def trial_seconds(self, cell: Cell) -> float:
        return (int(cell.params["ramp"]) + int(cell.params["runtime"])) / 1e9


class Oltp(Described):
    Spec = OltpSpec


PLUGIN = Oltp()
