import asyncio
import shutil
from collections.abc import Iterator

import pytest
from lab_hall import STUDY, Hall, SharedLab, wait_for_room

from fairlane.platforms.lab import qemu
from fairlane.study.load import parse_study


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for the session: what a lab has opened belongs to it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def hall(runner: asyncio.Runner) -> Iterator[SharedLab]:
    """The lab of all tests that leave its machines as they were."""
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    hall = Hall(parse_study(STUDY, "hall.yaml"))
    wait_for_room(hall)
    try:
        yield SharedLab(hall, runner.run(hall.open(print)), runner)
    finally:
        runner.run(hall.close())
