"""vSphere: its studies are planned, and nothing runs."""

import asyncio

import pytest

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.records import Block
from fairlane.study.load import load_study
from tests.words import kind


@pytest.mark.parametrize("name", ["study-001-roce", "study-002-rac"])
def test_nothing_can_be_opened_or_run(name: str) -> None:
    study = load_study(name)[0]
    platform = registry.load("platforms", study.platform.kind).of(study)
    (problem,) = platform.problems()
    assert (problem.kind, repr(study.platform.kind) in problem.message) == ("platform-unsupported", True)

    async def opened() -> None:
        async with platform:
            await platform.open(print)

    with pytest.raises(FairlaneError, check=kind("platform-unsupported")):
        asyncio.run(opened())
    with pytest.raises(FairlaneError, check=kind("platform-unsupported")):
        platform.run_block(Block(study.cells()[0], 0, tuple(study.lanes), 1))
