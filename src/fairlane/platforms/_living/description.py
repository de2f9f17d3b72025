"""What was built on which machines, for the run directory: from facts that were read there. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairlane.fleet.devices import Devices
from fairlane.living.machine import Machine
from fairlane.platforms._living.volumes import Volume

_SHARED = ("kernel", "cpu", "cpus", "memory", "fio", "system")
_IF_ANY = ("postgresql", "mariadb")
"""What only some machines have."""


def described_machines(machines: Sequence[Machine]) -> dict[str, dict[str, Any]]:
    """Machine -> how it is reached, and its facts."""
    return {m.name: {"destination": m.destination, "root": m.root, **m.facts} for m in machines}


def described_lane(
    own: Sequence[Volume], rows: Mapping[str, str], devices: Devices, machines: Sequence[Machine]
) -> dict[str, Any]:
    """A lane's description: its path, what its first volume's steps read back, its machines and their properties as
    parameters (``guard.parameters``)."""
    return {
        "path": list(own[0].path()),
        **rows,
        **devices.description(own),
        "machines": [machine.name for machine in machines],
        "conditions": conditions(machines),
    }


def conditions(machines: Sequence[Machine]) -> dict[str, Any]:
    """Parameters that follow from the machines of a lane; several that differ are listed."""
    values: dict[str, Any] = {"fleet": len(machines)}
    for name, key in (
        ("vm_cpus", "cpus"), ("vm_memory", "memory"), ("guest_kernel", "kernel"), ("host_cpu", "cpu"), ("nics", ""),
    ):  # fmt: skip
        each = [m.facts.get(key, "") if key else nics(m.facts) for m in machines]
        distinct = list(dict.fromkeys(value for value in each if value))
        if len(distinct) == 1 and len([v for v in each if v]) == len(machines):
            text = distinct[0]
            values[name] = int(text) if name in ("vm_cpus", "vm_memory") and text.isdigit() else text
        elif distinct:
            values[name] = ", ".join(distinct)
    return values


def nics(facts: Mapping[str, str]) -> str:
    """Speeds of a machine's connected network interfaces: ``2 x 25000 Mbit/s``."""
    speeds: dict[str, int] = {}
    for key, value in sorted(facts.items()):
        if key.startswith("nic.") and value.startswith("up "):
            speed = value.split()[1]
            speeds[speed] = speeds.get(speed, 0) + 1
    return ", ".join(f"{count} x {speed} Mbit/s" for speed, count in speeds.items())


def fingerprint(machines: Sequence[Machine]) -> dict[str, Any]:
    """Versions that decide whether two runs may be compared: one value where all machines agree."""
    result: dict[str, Any] = {}
    for key in (*_SHARED, *(k for k in _IF_ANY if any(k in m.facts for m in machines))):
        each = {m.name: m.facts.get(key, "unknown") for m in machines}
        distinct = dict.fromkeys(each.values())
        result[key] = next(iter(distinct)) if len(distinct) == 1 else "; ".join(f"{n}: {v}" for n, v in each.items())
    return result
