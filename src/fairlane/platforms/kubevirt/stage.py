"""One trial of one lane on machines of a cluster: the load, and clone storms."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fairlane.errors import RunFailed
from fairlane.machines.sessions import Place
from fairlane.machines.stage import Crew, FleetStage
from fairlane.records import Block, FaultKind

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt import Kubevirt


class ClusterStage(FleetStage):
    """The stage of KubeVirt. The cluster owns the paths: no fault of one can be made here."""

    def __init__(self, platform: "Kubevirt", crew: Crew, block: Block, lane: str) -> None:
        super().__init__(crew, block, lane, platform.study.workloads[block.cell.workload].trial_seconds(block.cell))
        self._platform = platform

    async def _watch(self, when: str, guests: Iterable[int], others: Collection[Place]) -> None:
        """The nodes beside the guests: after the last of them, before the first."""
        await super()._watch(when, guests, others)
        if "hypervisor" in others and self._platform.nodes:
            self.outputs |= await self._platform.nodes.around(when)

    async def fault(self, kind: FaultKind, path: int, *, on: bool) -> float:  # noqa: ARG002
        raise RunFailed(f"lane {self.lane}: platform kubevirt cannot fail the {kind} of a path")

    async def clones(self, count: int) -> Sequence[Mapping[str, float]]:
        outcome = await self._platform.storms[self.lane].run(count)
        self.keep("storm.json", outcome.record())
        self.load_seconds = outcome.seconds
        return outcome.vms
