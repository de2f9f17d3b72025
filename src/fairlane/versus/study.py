"""The study that a command line stands for, as the text of a study file. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlane.units import format_duration, format_size
from fairlane.versus.given import Given
from fairlane.versus.plan import SETTLE, Sizes
from fairlane.versus.profiles import Workloads

OF_PATHS = ("volume_mode", "provisioning", "prefill", "disk_size", "copies", "write_ack", "flush", "link_speed",
            "link_delay")  # fmt: skip
"""Parameters in which paths may differ: the subject of the comparison."""
OF_MACHINES = ("vm_cpus", "vm_memory", "guest_kernel", "preempt", "cpu_pinning", "tool_version")
"""Parameters in which the paths' machines differ too."""


@dataclass(frozen=True)
class Options:
    """What else the command line says."""

    seed: int = 1
    buffered: bool = False
    alone: bool = True
    keep_free: float = 0.1
    accept: Mapping[str, str] = field(default_factory=dict)
    destroy: frozenset[str] = frozenset()
    """Identities of devices whose contents may be lost."""


@dataclass(frozen=True)
class Place:
    """One path with what was found out about it."""

    given: Given
    kind: str
    """``directory``, ``file`` or ``device``."""
    identity: str = ""
    """Of a device."""


def text(places: Sequence[Place], workloads: Workloads, sizes: Sizes, options: Options, command: str) -> str:
    """The study file. ``command``: the command line, for its first line."""
    fills = any(p.kind == "directory" for p in places)
    machines = {p.given.machine: p.given.destination for p in places}
    lines = [
        *opening([p.given.lane for p in places], [p.given.label for p in places], sizes, command),
        "platform:",
        "  kind: hosts",
        f"  machines: {_flow(machines)}",
    ]
    if fills and sizes.size:
        lines.append(f"  size: {format_size(sizes.size)}  # of the new file that each directory gets in every round")
    lines.append(f"  settle: {format_duration(round(SETTLE * 1e9))}")
    lines.append("  max_busy: 100%  # the I/O of others is a warning, not a refusal")
    if options.keep_free != 0.1:
        lines.append(f"  keep_free: {options.keep_free:g}")
    if not options.alone:
        lines.append("  alone: false")
    lines += of_lanes({p.given.lane: _lane(p, options, several=len(machines) > 1) for p in places})
    part = any(p.kind != "directory" for p in places)
    lines += of_workloads(workloads, sizes, buffered=options.buffered, part=part)
    vary = [*OF_PATHS, *(OF_MACHINES if len(machines) > 1 else ())]
    lines += of_design(sizes, vary, "the comparison is about these", options.seed, options.accept)
    return "\n".join(lines) + "\n"


# --- parts of the file, for every kind of target


def opening(lanes: Sequence[str], labels: Sequence[str], sizes: Sizes, command: str) -> list[str]:
    """Comments, name and question."""
    question = f"Which is faster: {' or '.join(labels)}?"
    return [
        "# Written by Fairlane. Run it again: fairlane run FILE",
        f"# {' '.join(command.split())}",
        *(f"# {reason}" for reason in sizes.reasons),
        "",
        f"name: {name(lanes)}",
        f"question: {value(question)}",
    ]


def of_lanes(lanes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """``lanes``: name -> keys, the baseline first."""
    rows = [f"  {value(lane)}: {_flow(keys)}" for lane, keys in lanes.items()]
    return [f"baseline: {value(next(iter(lanes)))}", "lanes:", *rows]


def of_workloads(workloads: Workloads, sizes: Sizes, *, buffered: bool, part: bool) -> list[str]:
    """``part``: of a file or disk only its first bytes are used."""
    lines = ["workloads:"]
    for load, keys in workloads.items():
        lines += [f"  {load}:", *_keys(_timed(keys, sizes, buffered=buffered, part=part))]
    return lines


def of_design(sizes: Sizes, vary: Sequence[str], why: str, seed: int, accept: Mapping[str, str]) -> list[str]:
    """``why``: the comment beside ``vary``."""
    lines = [
        "design:",
        f"  seed: {seed}",
        f"  looks: {json.dumps(list(sizes.looks))}",
        f"  vary: [{', '.join(vary)}]  # {why}",
    ]
    if accept:
        lines += ["  accept:", *(f"    {key}: {value(reason)}" for key, reason in accept.items())]
    return lines


def name(lanes: Sequence[str]) -> str:
    """``versus-a-b``: at most 31 characters."""
    room = (31 - len("versus")) // len(lanes) - 1
    if room < 3:
        return f"versus-{len(lanes)}-paths"
    return "-".join(["versus", *(lane[-room:].strip("-") for lane in lanes)])[:31].strip("-")


def _lane(place: Place, options: Options, *, several: bool) -> dict[str, Any]:
    given = place.given
    keys: dict[str, Any] = {"transport": place.kind, "label": given.label}
    if place.kind == "device":
        keys["identity"] = place.identity
        if place.identity in options.destroy:
            keys["destroy"] = place.identity
    else:
        keys["path"] = given.path
    if several:
        keys["machines"] = [given.machine]
    return keys


def _timed(keys: Mapping[str, Any], sizes: Sizes, *, buffered: bool, part: bool) -> dict[str, Any]:
    """The keys of a workload with those of time, size and cache."""
    own: dict[str, Any] = {"kind": "fio", **keys}
    own["runtime"] = format_duration(round(sizes.runtime * 1e9))
    own["ramp"] = format_duration(round(sizes.ramp * 1e9))
    if part and sizes.size and "job_file" not in own:
        own.setdefault("size", format_size(sizes.size))
    if buffered:
        own["direct"] = False
    return own


def _keys(keys: Mapping[str, Any], indent: str = "    ") -> list[str]:
    lines = []
    for key, item in keys.items():
        if isinstance(item, str) and "\n" in item:
            lines += [f"{indent}{key}: |", *(f"{indent}  {line}".rstrip() for line in item.splitlines())]
        elif isinstance(item, Mapping):
            lines += [f"{indent}{key}:", *_keys(item, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {value(item)}")
    return lines


def value(given: Any) -> str:
    """A scalar, list or mapping as YAML in one line. Words that can be nothing else stay bare."""
    if isinstance(given, Mapping):
        return _flow(given)
    if isinstance(given, list | tuple):
        return f"[{', '.join(value(item) for item in given)}]"
    bare = (
        isinstance(given, str)
        and given.isascii()
        and given[:1].isalnum()
        and given.replace("-", "").replace("_", "").isalnum()
    )
    if bare and not given.isdigit() and given.lower() not in _WORDS and not given[0].isdigit():
        return str(given)
    if isinstance(given, str) and _quantity(given):
        return given
    return json.dumps(given, ensure_ascii=False)


_WORDS = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


def _quantity(text: str) -> bool:
    """``4k``, ``1.5s``, ``250ms``: a number with a unit that YAML reads as text."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    return bool(unit) and unit != "e" and number.replace(".", "", 1).isdigit()


def _flow(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{value(key)}: {value(item)}" for key, item in values.items()) + "}"


def machines_differ(places: Sequence[Place]) -> bool:
    """Whether the paths are on different machines, which are then part of the difference."""
    return len({p.given.machine for p in places}) > 1
