import asyncio
import shutil

import pytest

from fairlane.platforms.lab import image, qemu


@pytest.fixture(scope="session")
def lab_image() -> image.Image:
    """The cached lab image, built once on a new machine."""
    if not shutil.which(qemu.BINARY):
        pytest.skip(f"{qemu.BINARY} is not installed: run make setup")
    return asyncio.run(image.build(print))
