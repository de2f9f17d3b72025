"""Activity of the nodes that carry a fleet: CPU time per I/O of everything that ran there, pressure, disks, NICs.

A snapshot is JSON, node -> what ``platforms.kubevirt.exporter.compact`` kept of its node exporter, or ``failed``: the
reason for no data. The CPU time includes everything: the guests' own, QEMU's, that of initiators in the node's kernel
(which no probe of a guest or of a process sees), of storage daemons where they run on the same nodes, and of whatever
else ran there. Lanes take turns on the same nodes, so other load is in all of them.

Time spent waiting for I/O (iowait) and time that a hypervisor beneath the node took (steal) is not counted.
"""

import json
import math
from collections.abc import Mapping
from operator import sub
from typing import Any, ClassVar

from fairlane.probes._system import largest
from fairlane.probes._threads import ios_of
from fairlane.probes.base import Probe
from fairlane.records import Figures

_BUSY = ("user", "nice", "system", "irq", "softirq")
"""``guest`` is in ``user`` already (kernel: Documentation/filesystems/proc.rst)."""
_IDLE = ("idle", "iowait", "steal")
_TICK = 0.01
"""Step of a counter, s: USER_HZ is 100. The error of a difference of two readings is up to one step, with a variance of
a sixth of its square; the errors of n counters add up to n steps at most, and to 3 sqrt(n/6) in 997 of 1000 cases."""
_LARGEST = 2.0**63

Node = Mapping[str, Any]


class NodeUsage(Probe):
    place = "node"
    capture: ClassVar[str] = ""
    virtual = False

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        first, last = _read(before), _read(after)
        moved = {name: _cpus(first[name], last[name]) for name in first if name in last}
        nodes = {
            name: _between(first.get(name), last.get(name), moved.get(name, {}))
            for name in dict.fromkeys([*first, *last])
        }
        context: dict[str, Any] = {"nodes": nodes} if nodes else {}
        ios = ios_of(load)
        if not ios or len(moved) < len(nodes) or not all(moved.values()):
            return Figures(context=context)  # of all nodes, or of none
        modes = {mode: sum(sum(cpus.get(mode, ())) for cpus in moved.values()) for mode in _BUSY}
        if (total := sum(modes.values())) <= 0:
            return Figures(context=context)
        context["cpu_node"] = {
            "by_mode": {mode: 1e9 * seconds / ios for mode, seconds in modes.items()},
            "window_ios": ios,
        }
        counters = sum(seconds > 0 for cpus in moved.values() for mode in _BUSY for seconds in cpus.get(mode, ()))
        step = _TICK * min(counters, 3 * math.sqrt(counters / 6))
        return Figures({"cpu_per_io_node": 1e9 * total / ios}, {}, context, {"cpu_per_io_node": step / total})


def _between(first: Node | None, last: Node | None, moved: Mapping[str, list[float]]) -> dict[str, Any]:
    """One node's part of the context; ``moved``: of ``_cpus``."""
    if first is None or last is None:
        return {"failed": f"no snapshot {'before' if first is None else 'after'} the load"}
    for snapshot in (first, last):
        if isinstance(reason := snapshot.get("failed"), str):
            return {"failed": reason[:300]}
    if not moved:
        return {"failed": "its counters restarted: the node rebooted, or its CPUs changed"}
    cpus = len(moved["idle"])
    each = [sum(modes) for modes in zip(*(moved[mode] for mode in _BUSY if mode in moved), strict=True)]
    window = (sum(each) + sum(sum(moved.get(mode, ())) for mode in _IDLE)) / cpus
    if not each or window <= 0:
        return {"failed": "its CPU time did not advance"}
    usage: dict[str, Any] = {
        "busy": sum(each) / window / cpus,
        "busiest_cpu": min(1.0, max(each) / window),
        "steal": sum(moved.get("steal", ())) / window / cpus,
        "cpus": cpus,
        "window_ms": 1e3 * window,
    }
    for kind in ("cpu", "io", "memory"):
        if (waited := _rose(_at(first, "pressure", kind), _at(last, "pressure", kind))) is not None:
            usage[f"pressure_{kind}"] = min(1.0, waited / window)
    if (switches := _rose(_at(first, "switches"), _at(last, "switches"))) is not None:
        usage["switches_per_s"] = switches / window
    if (again := _rose(_at(first, "retransmits"), _at(last, "retransmits"))) is not None:
        usage["retransmits"] = int(again)
    return usage | {kind: devices for kind in ("disks", "nics") if (devices := _devices(first, last, kind))}


def _cpus(first: Node, last: Node) -> dict[str, list[float]]:
    """Mode -> seconds of each CPU between the snapshots; empty if they do not match: a CPU was added or
    removed, or the node restarted."""
    earlier, later = first.get("cpu"), last.get("cpu")
    if (
        not isinstance(earlier, dict)
        or not isinstance(later, dict)
        or earlier.keys() != later.keys()
        or "idle" not in later
    ):
        return {}
    moved: dict[str, list[float]] = {}
    cpus = len(later["idle"]) if isinstance(later["idle"], list) else 0
    for mode in (*_BUSY, *_IDLE):
        if mode not in later:
            continue
        begun, ended = _counters(earlier[mode]), _counters(later[mode])
        if not cpus or not len(begun) == len(ended) == cpus:
            return {}
        deltas = list(map(sub, ended, begun))
        if mode in _BUSY and min(deltas) < 0:
            return {}
        moved[mode] = [max(0.0, delta) for delta in deltas]  # idle and iowait are estimates, and may fall
    return moved


def _devices(first: Node, last: Node, kind: str) -> dict[str, Mapping[str, int]]:
    """The devices that carried most, as in ``_system``; ``speed`` of a NIC is in bits per second."""
    earlier, later = first.get(kind), last.get(kind)
    if not isinstance(earlier, dict) or not isinstance(later, dict):
        return {}
    devices: dict[str, Mapping[str, int]] = {}
    for name in later:
        keys = [key for key in (later[name] if isinstance(later[name], dict) else ()) if key != "speed"]
        moved = {key: _rose(_at(earlier, name, key), _at(later, name, key)) for key in keys}
        counts = {key: int(value) for key, value in moved.items() if value is not None}
        if len(counts) == len(keys) and any(counts.values()):
            speed = _at(later, name, "speed")
            devices[name] = {**counts, "speed": int(8 * speed)} if speed else counts
    return largest(devices)


def _read(text: str) -> dict[str, Node]:
    try:
        snapshot = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return (
        {name: node for name, node in snapshot.items() if isinstance(node, dict)} if isinstance(snapshot, dict) else {}
    )


def _at(tree: Any, *path: str) -> float | None:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return _number(tree)


def _number(value: Any) -> float | None:
    """A counter: finite, not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return float(value)


def _counters(values: Any) -> list[float]:
    """A list of counters; empty if one of them is no counter. Checked all at once, because there are thousands in a
    snapshot."""
    if not isinstance(values, list) or not values or not {*map(type, values)} <= {int, float}:
        return []
    if not (min(values) >= 0 and max(values) < _LARGEST) or math.isnan(sum(values)):
        return []
    return values


def _rose(begun: float | None, ended: float | None) -> float | None:
    return ended - begun if begun is not None and ended is not None and ended >= begun else None


PLUGIN = NodeUsage()
