"""Reduce the OpenAPI documents of KubeVirt and CDI to the part that the tests' API server needs for validation.

    python -m testkit.reduce_openapi FOLDER

FOLDER has kubevirt-openapi.json and cdi-openapi.json, as their projects publish them (api/openapi-spec/swagger.json).
What is written beside this file, in ``openapi``: the types that ``crds.RESOURCES`` reach, with names, types, required
fields and enums, without descriptions.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from testkit.crds import OPENAPI, RESOURCES, SPECIAL, Schema

_KEPT = ("$ref", "enum", "format", "nullable", "pattern", "required", "type")
_LISTS = ("x-kubernetes-list-map-keys", "x-kubernetes-list-type")
_INSIDE = ("additionalProperties", "items")


def reduced(document: Mapping[str, Schema], roots: set[str]) -> dict[str, Schema]:
    """The definitions that ``roots`` need, themselves included, except those with a schema in ``crds``."""
    kept: dict[str, Schema] = {}
    wanted = sorted(roots)
    while wanted:
        name = wanted.pop()
        if name not in kept and name.rsplit(".", 1)[-1] not in SPECIAL:
            kept[name] = bare(document[name])
            wanted += references(kept[name])
    return kept


def bare(schema: Schema) -> Schema:
    """A schema without parts that do not validate."""
    made = {key: schema[key] for key in (*_KEPT, *_LISTS) if key in schema}
    if "properties" in schema:
        made["properties"] = {name: bare(inside) for name, inside in schema["properties"].items()}
    made.update({key: bare(schema[key]) for key in _INSIDE if key in schema})
    return made


def references(schema: Schema) -> Iterator[str]:
    """Names of the definitions that a bare schema refers to."""
    if "$ref" in schema:
        yield schema["$ref"].removeprefix("#/definitions/")
    for inside in (*schema.get("properties", {}).values(), *(schema[key] for key in _INSIDE if key in schema)):
        yield from references(inside)


def written(definitions: Mapping[str, Schema]) -> str:
    """Sorted JSON, one line per property of each definition: small, with short diffs."""
    blocks = []
    for name, schema in sorted(definitions.items()):
        rest = _line({key: value for key, value in schema.items() if key != "properties"})
        rows = [f"    {_line(key)}: {_line(value)}" for key, value in sorted(schema.get("properties", {}).items())]
        properties = ', "properties": {\n' + ",\n".join(rows) + "\n  }" if rows else ""
        blocks.append(f"  {_line(name)}: {rest[:-1]}{properties}}}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def main(folder: Path) -> None:
    for source in sorted({one.source for one in RESOURCES if isinstance(one.source, str)}):
        document = json.loads((folder / f"{source}-openapi.json").read_text())["definitions"]
        roots = {f"{one.version}.{one.kind}" for one in RESOURCES if one.source == source}
        (OPENAPI / f"{source}.json").write_text(written(reduced(document, roots)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
