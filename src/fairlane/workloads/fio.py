"""fio: a matrix of access patterns, block sizes and depths."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from fairlane.records import Cell, Figures
from fairlane.study.base import WorkloadSpec
from fairlane.study.units import Duration, Size
from fairlane.workloads.base import Workload

Pattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]


class FioSpec(WorkloadSpec):
    """fio jobs: every combination of the lists is one cell."""

    kind: Literal["fio"]
    """fio, the flexible I/O tester."""
    rw: tuple[Pattern, ...] = Field(("randread",), min_length=1)
    """Access patterns, fio's names."""
    bs: tuple[Size, ...] = Field((4096,), min_length=1)
    """Block sizes."""
    iodepth: tuple[int, ...] = Field((1,), min_length=1)
    """I/Os in flight per job."""
    numjobs: tuple[int, ...] = Field((1,), min_length=1)
    """Jobs (processes) at once; their bins are merged, never averaged."""
    rwmixread: tuple[int, ...] = Field((70,), min_length=1)
    """Share of reads in percent, for the patterns rw and randrw."""
    rate_iops: int | None = Field(None, gt=0)
    """Cap per job for reads and writes together; split by rwmixread, so that 70/30 stays 70/30."""
    engine: Literal["io_uring", "libaio", "psync"] = "io_uring"
    """fio's ioengine. psync has no depth: iodepth must be 1."""
    runtime: Duration = 30 * 10**9
    """Time measured per trial."""
    ramp: Duration = 0
    """Time under load before it, cut off."""
    size: Size | None = None
    """Part of the device that is used, from its start; the whole device if not given."""
    prefill: bool = True
    """Write the whole part once before the first trial. Without it reads may be served as zeros, unmeasured."""

    def cells(self, name: str) -> tuple[Cell, ...]:
        raise NotImplementedError

    def trial_seconds(self, cell: Cell) -> float:  # noqa: ARG002
        return (self.ramp + self.runtime) / 1e9


class Fio(Workload):
    Spec = FioSpec

    def script(self, cell: Cell, device: str, seed: int) -> str:
        raise NotImplementedError

    def observe(self, cell: Cell, outputs: Mapping[str, bytes]) -> Figures:
        raise NotImplementedError


PLUGIN = Fio()
