"""Put the text of job files into a study's text, so that a run directory has all that a resumed run needs.

``job_file: PATH`` becomes ``job_file: |`` with the file's lines below it; the rest of the text stays as it is.
"""

import json
from collections.abc import Callable, Iterator

import yaml

from fairlane.study.yaml_tree import MAX_BYTES, MAX_DEPTH

KEY = "job_file"
_INDENT = 2


def embedded(text: str, read: Callable[[str], str]) -> str:
    """``text`` with every path under ``job_file`` replaced by the text that ``read`` gives for it. Invalid YAML is
    returned unchanged; the next parser reports it. Raises what ``read`` raises."""
    if KEY not in text or len(text.encode()) > MAX_BYTES:
        return text
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return text
    # from the end, so that positions before it stay right
    for key, value in sorted(_paths(root, 0), key=lambda pair: -pair[1].start_mark.index):
        before, after = text[: value.start_mark.index], text[value.end_mark.index :]
        content = read(value.value)
        text = before + _scalar(content, value, key.start_mark.column, after) + after
    return text


def _paths(node: yaml.Node | None, depth: int) -> Iterator[tuple[yaml.ScalarNode, yaml.ScalarNode]]:
    """Key and value of every ``job_file`` that holds a path: text of one line."""
    if depth > MAX_DEPTH or not isinstance(node, yaml.CollectionNode):
        return
    for item in node.value:
        if not isinstance(node, yaml.MappingNode):
            yield from _paths(item, depth + 1)
            continue
        key, value = item
        named = isinstance(key, yaml.ScalarNode) and key.value == KEY
        if named and isinstance(value, yaml.ScalarNode) and value.value.strip() and "\n" not in value.value:
            yield key, value
        yield from _paths(value, depth + 1)


def _scalar(content: str, value: yaml.ScalarNode, column: int, after: str) -> str:
    """``content`` as YAML in place of ``value``: a block of lines where it stands last in its line and no character
    needs escaping, else in quotes."""
    lines = content.splitlines()
    rest = after.partition("\n")[0].strip()
    plain = bool(lines) and all(line.isprintable() and line == line.rstrip() for line in lines)
    if rest or not plain or not lines[0] or lines[0].startswith(" ") or len(lines) < 2:
        return json.dumps(content if "\n" in content else content + "\n", ensure_ascii=False)
    pad = " " * (column + _INDENT)
    path = f"  # {value.value}" if value.value.isprintable() else ""
    return f"|{path}" + "".join(f"\n{pad}{line}" if line else "\n" for line in lines)
