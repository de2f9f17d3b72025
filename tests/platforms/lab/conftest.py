import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fairlane.platforms.lab import image, qemu


@pytest.fixture(scope="session")
def lab_image() -> Iterator[image.Image]:
    """The cached lab image, built once on a new machine; nobody prunes it meanwhile."""
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    with ExitStack() as held:
        yield asyncio.run(image.build(print, held))
