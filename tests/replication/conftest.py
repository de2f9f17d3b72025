"""A study of the fake platform, whose truth is known, carried out once."""

import pytest

from fairlane_replication.judge import Ran
from tests.replication.fakes import STUDY, carried_out


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return carried_out(STUDY, tmp_path_factory.mktemp("replicate") / "run")
