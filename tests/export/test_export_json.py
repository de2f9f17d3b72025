"""JSON: one document, whole, valid against a schema, without NaN."""

import dataclasses
import json

import jsonschema
import orjson

from fairlane.export import _gather
from fairlane.export.base import VERSION, iso
from fairlane.verdicts.judged import Judged

_TABLE = {"type": "array", "items": {"type": "object"}}
_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


def plain(value):
    return iso(value) if hasattr(value, "isoformat") else list(value) if isinstance(value, tuple) else value


def document(hostile):
    ((name, data),) = hostile.files("json").items()
    assert name == "fairlane.json"
    return orjson.loads(data)


def test_everything_is_in_it(hostile):
    found = document(hostile)
    assert (found["format"], found["version"]) == ("fairlane-export", VERSION)
    assert found["provenance"] == {name: plain(value) for name, value in hostile.content.provenance.items()}
    for table in hostile.content.tables:
        wanted = [{name: plain(value) for name, value in row.items()} for row in table.records()]
        assert found[table.name] == wanted
    assert list(found) == ["format", "version", "provenance", "columns", *(t.name for t in hostile.content.tables)]


def test_the_columns_it_describes_are_a_schema_of_its_rows(hostile):
    found = document(hostile)
    for name, columns in found["columns"].items():
        assert {column["type"] for column in columns} <= _TYPES
        properties = {
            c["name"]: {"type": [c["type"], "null"], **({"format": c["format"]} if "format" in c else {})}
            for c in columns
        }
        row = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        jsonschema.validate(found[name], {"type": "array", "minItems": 1, "items": row})


def test_a_figure_that_is_no_number_is_null(hostile):
    odd = dataclasses.replace(hostile.verdicts[0], ratio=float("nan"), high=float("inf"))
    content = _gather.gather(_gather.Tables(Judged(hostile.evidence, (odd,), ())))
    text = dataclasses.replace(hostile, content=content).files("json")["fairlane.json"].decode()
    found = json.loads(text, parse_constant=lambda name: 1 / 0)
    assert (found["verdicts"][0]["ratio"], found["verdicts"][0]["high"]) == (None, None)
    assert found["verdicts"][0]["low"] == odd.low
