"""The platform below the lanes, as a reader wants it: what nodes have in common is said once. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from fairlane.metrics import rounded
from fairlane.report.phrases import count
from fairlane.report.text import flatten, plain

_TOLD = 6
"""Nodes that are named beside a fact; kinds of requests that are."""


def rows(described: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Parameter and value of a run's ``platform``."""
    found: list[tuple[str, str]] = []
    for key, value in described.items():
        if not isinstance(value, Mapping):
            found.append((key, plain(value)))
        elif key == "nodes" and value and all(isinstance(node, Mapping) for node in value.values()):
            found += _nodes(value)
        elif key == "boot_seconds" and (seconds := _numbers(value)):
            ends = rounded(min(seconds.values())), rounded(max(seconds.values()))
            slowest = max(seconds, key=seconds.__getitem__)
            found.append((key, f"{ends[0]} to {ends[1]} s of {count(len(seconds), 'machine')}; longest {slowest}"))
        elif key == "api":
            found += _requests(value)
        else:
            found += flatten({key: value}).items()
    return tuple(found)


def _nodes(nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    yield "nodes", ", ".join(map(str, nodes))
    told = {str(name): flatten(node) for name, node in nodes.items()}
    for key in dict.fromkeys(key for node in told.values() for key in node if key != "name"):
        by_value: dict[str, list[str]] = {}
        for name, node in told.items():
            by_value.setdefault(node.get(key, "not told"), []).append(name)
        if len(by_value) == 1:
            yield f"nodes.{key}", next(iter(by_value))
        else:
            yield f"nodes.{key}", "; ".join(f"{value} ({_named(names)})" for value, names in by_value.items())


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(names[:_TOLD]) + more


def _requests(api: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in api.items():
        if isinstance(value, Mapping) and (counts := _numbers(value)):
            most = sorted(counts, key=lambda kind: -counts[kind])
            told = ", ".join(f"{kind} {rounded(counts[kind])}" for kind in most[:_TOLD])
            rest = sum(counts[kind] for kind in most[_TOLD:])
            more = f", {rounded(rest)} of {len(most) - _TOLD} other kinds" if rest else ""
            yield f"api.{key}", f"{rounded(sum(counts.values()))}: {told}{more}"
        elif value != {}:
            yield from flatten({f"api.{key}": value}).items()


def _numbers(tree: Mapping[Any, Any]) -> dict[str, float]:
    """Empty if one of them is none."""
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in tree.values()):
        return {}
    return {str(key): value for key, value in tree.items()}
