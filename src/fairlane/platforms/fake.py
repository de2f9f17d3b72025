"""A platform without machines: deterministic figures with chosen true effects and noise, for unit tests and docs."""

from collections.abc import AsyncIterator
from typing import Literal

from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.records import Block
from fairlane.study.base import PlatformSpec


class FakeSpec(PlatformSpec):
    """No machines: figures are invented from the seed, and every report says so."""

    kind: Literal["fake"]
    """Invented figures, for tests and documentation."""

    def workers(self, jobs: int) -> int:
        return jobs


class Fake(Platform):
    Spec = FakeSpec

    async def open(self, notify: Notify) -> Opened:
        raise NotImplementedError

    def run_block(self, block: Block) -> AsyncIterator[RawTrial]:
        raise NotImplementedError


PLUGIN = Fake
