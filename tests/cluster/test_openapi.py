"""What the repository has of the OpenAPI documents of KubeVirt and CDI is whole, and no more than is needed."""

import json

import pytest

from testkit.crds import OPENAPI, RESOURCES, Schema
from testkit.reduce_openapi import reduced, written


@pytest.mark.parametrize("file", ["kubevirt", "cdi"])
def test_the_types_are_as_the_script_writes_them(file: str) -> None:
    text = (OPENAPI / f"{file}.json").read_text()
    roots = {f"{one.version}.{one.kind}" for one in RESOURCES if one.source == file}
    assert written(reduced(json.loads(text), roots)) == text, "run python -m testkit.reduce_openapi"
    assert len(roots) < text.count("\n  }")


def test_a_document_is_reduced_to_what_validates() -> None:
    reference = {"$ref": "#/definitions/v1.Disk", "default": {}, "description": "long"}
    document: dict[str, Schema] = {
        "v1.Machine": {
            "description": "long", "type": "object", "required": ["disks"],
            "properties": {
                "description": {"type": "string", "description": "a field of that name"},
                "disks": {"type": "array", "items": reference, "x-kubernetes-list-type": "atomic"},
                "memory": {"$ref": "#/definitions/k8s.io.api.Quantity"},
                "by_name": {"type": "object", "additionalProperties": reference},
            },
        },
        "v1.Disk": {"type": "string", "enum": ["a", "b"], "description": "long"},
        "v1.Other": {"type": "object"},
    }  # fmt: skip
    disk = {"$ref": "#/definitions/v1.Disk"}
    assert reduced(document, {"v1.Machine"}) == {
        "v1.Disk": {"type": "string", "enum": ["a", "b"]},
        "v1.Machine": {
            "type": "object", "required": ["disks"],
            "properties": {
                "description": {"type": "string"},
                "disks": {"type": "array", "items": disk, "x-kubernetes-list-type": "atomic"},
                "memory": {"$ref": "#/definitions/k8s.io.api.Quantity"},
                "by_name": {"type": "object", "additionalProperties": disk},
            },
        },
    }  # fmt: skip
