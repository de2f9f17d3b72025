"""Turn pydantic's errors into sentences with a line: the expected value, the actual one, the nearest valid one."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from fairlane.errors import nearest
from fairlane.study.schema import json_schema, resolve, step_into
from fairlane.study.yaml_tree import Path, Problem, Tree


@dataclass(frozen=True)
class Form:
    """The schema that a file is validated against."""

    schema: Callable[[], Mapping[str, Any]]
    """Function that returns the JSON Schema."""
    tagged: Mapping[str, int] = field(default_factory=dict)
    """Positions in a pydantic location that hold the chosen plugin's name: ("lanes", "fast", "iscsi", "sessions")."""


STUDY = Form(json_schema, {"platform": 1, "lanes": 2, "workloads": 2})


@dataclass
class _Tree(Tree):
    form: Form = STUDY


_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
}
_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_CHOICES = re.compile(r"'([^']*)'.*\([^():]+: ([^()]+)\)$")
"""A validator's message that ends with the valid values: ``'iscssi' is not a lane (lanes: local, iscsi)``."""

_FEW = 10
"""Most valid values listed besides a suggestion; with more, only the suggestion is printed."""


def explain(error: ValidationError, read: Tree, form: Form = STUDY) -> Iterator[Problem]:
    """One problem per error; ``read`` was validated as ``form``. Errors that only follow from others are left out."""
    tree = _Tree(read.data, read.lines, read.problems, form)
    details = error.errors(include_url=False)
    for detail in details:
        if detail["type"] == "too_short" and _size(tree.at(_path(detail["loc"], tree))) >= detail["ctx"]["min_length"]:
            continue  # pydantic counts the valid items only: the invalid ones are reported already
        yield _problem(dict(detail), tree)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _path(location: tuple[str | int, ...], tree: _Tree) -> Path:
    """The path in the file: without the plugin names and other labels that pydantic adds."""
    tag = tree.form.tagged.get(str(location[0])) if location else None
    steps = [step for index, step in enumerate(location) if index != tag]
    path: Path = ()
    for index, step in enumerate(steps):
        if (*path, step) in tree.lines or (index == len(steps) - 1 and step != "[key]"):
            path = (*path, step)
    return path


def _problem(detail: dict[str, Any], tree: _Tree) -> Problem:
    path = _path(detail["loc"], tree)
    context = detail.get("ctx", {})
    kind: str = detail["type"]
    if kind in _SPECIAL:
        return _SPECIAL[kind](path, context, tree)
    if kind in ("value_error", "assertion_error"):
        return _from_validator(context.get("error"), path, detail["msg"].partition(", ")[2], tree)
    if kind in _KINDS:
        return _wrong_kind(path, _KINDS[kind], tree)
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return Problem("limit", tree.line(path), path, f"expected {words} {context[key]}, found {_show(tree.at(path))}")
    message = detail["msg"].replace("Input should be", "expected")
    return Problem("value", tree.line(path), path, f"{message}, found {_show(tree.at(path))}", _about(path, tree))


def _unknown_key(path: Path, _: Mapping[str, Any], tree: _Tree) -> Problem:
    known = [k for k in _schema(path[:-1], tree).get("properties", {}) if k not in (tree.at(path[:-1]) or {})]
    return Problem("key-unknown", tree.line(path), path, "unknown key", _choose(str(path[-1]), known, "allowed keys"))


def _missing(path: Path, _: Mapping[str, Any], tree: _Tree) -> Problem:
    return Problem(
        "key-missing", tree.line(path[:-1]), path[:-1], f"the key {str(path[-1])!r} is missing", _about(path, tree)
    )


def _no_tag(path: Path, context: Mapping[str, Any], tree: _Tree) -> Problem:
    tag = context["discriminator"].strip("'")
    known = _tags(path, tree)
    return Problem(
        "key-missing", tree.line(path), path, f"the key {tag!r} is missing", f"{tag} is one of: {', '.join(known)}"
    )


def _wrong_tag(path: Path, context: Mapping[str, Any], tree: _Tree) -> Problem:
    tag = context["discriminator"].strip("'")
    what = f"{str(path[0]).removesuffix('s')} kind" if tag == "kind" else tag
    here = (*path, tag)
    message = f"unknown {what} {_show(tree.at(here))}"
    return Problem(
        "kind-unknown", tree.line(here), here, message, _choose(str(context["tag"]), _tags(path, tree), "one of")
    )


def _wrong_value(path: Path, context: Mapping[str, Any], tree: _Tree) -> Problem:
    known = re.findall(r"'([^']*)'", context["expected"]) or [context["expected"]]
    value = tree.at(path)
    message = f"expected {' or '.join(known)}, found {_show(value)}"
    near = nearest(value, known) if isinstance(value, str) else ""
    return Problem("value", tree.line(path), path, message, f"did you mean {near!r}?" if near else "")


def _bad_text(path: Path, _: Mapping[str, Any], tree: _Tree) -> Problem:
    about = "lower-case letters, digits and dashes, at most 31, starting with a letter or digit"
    return Problem(
        "name-invalid",
        tree.line(path),
        path,
        f"expected {about}, found {_show(path[-1] if _is_key(path, tree) else tree.at(path))}",
    )


def _is_key(path: Path, tree: _Tree) -> bool:
    return not isinstance(tree.at(path), str)


def _too_few(path: Path, context: Mapping[str, Any], tree: _Tree) -> Problem:
    count, least = _size(tree.at(path)), context["min_length"]
    message = f"expected at least {least}, found {count}" if count else f"no {path[-1]}: expected at least {least}"
    return Problem("too-few", tree.line(path), path, message, _about(path, tree))


_SPECIAL: dict[str, Callable[[Path, Mapping[str, Any], _Tree], Problem]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "union_tag_not_found": _no_tag,
    "union_tag_invalid": _wrong_tag,
    "literal_error": _wrong_value,
    "string_pattern_mismatch": _bad_text,
    "too_short": _too_few,
}


def _wrong_kind(path: Path, expected: str, tree: _Tree) -> Problem:
    value = tree.at(path)
    if value is None:
        least = _schema(path, tree).get("minProperties")
        if least:
            return _too_few(path, {"min_length": least}, tree)
        return Problem("type", tree.line(path), path, f"expected {expected}, found nothing", _about(path, tree))
    hint = f"write [{value}]" if expected == "a list" and isinstance(value, str | int | float) else _about(path, tree)
    return Problem("type", tree.line(path), path, f"expected {expected}, found {_show(value)}", hint)


def _from_validator(error: object, path: Path, message: str, tree: _Tree) -> Problem:
    """A problem from a validator's error and message, which may begin with the key at fault:
    ``lanes.fast.transport: ...``."""
    kind, hint = getattr(error, "kind", "value"), getattr(error, "hint", "")
    prefix, colon, rest = message.partition(": ")
    for start in (path, ()):
        named = (*start, *prefix.split("."))
        if colon and named in tree.lines:
            path, message = named, rest
            break
    value = tree.at(path)
    complete = "found" in message or " is not " in message or not isinstance(value, str | int | float | list)
    suffix = "" if complete or "\n" in str(value) else f", found {_show(value)}"
    match = _CHOICES.search(message)
    near = nearest(match[1], match[2].split(", ")) if match else ""
    if match and near and len(match[2].split(", ")) > _FEW:
        message = message[: message.rindex(" (")]  # the hint names the nearest one
    return Problem(kind, tree.line(path), path, message + suffix, f"did you mean {near!r}?" if near else hint)


def _schema(path: Path, tree: _Tree) -> Mapping[str, Any]:
    """The part of the JSON Schema for ``path``; empty if missing."""
    root = tree.form.schema()
    schema = resolve(root, tree.data, root)
    for index, step in enumerate(path):
        schema = resolve(step_into(schema, step), tree.at(path[: index + 1]), root)
    return schema


def _tags(path: Path, tree: _Tree) -> list[str]:
    schema = step_into(_schema(path[:-1], tree), path[-1])
    return sorted(schema.get("discriminator", {}).get("mapping", {}))


def _about(path: Path, tree: _Tree) -> str:
    """The key with its description in the schema; empty if missing."""
    schema = _schema(path[:-1], tree) if path else {}
    text = " ".join(step_into(schema, path[-1]).get("description", "").split()) if path else ""
    return f"{path[-1]}: {text}" if text and isinstance(path[-1], str) else ""


def _choose(word: str, known: list[str], what: str) -> str:
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else f"{what}: {', '.join(known)}"


def _show(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return f"keys ({', '.join(map(str, value))})"[:60]
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
