"""dd: one process that reads a device from its start, one block at a time, as fast as it can."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from fairlane.errors import Garbage
from fairlane.records import Cell, Figures
from fairlane.study.base import WorkloadSpec
from fairlane.units import Size, format_size
from fairlane.workloads.base import Invention, Workload

_TOLD = re.compile(r"^(\d+) bytes.* copied, ([0-9.e-]+) s", re.MULTILINE)


class DdSpec(WorkloadSpec):
    """Reads with dd."""

    kind: Literal["dd"]
    """dd of coreutils."""
    bs: Size = 4096
    """Block size."""
    count: int = Field(default=256, ge=1, le=10**6)
    """Blocks per trial."""

    def cells(self, name: str) -> tuple[Cell, ...]:
        return (Cell(name, "dd", f"{format_size(self.bs)} read", {"rw": "read", "bs": self.bs, "count": self.count}),)

    def trial_seconds(self, cell: Cell) -> float:
        return float(cell.params["count"]) / 1000


class Dd(Workload):
    """Outputs: ``dd.err``, where dd tells its rate."""

    Spec = DdSpec
    invents = True
    programs = ("dd",)

    def script(self, cell: Cell, devices: Sequence[str], seed: int) -> str:
        return (
            f"LC_ALL=C dd if={devices[0]} of=/dev/null bs={cell.params['bs']} count={cell.params['count']} 2> dd.err\n"
        )

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        found = _TOLD.search(outputs.get("dd.err", b"").decode(errors="replace"))
        if not found or not float(found[2]):
            raise Garbage("rate-missing", "dd.err tells no rate")
        rate = int(found[1]) / float(found[2])
        return Figures({"bw": rate, "iops": rate / cell.params["bs"]})

    def invented(self, cell: Cell, invention: Invention) -> Mapping[str, bytes]:
        blocks, size = cell.params["count"], cell.params["count"] * cell.params["bs"]
        seconds = blocks * invention.latency / invention.speed / 1e9
        told = f"{blocks}+0 records in\n{blocks}+0 records out\n{size} bytes copied, {seconds:.6f} s, 1 MB/s\n"
        return {"dd.err": told.encode()}

    def writes(self, cell: Cell) -> bool:
        return False


PLUGIN = Dd()
