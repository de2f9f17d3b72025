"""Platforms whose part of a study is settled before anybody carries it out: such a study is checked, and not run.

What a study says of them, and what its lanes and workloads say, is what the platform will be built on. Not a platform.
"""

from collections.abc import AsyncIterator

from fairlane.errors import FairlaneError
from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.records import Block


class Described(Platform):
    """Has no machines, so neither ``open`` nor ``run_block`` can be reached: ``problems`` says so first."""

    described = "its studies are checked and planned, and not carried out yet"

    def problems(self) -> list[FairlaneError]:
        return [
            *self.unfit(),
            FairlaneError(
                f"platform {self.study.platform.kind!r} is described, not carried out yet",
                hint="a study's quick form may run in the lab: --quick; docs/presets.md tells what it stands for",
            ),
        ]

    async def open(self, notify: Notify) -> Opened:  # noqa: ARG002
        raise self.problems()[0]

    def run_block(self, block: Block) -> AsyncIterator[RawTrial]:  # noqa: ARG002
        raise self.problems()[0]
