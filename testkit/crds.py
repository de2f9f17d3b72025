"""Definitions of the custom resources of KubeVirt, CDI and volume snapshots, for a real API server's validation.

Made from the OpenAPI documents of KubeVirt and CDI, reduced in ``openapi`` by ``reduce_openapi.py``. Admission webhooks
are missing; the real KubeVirt's fill in defaults (machine type, CPU model, disk bus) and reject more than a schema can.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

OPENAPI = Path(__file__).with_name("openapi")

Schema = dict[str, Any]

_FREE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_METADATA: Schema = {**_FREE, "nullable": True}
"""Schema of templates' metadata, as in KubeVirt's definitions. The API server validates the object's own metadata."""

SPECIAL: Mapping[str, Schema] = {
    # The pattern is that of controller-gen.
    "Quantity": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]"
        r"|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": True,
    },
    "IntOrString": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    "ObjectMeta": _METADATA,
    "RawExtension": _FREE,
    "FieldsV1": _FREE,
}
"""Types replaced by schemas of our own, by the last part of their name."""
_FORMATS = {"string": {"date-time"}, "integer": {"int32", "int64"}, "number": {"float", "double"}}


@dataclass(frozen=True)
class Resource:
    """A custom resource. ``source``: the file of ``openapi`` that defines it, or else its schema."""

    group: str
    version: str
    kind: str
    source: str | Schema
    namespaced: bool = True
    status: bool = True

    @property
    def plural(self) -> str:
        return self.kind.lower() + ("es" if self.kind.endswith("s") else "s")


def _object(required: Sequence[str] = (), /, **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer", "format": "int64"}
_YES_NO: Schema = {"type": "boolean"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_REFERENCE = _object(
    apiVersion=_TEXT, kind=_TEXT, name=_TEXT, namespace=_TEXT, uid=_TEXT, resourceVersion=_TEXT, fieldPath=_TEXT
)

# What CDI's published OpenAPI does not contain, after its Go types (pkg/apis/core/v1beta1).
_CLAIM_SETS = _list(_object(accessModes=_list(_TEXT), volumeMode=_TEXT))
_PROFILE: Mapping[str, Schema] = {
    "claimPropertySets": _CLAIM_SETS,
    "cloneStrategy": {"type": "string", "enum": ["copy", "snapshot", "csi-clone"]},
    "dataImportCronSourceFormat": _TEXT,
    "snapshotClass": _TEXT,
}
_CONDITIONS = _list(
    _object(type=_TEXT, status=_TEXT, lastTransitionTime=_TIME, lastHeartbeatTime=_TIME, reason=_TEXT, message=_TEXT)
)
_STORAGE_PROFILE = _object(
    ["spec"],
    spec=_object((), **_PROFILE),
    status=_object((), storageClass=_TEXT, provisioner=_TEXT, conditions=_CONDITIONS, **_PROFILE),
)
_TYPED = _object(["kind", "name"], apiGroup=_TEXT, kind=_TEXT, name=_TEXT)
_VOLUME_CLONE_SOURCE = _object(
    ["spec"], spec=_object(["source"], source=_TYPED, preallocation=_YES_NO, priorityClassName=_TEXT)
)
_VOLUME_IMPORT_SOURCE = _object(
    spec=_object(
        source=_FREE,
        preallocation=_YES_NO,
        contentType=_TEXT,
        targetClaim=_TEXT,
        checkpoints=_list(_FREE),
        finalCheckpoint=_YES_NO,
    ),
    status=_FREE,
)

# After snapshot.storage.k8s.io/v1 of kubernetes-csi/external-snapshotter.
_ERROR = _object(message=_TEXT, time=_TIME)
_SNAPSHOT = _object(
    ["spec"],
    spec=_object(
        ["source"],
        source=_object(persistentVolumeClaimName=_TEXT, volumeSnapshotContentName=_TEXT),
        volumeSnapshotClassName=_TEXT,
    ),
    status=_object(
        boundVolumeSnapshotContentName=_TEXT,
        creationTime=_TIME,
        readyToUse=_YES_NO,
        restoreSize=SPECIAL["Quantity"],
        error=_ERROR,
        volumeGroupSnapshotName=_TEXT,
    ),
)
_DELETION: Schema = {"type": "string", "enum": ["Delete", "Retain"]}
_SNAPSHOT_CLASS = _object(["driver", "deletionPolicy"], driver=_TEXT, deletionPolicy=_DELETION, parameters=_TEXTS)
_SNAPSHOT_CONTENT = _object(
    ["spec"],
    spec=_object(
        ["deletionPolicy", "driver", "source", "volumeSnapshotRef"],
        deletionPolicy=_DELETION,
        driver=_TEXT,
        source=_object(snapshotHandle=_TEXT, volumeHandle=_TEXT),
        sourceVolumeMode=_TEXT,
        volumeSnapshotClassName=_TEXT,
        volumeSnapshotRef=_REFERENCE,
    ),
    status=_object(creationTime=_NUMBER, error=_ERROR, readyToUse=_YES_NO, restoreSize=_NUMBER, snapshotHandle=_TEXT),
)

_TYPES = ("instancetype.kubevirt.io", "v1beta1")
_CDI = ("cdi.kubevirt.io", "v1beta1")
_CSI = ("snapshot.storage.k8s.io", "v1")
RESOURCES = (
    Resource("kubevirt.io", "v1", "VirtualMachine", "kubevirt"),
    Resource("kubevirt.io", "v1", "VirtualMachineInstance", "kubevirt"),
    Resource("kubevirt.io", "v1", "VirtualMachineInstanceMigration", "kubevirt"),
    Resource("kubevirt.io", "v1", "KubeVirt", "kubevirt"),
    Resource(*_TYPES, "VirtualMachineInstancetype", "kubevirt", status=False),
    Resource(*_TYPES, "VirtualMachineClusterInstancetype", "kubevirt", namespaced=False, status=False),
    Resource(*_TYPES, "VirtualMachinePreference", "kubevirt", status=False),
    Resource(*_TYPES, "VirtualMachineClusterPreference", "kubevirt", namespaced=False, status=False),
    Resource(*_CDI, "DataVolume", "cdi"),
    Resource(*_CDI, "DataSource", "cdi"),
    Resource(*_CDI, "CDI", "cdi", namespaced=False),
    Resource(*_CDI, "CDIConfig", "cdi", namespaced=False),
    Resource(*_CDI, "StorageProfile", _STORAGE_PROFILE, namespaced=False),
    Resource(*_CDI, "VolumeCloneSource", _VOLUME_CLONE_SOURCE, status=False),
    Resource(*_CDI, "VolumeImportSource", _VOLUME_IMPORT_SOURCE),
    Resource(*_CSI, "VolumeSnapshot", _SNAPSHOT),
    Resource(*_CSI, "VolumeSnapshotClass", _SNAPSHOT_CLASS, namespaced=False, status=False),
    Resource(*_CSI, "VolumeSnapshotContent", _SNAPSHOT_CONTENT, namespaced=False),
)


def crds() -> list[Schema]:
    """A CustomResourceDefinition for each resource."""
    return [_definition(resource) for resource in RESOURCES]


def _definition(resource: Resource) -> Schema:
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(resource)},
        **({"subresources": {"status": {}}} if resource.status else {}),
    }
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter/pull/665"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}", "annotations": approved},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "versions": [version],
        },
    }


def _root(resource: Resource) -> Schema:
    source = resource.source
    if isinstance(source, str):
        definitions, name = _definitions(source), f"{resource.version}.{resource.kind}"
        source = _structural(definitions[name], definitions, (name,))
    standard: Schema = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}}
    return {**source, "properties": {**source["properties"], **standard}}


@cache
def _definitions(file: str) -> dict[str, Schema]:
    definitions: dict[str, Schema] = json.loads((OPENAPI / f"{file}.json").read_text())
    return definitions


def _structural(schema: Schema, definitions: Mapping[str, Schema], inside: tuple[str, ...]) -> Schema:
    """A structural schema made from OpenAPI v2: no references, one type per field, no recursion.

    Defaults are omitted: all are zero values of Go's types, which no API server fills in. ``inside``: the definitions
    around this part; recursive ones may hold anything from the second level on.
    """
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/definitions/")
        special = SPECIAL.get(name.rsplit(".", 1)[-1])
        if special is not None:
            return special
        if name in inside:
            return _FREE
        return _structural(definitions[name], definitions, (*inside, name))
    made: Schema = {key: schema[key] for key in ("enum", "required", "nullable", "pattern") if key in schema}
    kind = schema["type"]
    if isinstance(kind, list):  # KubeVirt's notation for a nullable value, and for a port that may have a name
        if "null" not in kind:
            return SPECIAL["IntOrString"]
        (kind,), made["nullable"] = [k for k in kind if k != "null"], True
    made["type"] = kind
    if schema.get("format") in _FORMATS.get(kind, ()):
        made["format"] = schema["format"]
    if "properties" in schema:
        made["properties"] = {k: _structural(v, definitions, inside) for k, v in schema["properties"].items()}
    elif "additionalProperties" in schema:
        made["additionalProperties"] = _structural(schema["additionalProperties"], definitions, inside)
    if kind == "array":
        made["items"] = _structural(schema["items"], definitions, inside)
        made.update(_list_type(schema, made["items"]))
    return made


def _list_type(schema: Schema, items: Schema) -> Iterator[tuple[str, Any]]:
    """Properties that make a list a map or a set, if the server accepts them: keys must be required."""
    keys = schema.get("x-kubernetes-list-map-keys", [])
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map" and set(keys) <= set(items.get("required", ())):
        yield "x-kubernetes-list-type", kind
        yield "x-kubernetes-list-map-keys", keys
    elif kind == "atomic" or (kind == "set" and items["type"] != "object"):
        yield "x-kubernetes-list-type", kind
