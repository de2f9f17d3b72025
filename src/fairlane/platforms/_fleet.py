"""Blocks on machines that run for a whole provisioning. Not a platform."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.fleet.stage import FleetStage
from fairlane.machines.concurrency import unless
from fairlane.platforms.base import Notify, Platform, RawTrial
from fairlane.records import Block

if TYPE_CHECKING:
    from fairlane.study.spec import Study


class FleetPlatform(Platform):
    """A platform whose lanes take turns on running machines. Derived classes say how machines are lost and healed."""

    def __init__(self, study: "Study") -> None:
        super().__init__(study)
        self.notify: Notify = lambda _: None
        self._broken: set[str] = set()
        """Lanes whose machines must be healed before the next trial."""

    @abstractmethod
    async def begin(self, block: Block) -> None:
        """Makes the lanes ready for a block: new files, new sessions, clocks measured again. Raises RunFailed."""

    @abstractmethod
    def stage(self, block: Block, lane: str) -> FleetStage:
        """The stage of one trial."""

    @abstractmethod
    async def lost(self, lane: str) -> str | RunFailed:
        """Waits until a machine of ``lane`` can no longer be measured; returns the reason."""

    @abstractmethod
    async def heal(self, lanes: Collection[str]) -> None:
        """Makes the machines of ``lanes`` fit again, and all others that are lost. Raises RunFailed."""

    async def explained(self, error: RunFailed, lane: str) -> RunFailed:  # noqa: ARG002
        """``error`` of a trial of ``lane``, with its cause if a machine knows it."""
        return error

    def broken(self, lane: str, reason: str) -> None:
        """Requests that the machines of ``lane`` be healed before the next trial."""
        self.notify(reason)
        self._broken.add(lane)

    async def attended(self, lane: str, work: Coroutine[Any, Any, Any]) -> None:
        """Awaits ``work`` as long as the machines of ``lane`` run; a lost machine never answers. Raises RunFailed."""
        await unless(work, self.lost(lane))

    async def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:
        workload = registry.load("workloads", block.cell.kind)
        for number, lane in enumerate(block.order):
            try:
                if self._broken:
                    await self.heal(self._broken)
                    self._broken.clear()
                if number == 0:
                    await self.attended(lane, self.begin(block))
                stage = self.stage(block, lane)
                await self.attended(lane, workload.drive(block.cell, stage.devices, block.seed, stage))
            except RunFailed as error:
                self._broken.add(lane)
                raise await self.explained(error, lane) from error
            yield RawTrial(lane, stage.outputs, stage.load_seconds)
