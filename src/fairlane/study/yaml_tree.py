"""Read YAML into plain data with line numbers, and refuse YAML features that a study file does not need.

Scalars follow YAML 1.2's core schema, as editors do: ``no``, ``on``, ``1:30``, ``2026-01-01`` are text, ``010`` is 10.
Refused, each with its line: duplicate keys, tabs in the indentation, several documents, tags, merge keys, keys that are
not text, and files whose size, depth or aliases (a "billion laughs") are out of all proportion.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from fairlane.errors import Invalid

MAX_BYTES = 256 * 1024
MAX_NODES = 20_000
MAX_DEPTH = 30

Path = tuple[str | int, ...]
"""Path of a value: ``("lanes", "iscsi", "sessions")``, ``("workloads", "main", "bs", 1)``."""


@dataclass(frozen=True)
class Problem:
    """An error at one line (from 1; 0: the whole file)."""

    kind: str
    line: int
    path: Path
    message: str
    hint: str = ""


@dataclass
class Tree:
    """``data``: mappings, lists, scalars as in JSON. ``lines``: path -> line of its key or item."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """The line of ``path``, or of its nearest parent in the file; 0 if missing."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def at(self, path: Path) -> Any:
        """The value at ``path``; None if missing."""
        value = self.data
        for step in path:
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - the form of PyYAML's own class


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
    ("merge", r"^<<$", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)

IMPLICIT = _Loader.yaml_implicit_resolvers
"""Patterns of unquoted scalars that are not text; for code that writes YAML to be read here."""


def read(text: str) -> Tree:
    """Parse ``text``. Errors are in the tree's ``problems``; ``data`` holds the readable rest."""
    tree = Tree()
    if len(text.encode()) > MAX_BYTES:
        tree.problems.append(
            Problem("study-too-large", 0, (), f"the file is larger than {MAX_BYTES // 1024} KiB: not a study")
        )
        return tree
    for number, row in enumerate(text.split("\n"), start=1):
        if "\t" in row[: len(row) - len(row.lstrip())] and row.strip():
            tree.problems.append(
                Problem("yaml", number, (), "a tab in the indentation", "YAML is indented with spaces")
            )
            return tree
    try:
        node = _Loader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        tree.problems.append(
            Problem("yaml", line, (), f"a character that YAML does not allow (U+{error.character:04X})")
        )
    except yaml.MarkedYAMLError as error:
        tree.problems.append(_syntax(error))
    except RecursionError:
        tree.problems.append(Problem("nested", 0, (), f"nested more than {MAX_DEPTH} levels deep"))
    else:
        if node is None:
            tree.problems.append(Problem("empty", 0, (), "the file is empty", "fairlane init writes a commented study"))
        else:
            tree.lines[()] = node.start_mark.line + 1
            try:
                tree.data = _Builder(tree).value(node, ())
            except _TooMuchError as error:
                tree.problems.append(Problem(error.kind, 0, (), str(error)))
    return tree


def _syntax(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    text = error.problem or "not YAML"
    if "expected a single document" in (error.context or ""):
        return Problem("yaml", line, (), "a second document begins here", "one study per file: remove the '---'")
    hint = f"column {mark.column + 1}" if mark else ""
    if "mapping values are not allowed" in text:
        hint += ": text with ': ' in it must be quoted, and keys of one level must start in the same column"
    return Problem("yaml", line, (), f"not valid YAML: {text}" + (f" ({error.context})" if error.context else ""), hint)


def _number(tag: str, text: str) -> int | float | str:
    """A finite number; anything else stays text (1e999, an explicit tag before a word), which is refused wherever a
    number is expected."""
    try:
        value = int(text) if tag == "int" else float(text)
    except ValueError:
        return text
    return value if len(text) < 20 and math.isfinite(value) else text


class _TooMuchError(Invalid):
    """The document is larger or deeper than any study."""


class _Builder:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.nodes = 0

    def value(self, node: yaml.Node, path: Path) -> Any:
        """The node's value. Aliases are expanded and count each time, so that a billion laughs exceed the limit."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _TooMuchError("too-large", f"more than {MAX_NODES} values, aliases expanded: not a study")
        if len(path) > MAX_DEPTH:
            raise _TooMuchError("nested", f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, yaml.MappingNode):
            return dict(self.items(node, path))
        if isinstance(node, yaml.SequenceNode):
            return [self.item(child, (*path, index)) for index, child in enumerate(node.value)]
        return self.scalar(node, path)

    def item(self, node: yaml.Node, path: Path) -> Any:
        self.tree.lines[path] = node.start_mark.line + 1
        return self.value(node, path)

    def items(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, Any]]:
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag.endswith(":merge"):
                self.complain(line, path, "merge keys (<<) are not supported", "write the keys out")
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag.endswith(":null"):
                self.complain(line, path, "a key must be text")
                continue
            key: str = key_node.value
            here = (*path, key)
            if here in self.tree.lines:
                self.complain(
                    line, here, f"this key is given twice (first in line {self.tree.lines[here]})", "keep one"
                )
                continue
            self.tree.lines[here] = line
            yield key, self.value(value_node, here)

    def scalar(self, node: yaml.Node, path: Path) -> Any:
        text: str = node.value
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" | "float" as tag:
                return _number(tag, text)
            case "str" | "merge":
                return text
            case _:
                self.complain(node.start_mark.line + 1, path, f"the tag {node.tag!r} is not supported", "remove it")
                return None

    def complain(self, line: int, path: Path, message: str, hint: str = "") -> None:
        self.tree.problems.append(Problem("yaml", line, path, message, hint))
