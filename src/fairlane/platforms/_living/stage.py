"""One trial on machines that belong to somebody."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from fairlane.errors import RunFailed
from fairlane.fleet.stage import Crew, FleetStage
from fairlane.formats import fleet_times
from fairlane.living.machine import Machine
from fairlane.records import Block, FaultKind

if TYPE_CHECKING:
    from fairlane.platforms._living import LivingPlatform


class LivingStage(FleetStage):
    """A trial. Nothing here cuts a path: the network and the array belong to somebody."""

    readonly = True

    def __init__(self, platform: "LivingPlatform", block: Block, lane: str) -> None:
        team = platform.teams[lane]
        own = platform.lanes[lane]
        crew = Crew(
            team.machines, team.watch, team.devices, own, platform.spec.settle / 1e9, partial(platform.broken, lane)
        )
        super().__init__(crew, block, lane, platform.study.workloads[block.cell.workload].trial_seconds(block.cell))

    def _judge(self, seconds: float) -> None:
        planned_end = self._began[-1] + seconds
        times = []
        for guest, machine in enumerate(self.crew.guests):
            start = json.loads(self.outputs[f"{self._prefix(guest)}start.json"])
            began = start["opened"] - start["ahead"] - start["planned"]
            times.append(fleet_times.Times(machine.name, began, start["within"], self._ended[guest] - planned_end))
        emulated = any(m.facts.get("emulated") for m in self.crew.guests if isinstance(m, Machine))
        fleet = fleet_times.judge(times, seconds, emulated=emulated)
        self.outputs["fleet.json"] = json.dumps(fleet).encode()

    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:  # noqa: ARG002
        raise RunFailed("fault-unsupported", f"lane {self.lane}: existing machines cannot inject path failures")

    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        raise RunFailed("clones-unsupported", f"lane {self.lane}: existing machines cannot create {count} clones")
