"""The embedded lab: real Linux storage stacks in small VMs on this machine."""

from collections.abc import AsyncIterator

from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.platforms.lab.spec import LabSpec
from fairlane.records import Block


class Lab(Platform):
    Spec = LabSpec
    modelled = True
    repeats_exactly = True

    async def open(self, notify: Notify) -> Opened:
        raise NotImplementedError

    def run_block(self, block: Block) -> AsyncIterator[RawTrial]:
        raise NotImplementedError


PLUGIN = Lab
