"""The study file's reference as Markdown, from the model alone: ``tables.py`` writes it to ``docs/study-file.md``."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fairlane.metrics import METRICS
from fairlane.study.schema import json_schema, resolve

_HEAD = """\
<!-- Made by docs/_make/tables.py, and `make lint` keeps it current. Do not edit. -->
# The study file

A study is one YAML file with the storage paths to compare (lanes), the platform, the workloads and the design.
`fairlane init` writes a commented one to start from, and `fairlane study check FILE` lists its errors and the time that
it takes. `fairlane schema > study.schema.json` gives editors completion and checks as you type: put
`# yaml-language-server: $schema=study.schema.json` in the first line.

```yaml
name: sizes
platform: { kind: lab }
baseline: iscsi
lanes:
  iscsi: { transport: iscsi }
  nvme-tcp: { transport: nvme_tcp, queues: 1 }
workloads:
  main: { kind: fio, rw: [randread], bs: [4k, 64k], iodepth: [1, 16], runtime: 500ms, prefill: false }
```

Rules for all keys:

* An unknown or repeated key is an error.
* Durations, sizes and link rates carry their unit: `80us`, `500ms`, `10s`, `5m`; `4k`, `1m`, `16GiB` (powers of 1024);
  `25gbit` (powers of 1000). A number without its unit is refused.
* Scalars follow YAML 1.2: booleans are `true` and `false` only; `yes`, `no`, `on`, `off` are text.
* Limits: 100 lanes, 10,000 cells (lists multiply), 200,000 trials up to the last look; shares of 1000 %;
  quantities below 2^63 of their unit (bytes, ns, bit/s). `.inf`, `.nan` and `1e999` are refused.
* Names (of the study, lanes and workloads) are lower-case letters, digits and dashes, at most 31.
* A study reads nothing from the environment, so it means the same on every machine.
"""


def markdown() -> str:
    """The whole reference, ending with a newline."""
    return "\n".join([_HEAD, *_parts()]).rstrip() + "\n"


def _parts() -> Iterator[str]:
    schema = json_schema()
    keys = schema["properties"]
    yield from _section("## The top level", schema, intro=False)
    yield from _section("## `design`", resolve(keys["design"]))
    lane = next(iter(keys["lanes"]["patternProperties"].values()))
    workload = next(iter(keys["workloads"]["patternProperties"].values()))
    for title, about, union in (
        ("Platforms", "`platform.kind` chooses one of these.", keys["platform"]),
        ("Lanes", "`lanes.NAME.transport` chooses one of these.", lane),
        ("Workloads", "`workloads.NAME.kind` chooses one of these.", workload),
    ):
        yield f"## {title}\n\n{about}\n"
        tag = union["discriminator"]["propertyName"]
        for name in sorted(union["discriminator"]["mapping"]):
            yield from _section(f"### `{tag}: {name}`", resolve(union, {tag: name}))
    yield "## Metrics\n\nFor `primary`, `slo` and `design.margins`.\n"
    yield "| name | what | unit | better | default margin | definition |\n|---|---|---|---|---|---|"
    for m in METRICS.values():
        better = "more" if m.better > 0 else "less"
        yield f"| `{m.name}` | {m.title} | {m.unit} | {better} | {m.margin:.0%} | {_cell(m.definition)} |"


def _section(title: str, schema: Mapping[str, Any], *, intro: bool = True) -> Iterator[str]:
    yield f"{title}\n"
    if intro and schema.get("description"):
        yield f"{schema['description']}\n"
    yield "| key | value | default | meaning |\n|---|---|---|---|"
    yield from _rows(schema, "")
    yield ""


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, raw in schema["properties"].items():
        part = resolve(raw)
        nested, inner = _nested(part, f"{prefix}{name}.") if name != "design" else ({}, "")
        default = "**required**" if name in required else "" if "properties" in part and nested else _default(raw)
        meaning = raw.get("description") or part.get("description", "")
        yield f"| `{prefix}{name}` | {_cell(_kind(raw))} | {default} | {_cell(meaning)} |"
        if nested:
            yield from _rows(nested, inner)


def _nested(part: Mapping[str, Any], prefix: str) -> tuple[Mapping[str, Any], str]:
    """The keys within a key, and their prefix: ``link.``, ``effects.NAME.``; empty if there are none."""
    other = _values(part)
    if part.get("type") == "object" and "properties" in part:
        return part, prefix
    if isinstance(other, Mapping) and "discriminator" not in other and "properties" in (inner := resolve(other)):
        return inner, f"{prefix}NAME."
    return {}, ""


def _values(part: Mapping[str, Any]) -> Any:
    """What the values of an object with any keys are."""
    return next(iter(part.get("patternProperties", {}).values()), part.get("additionalProperties"))


def _default(raw: Mapping[str, Any]) -> str:
    value = raw.get("default")
    if value in ("", {}) or (value is None and resolve(raw).get("type") == "object"):
        return "empty"
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        return "see below"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text.replace(chr(34), '')}`"


def _kind(raw: Mapping[str, Any]) -> str:
    """The kind of value in words: ``a whole number, 1 to 16``; ``a list; each: a size``."""
    part = resolve(raw)
    if "discriminator" in raw:
        text = "one of the parts below"
    elif part.get("enum") == list(METRICS):
        text = "a [metric](#metrics)"
    elif "const" in part or "enum" in part:
        text = ", ".join(f"`{value}`" for value in part.get("enum", [part.get("const")]))
    elif "$comment" in part:  # a quantity: units.py writes the comment
        text = str(part["$comment"]).partition(":")[0]
    elif part.get("type") == "array":
        text = f"a list; each: {_kind(part['items'])}"
    elif part.get("type") == "object":
        text = _kind_of_object(part)
    else:
        text = _PLAIN[part["type"]] + _range(part)
    return "a name" if "pattern" in part and text == "text" else text


_PLAIN = {"integer": "a whole number", "number": "a number", "boolean": "`true`, `false`", "string": "text"}


def _kind_of_object(part: Mapping[str, Any]) -> str:
    if "properties" in part:
        return "keys"
    choices = part.get("propertyNames", {}).get("enum", ())
    name = "names" if not choices else "metrics" if choices[0] in METRICS else "parameters (docs/guard.md)"
    inner = _values(part)
    least = f"; at least {part['minProperties']}" if part.get("minProperties") else ""
    return "keys of the study" if inner is True else f"{name}, each with {_kind(inner)}{least}"


def _range(part: Mapping[str, Any]) -> str:
    words = []
    for key, word in (
        ("minimum", "at least"),
        ("exclusiveMinimum", "more than"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "less than"),
    ):
        if key in part:
            limit = part[key]
            words.append(f"{word} {'2^63' if limit == 2**63 else limit}")
    return ", " + ", ".join(words) if words else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
