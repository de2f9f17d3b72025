"""The key ``steady`` of workload ``fio``: rounds of load before the first trial."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from fairlane.stats.steady import ROUNDS
from fairlane.study.strict import Strict
from fairlane.units import Duration, Size, format_duration, format_size
from fairlane.workloads._fio_keys import Pattern, within


class Steady(Strict):
    """Preconditioning before the first trial: rounds of one load until steady state, as SNIA's Solid State Storage
    Performance Test Specification defines it (the range of five rounds within 20 % of their mean, their slope within
    10 %)."""

    rw: Pattern = "randwrite"
    """Pattern of the load."""
    bs: Size = 4096
    """Its block size."""
    iodepth: int = Field(default=16, ge=1, le=65536)
    """I/Os in flight."""
    round: Duration = 60 * 10**9
    """Length of a round."""
    limit: Duration = 3600 * 10**9
    """Time after which the trials begin anyway; the report then states that steady state was not reached."""

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        within("bs", (self.bs,), 512, 2**31, multiple=512)
        if self.round < 10**6 or self.round % 10**6:
            raise ValueError("round: expected whole milliseconds, at least 1ms")
        if self.limit < ROUNDS * self.round:
            raise ValueError(
                f"limit: too short for the {ROUNDS} rounds of {format_duration(self.round)} that the test needs"
            )
        return self


def steady_name(steady: Mapping[str, Any]) -> str:
    load = f"{format_size(steady['bs'])} {steady['rw']} qd{steady['iodepth']}"
    return f"{load}, rounds of {format_duration(steady['round'])}"
