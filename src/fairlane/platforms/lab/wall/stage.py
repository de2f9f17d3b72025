"""One trial of one lane on the lab's machines: what the lab can do beside the load, faults and clones."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fairlane.errors import RunFailed
from fairlane.platforms import _script as script
from fairlane.platforms._stage import Crew, FleetStage
from fairlane.platforms.lab.wall import layout
from fairlane.records import Block, FaultKind

if TYPE_CHECKING:
    from fairlane.platforms.lab.wall.lab import WallLab


class LabStage(FleetStage):
    """The stage of the lab's wall clock."""

    def __init__(self, lab: "WallLab", block: Block, lane: str) -> None:
        crew = Crew(lab.guests, lab.watch, lab.devices, lab.lanes[lane], lab.spec.settle / 1e9, lab.broken)
        super().__init__(crew, block, lane, lab.study.workloads[block.cell.workload].trial_seconds(block.cell))
        self.lab = lab
        self.fleet, self.paths = lab.spec.fleet, lab.spec.paths  # of clone storms no guest stands

    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:
        lab = self.lab
        if kind == "link":
            if path >= self.paths or not lab.array_vm:
                raise RunFailed(f"lane {self.lane}: the lab has no link of path {path}")
            # a cable has two ends: guests and array both lose the carrier
            ends = [(vm, layout.interface(path)) for vm in lab.vms]
            ours = layout.array_nics(lab.spec, lab.scratch)  # QEMU 7.2 dies of a link that is plugged and leads nowhere
            ends += [(lab.array_vm, nic.name) for nic in ours if layout.on_path(nic, path)]
            await asyncio.gather(*(vm.link(nic, up=not on) for vm, nic in ends))
            return time.time()
        texts = []
        for volume in lab.lanes[self.lane]:
            step = volume.transport.fault(kind, path, volume.name, volume.spec, volume.site)
            if step is None:
                raise RunFailed(f"lane {self.lane}: {volume.spec.transport} has no fault {kind!r}")
            texts.append(script.run_step(step.name, step.apply if on else step.remove, "$STEP"))
        if not lab.array:
            raise RunFailed(f"lane {self.lane} has no array of the lab's, so that no {kind} of it can fail")
        await lab.array.ask("".join(texts))
        return time.time()

    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        times = await self.lab.storm(self.lane).run(count)
        self.load_seconds = max(vm["answered"] for vm in times)
        return times
