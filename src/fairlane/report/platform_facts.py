"""Rows about the platform below the lanes; facts that all nodes share are one row. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from fairlane.metrics import rounded
from fairlane.report.phrases import count
from fairlane.report.text import flatten, plain

_LISTED = 6
"""Nodes, and kinds of requests, that a row lists; the others are counted."""


def rows(described: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(parameter, value) from the description of a run's ``platform``."""
    result: list[tuple[str, str]] = []
    for key, value in described.items():
        if not isinstance(value, Mapping):
            result.append((key, plain(value)))
        elif key == "nodes" and value and all(isinstance(node, Mapping) for node in value.values()):
            result += _nodes(value)
        elif key == "boot_seconds" and (seconds := _numbers(value)):
            ends = rounded(min(seconds.values())), rounded(max(seconds.values()))
            slowest = max(seconds, key=seconds.__getitem__)
            result.append(
                (key, f"{ends[0]} to {ends[1]} s for {count(len(seconds), 'machine')} to boot; slowest: {slowest}")
            )
        elif key == "api":
            result += _requests(value)
        else:
            result += flatten({key: value}).items()
    return tuple(result)


def _nodes(nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    yield "nodes", ", ".join(map(str, nodes))
    facts = {str(name): flatten(node) for name, node in nodes.items()}
    for key in dict.fromkeys(key for node in facts.values() for key in node if key != "name"):
        by_value: dict[str, list[str]] = {}
        for name, node in facts.items():
            by_value.setdefault(node.get(key, "not told"), []).append(name)
        if len(by_value) == 1:
            yield f"nodes.{key}", next(iter(by_value))
        else:
            yield f"nodes.{key}", "; ".join(f"{value} ({_named(names)})" for value, names in by_value.items())


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _requests(api: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in api.items():
        if isinstance(value, Mapping) and (counts := _numbers(value)):
            most = sorted(counts, key=lambda kind: -counts[kind])
            listed = ", ".join(f"{kind} {rounded(counts[kind])}" for kind in most[:_LISTED])
            rest = sum(counts[kind] for kind in most[_LISTED:])
            more = f", {rounded(rest)} of {len(most) - _LISTED} other kinds" if rest else ""
            yield f"api.{key}", f"{rounded(sum(counts.values()))}: {listed}{more}"
        elif value != {}:
            yield from flatten({f"api.{key}": value}).items()


def _numbers(tree: Mapping[Any, Any]) -> dict[str, float]:
    """The values, if all are numbers; else empty."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in tree.values()):
        return {}
    return {str(key): value for key, value in tree.items()}
