"""The printed JSON Schema agrees with the model, and the committed reference with both."""

import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from fairlane import registry
from fairlane.study import yaml_tree
from fairlane.study.load import parse_study, presets
from fairlane.study.schema import DIALECT, json_schema

REFERENCE = (Path(__file__).parents[2] / "docs/study-file.md").read_text("utf-8")
"""As committed; the linters keep it current."""


def errors(text: str) -> list[str]:
    validator = jsonschema.Draft202012Validator(json_schema())
    return [error.json_path for error in validator.iter_errors(yaml_tree.read(text).data)]


def test_schema_is_a_valid_schema() -> None:
    assert json_schema()["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("name", sorted(presets()))
def test_presets_fit_the_schema(name: str) -> None:
    assert errors(presets()[name]) == []


@pytest.mark.parametrize("name", sorted(presets()))
def test_a_study_written_back_is_the_same_study(name: str) -> None:
    study = parse_study(presets()[name], name)
    text = yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False)
    assert parse_study(text, name) == study
    assert errors(text) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kind: lab", "kind: lap"),
        ("latency: 80us", "latency: 80"),
        ("transport: iscsi", "transport: iscsi\n    sesions: 1"),
        ("  iscsi:", "  I SCSI:"),
        ("primary: iops", "primary: iosp"),
        ("queues: 1", "queues: many"),
        ("looks: [3]", "looks: 3"),
        ("  # margins:", "  margins: { iosp: 5% } #"),
    ],
)
def test_what_the_model_refuses_the_schema_refuses_too(old: str, new: str) -> None:
    assert old in presets()["demo"]
    assert errors(presets()["demo"].replace(old, new, 1))


def test_defaults_are_written_as_a_user_writes_them() -> None:
    defs = json_schema()["$defs"]
    assert defs["Medium"]["properties"]["latency"]["default"] == "80us"
    assert defs["FioSpec"]["properties"]["bs"]["default"] == ["4k"]
    assert defs["Link"]["properties"]["rate"]["default"] == "25gbit"
    for model in defs.values():
        for part in model["properties"].values():
            if isinstance(part.get("default"), str) and "pattern" in part:
                jsonschema.validate(part["default"], part)


def test_every_key_is_described() -> None:
    schema = json_schema()
    for name, model in {"Study": schema, **schema["$defs"]}.items():
        for key, part in model["properties"].items():
            assert part.get("description"), f"{name}.{key}"


def test_every_plugin_is_in_the_schema_and_in_the_reference() -> None:
    for package, tag in (("lanes", "transport"), ("platforms", "kind"), ("workloads", "kind")):
        for name in registry.names(package):
            assert f"### `{tag}: {name}`" in REFERENCE


def test_importing_the_model_imports_no_plugin() -> None:
    code = "import sys, fairlane.study.spec; print([m for m in sys.modules if m.startswith('fairlane.platforms')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_example_of_the_reference_is_a_study() -> None:
    example = REFERENCE.split("```yaml\n")[1].split("```")[0]
    assert len(parse_study(example, "example").cells()) == 4
