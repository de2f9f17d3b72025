"""``fairlane schema``."""

import json

import jsonschema
import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == Exit.OK
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "lanes" in schema["properties"]
