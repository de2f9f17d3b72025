"""The JSON Schema of a study file, and helpers to look keys up in it, for error messages and the reference."""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import SchemaSerializer, core_schema

from fairlane.study.spec import Study

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Defaults as a user writes them (``80us``, not 80000); keys that fit no pattern are wrong; no needless titles;
    descriptions from the fields' docstrings."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        result = super().model_schema(schema)
        for name, value in result.get("properties", {}).items():
            field = schema["cls"].model_fields.get(name)
            of = next((cls for cls in schema["cls"].__mro__ if name in inspect.get_annotations(cls)), None)
            if field and field.description is None and of and (text := _docstrings(of).get(name)):
                value["description"] = text
        return result

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        result = super().default_schema(schema)
        if isinstance(result.get("default"), int | float | list) and "default" in schema:
            result["default"] = SchemaSerializer(schema["schema"]).to_python(schema["default"], mode="json")
        return result

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        result = super().dict_schema(schema)
        return {**result, "additionalProperties": False} if "patternProperties" in result else result

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


@cache
def _docstrings(model: type[Any]) -> dict[str, str]:
    """The text below each field in the source of ``model``; empty where that is not to be had."""
    try:
        (body,) = ast.parse(dedent(inspect.getsource(model))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body.body if isinstance(body, ast.ClassDef) else ())
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


@cache
def json_schema() -> Mapping[str, Any]:
    """JSON Schema, draft 2020-12, of a study file, with every installed transport, workload and platform."""
    return schema_of(Study, "Fairlane study")


def schema_of(model: type[BaseModel], title: str) -> Mapping[str, Any]:
    """JSON Schema of a file that is read as ``model``."""
    return {"$schema": DIALECT, **model.model_json_schema(schema_generator=_Generator), "title": title}


def resolve(schema: Mapping[str, Any], value: Any = None, root: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Follow references; take the alternative that is not null, and in a tagged union the one with ``value``'s tag.

    ``root`` is the whole schema that ``schema`` is a part of; the study's if not given.
    """
    while True:
        if "$ref" in schema:
            target = (root or json_schema())["$defs"][schema["$ref"].removeprefix("#/$defs/")]
            schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
        elif "anyOf" in schema:
            first = next(s for s in schema["anyOf"] if s.get("type") != "null")
            schema = {**first, **{k: v for k, v in schema.items() if k != "anyOf"}}
        elif "discriminator" in schema and isinstance(value, Mapping):
            tagged = schema["discriminator"]
            target = tagged["mapping"].get(value.get(tagged["propertyName"]))
            if target is None:
                return schema
            schema = {"$ref": target}
        else:
            return schema


def step_into(schema: Mapping[str, Any], step: str | int) -> Mapping[str, Any]:
    """The schema of a key or item of ``schema``, not yet resolved; empty if missing."""
    if isinstance(step, int):
        return schema.get("items") or {}
    known = schema.get("properties", {}).get(step)
    patterns = list(schema.get("patternProperties", {}).values())
    other = schema.get("additionalProperties")
    return known or (patterns[0] if patterns else other if isinstance(other, Mapping) else {})
