"""A study's quick form: the study with the changes under its ``quick`` key, for a first try. Pure."""

from collections.abc import Mapping
from typing import Any

from fairlane.study.yaml_tree import Path, Tree

KEY = "quick"
_TAGS: Mapping[tuple[str, int], str] = {("platform", 1): "kind", ("lanes", 2): "transport", ("workloads", 2): "kind"}
"""First key and depth of a part -> the key that names its kind."""


def split(tree: Tree) -> tuple[Tree, Tree | None]:
    """The study without its quick form, and the quick form (None: missing, or not a mapping). Its values keep the lines
    of the ``quick`` key."""
    if not isinstance(tree.data, dict) or not isinstance(tree.data.get(KEY), dict):
        return tree, None
    whole = {key: value for key, value in tree.data.items() if key != KEY}
    changes = tree.data[KEY]
    lines = dict(tree.lines)
    merged = _merged(whole, changes, (), lines)
    return Tree(whole, tree.lines, tree.problems), Tree({**merged, KEY: changes}, lines, tree.problems)


def _merged(whole: Any, changes: Any, at: Path, lines: dict[Path, int]) -> Any:
    """``whole`` with ``changes``: mappings merge key by key; other values, and parts of another kind, replace; null
    removes a key."""
    if not isinstance(changes, Mapping) or not isinstance(whole, Mapping) or _other_kind(whole, changes, at):
        _moved(at, lines)
        return changes
    out = dict(whole)
    for key, value in changes.items():
        if value is None:
            out.pop(key, None)
        elif key in out:
            out[key] = _merged(out[key], value, (*at, key), lines)
        else:
            _moved((*at, key), lines)
            out[key] = value
    return out


def _other_kind(whole: Mapping[str, Any], changes: Mapping[str, Any], at: Path) -> bool:
    """Whether ``changes`` is a platform, lane or workload of another kind than ``whole``."""
    tag = _TAGS.get((str(at[0]), len(at))) if at else None
    return tag is not None and tag in changes and changes[tag] != whole.get(tag)


def _moved(at: Path, lines: dict[Path, int]) -> None:
    """Set the lines of everything at ``at`` to those in the quick form."""
    for path in [path for path in lines if path[: len(at)] == at]:
        del lines[path]
    whole = (KEY, *at)
    for path in [path for path in lines if path[: len(whole)] == whole]:
        lines[path[1:]] = lines[path]
