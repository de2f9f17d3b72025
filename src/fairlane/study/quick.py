"""A study's quick form: what its ``quick`` key says instead, for a first try. Pure."""

from collections.abc import Mapping
from typing import Any

from fairlane.study.yaml_tree import Path, Tree

KEY = "quick"
_TAGS: Mapping[tuple[str, int], str] = {("platform", 1): "kind", ("lanes", 2): "transport", ("workloads", 2): "kind"}
"""First key and depth of a part -> the key that says what it is."""


def split(tree: Tree) -> tuple[Tree, Tree | None]:
    """The study without its quick form, and the quick form (None: there is none, or it is no mapping). Lines of what
    the quick form says are those where it says it."""
    if not isinstance(tree.data, dict) or not isinstance(tree.data.get(KEY), dict):
        return tree, None
    whole = {key: value for key, value in tree.data.items() if key != KEY}
    told = tree.data[KEY]
    lines = dict(tree.lines)
    merged = _merged(whole, told, (), lines)
    return Tree(whole, tree.lines, tree.problems), Tree({**merged, KEY: told}, lines, tree.problems)


def _merged(whole: Any, told: Any, at: Path, lines: dict[Path, int]) -> Any:
    """``told`` over ``whole``: mappings key by key, anything else in place of it, and so a part of another kind; null
    takes a key away."""
    if not isinstance(told, Mapping) or not isinstance(whole, Mapping) or _another(whole, told, at):
        _moved(at, lines)
        return told
    out = dict(whole)
    for key, value in told.items():
        if value is None:
            out.pop(key, None)
        elif key in out:
            out[key] = _merged(out[key], value, (*at, key), lines)
        else:
            _moved((*at, key), lines)
            out[key] = value
    return out


def _another(whole: Mapping[str, Any], told: Mapping[str, Any], at: Path) -> bool:
    """``told`` is a platform, lane or workload of another kind than ``whole``."""
    tag = _TAGS.get((str(at[0]), len(at))) if at else None
    return tag is not None and tag in told and told[tag] != whole.get(tag)


def _moved(at: Path, lines: dict[Path, int]) -> None:
    """Everything at ``at`` stands where the quick form has it."""
    for path in [path for path in lines if path[: len(at)] == at]:
        del lines[path]
    whole = (KEY, *at)
    for path in [path for path in lines if path[: len(whole)] == whole]:
        lines[path[1:]] = lines[path]
