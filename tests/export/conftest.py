"""A real run of the fake platform, through the command line."""

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from tests.export.known_run import STUDY, known


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--unjudged", "--out", str(place / "=done")]) == Exit.OK
    found = known(place / "=done")
    assert {v.verdict for v in found.verdicts} >= {"faster", "inconclusive", "refused"}
    assert any(seen.failed for seen in found.evidence.observations)
    return found
