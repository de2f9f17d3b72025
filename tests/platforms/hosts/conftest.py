from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.strangers import Stand, available
from tests.platforms.hosts.strangers_bench import Room


@pytest.fixture(scope="session")
def one_stand() -> Iterator[Stand]:
    """Strangers' machines for all tests of the session: alpha, beta and a furnished storage1."""
    if lacking := available():
        pytest.skip(lacking)
    with Stand() as stand:
        print(f"\nboots took {stand.boot_seconds()} s")
        yield stand


@pytest.fixture
def strangers(one_stand: Stand) -> Iterator[Stand]:
    """The machines as they were when the session began, whatever the test before has done to them."""
    yield one_stand
    one_stand.restore()


@pytest.fixture
def room(strangers: Stand, tmp_path: Path) -> Room:
    """The strangers' machines, and a folder for a run against them."""
    return Room.of(strangers, tmp_path)
