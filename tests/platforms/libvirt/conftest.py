import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.domains import Domains
from testkit.strangers import available
from tests.platforms.libvirt.domains_bench import Room


@pytest.fixture(scope="session")
def domains() -> Iterator[Domains]:
    """Domains vm1 and vm2 of a libvirtd, for all tests of the session."""
    lacking = available() or ("" if shutil.which("libvirtd") else "libvirtd not installed: run make setup")
    if lacking:
        pytest.skip(lacking)
    with Domains("vm1", "vm2") as made:
        yield made


@pytest.fixture
def room(domains: Domains, tmp_path: Path) -> Iterator[Room]:
    """The domains, and a folder for a run on them; fails where a domain is not as it was."""
    made = Room.of(domains, tmp_path)
    before = made.inventory()
    yield made
    assert made.inventory() == before
