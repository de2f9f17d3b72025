"""What a running domain is, from its live XML (libvirt: formatdomain): machine type, CPU, memory, pinning. Pure."""

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from fairlane.guard.values import NONE
from fairlane.units import format_size

_UNITS = {"b": 1, "bytes": 1, "KB": 1000, "k": 2**10, "KiB": 2**10, "MB": 10**6, "M": 2**20, "MiB": 2**20,
          "GB": 10**9, "G": 2**30, "GiB": 2**30}  # fmt: skip
_PINNED = {"vcpupin": "vcpu", "emulatorpin": "", "iothreadpin": "iothread"}
"""Element -> its attribute with a number."""


def rows(text: str) -> dict[str, str]:
    """Rows of a lane's description."""
    domain = ElementTree.fromstring(text)  # noqa: S314 - of the hypervisor's own libvirt
    kind, cpu = domain.find("os/type"), domain.find("cpu")
    memory = domain.find("currentMemory")
    size = int(memory.text or 0) * _UNITS.get(memory.get("unit", "KiB"), 0) if memory is not None else 0
    backing, tune = domain.find("memoryBacking/hugepages"), domain.find("numatune/memory")
    pages = [
        f"{page.get('size')} {page.get('unit', 'KiB')}" for page in domain.iterfind("memoryBacking/hugepages/page")
    ]
    return {
        "domain.name": domain.findtext("name", "?"),
        "domain.uuid": domain.findtext("uuid", "?"),
        "domain.type": domain.get("type", "?"),
        "domain.machine": kind.get("machine", "?") if kind is not None else "?",
        "domain.cpu": _cpu(cpu) if cpu is not None else "default",
        "domain.vcpus": domain.findtext("vcpu", "?").strip(),
        "domain.memory": format_size(size) if size else "?",
        "domain.huge_pages": NONE if backing is None else ", ".join(pages) or "default size",
        "domain.numa": NONE if tune is None else f"{tune.get('mode')} {tune.get('nodeset', '')}".strip(),
        "domain.pinning": ", ".join(_pins(domain)) or NONE,
    }


def conditions(described: Mapping[str, str]) -> Mapping[str, Any]:
    """The same as parameters (``guard.parameters``)."""
    return {"cpu_pinning": described["domain.pinning"] != NONE or NONE}


def _cpu(cpu: ElementTree.Element) -> str:
    model = cpu.findtext("model", "")
    topology = cpu.find("topology")
    layout = "" if topology is None else "x".join(topology.get(k, "1") for k in ("sockets", "cores", "threads"))
    return " ".join(word for word in (cpu.get("mode", "custom"), model, layout) if word)


def _pins(domain: ElementTree.Element) -> list[str]:
    """Threads and the CPUs they may run on: ``vcpu 0: 2-3``."""
    pins = []
    for tag, number in _PINNED.items():
        for pin in domain.iterfind(f"cputune/{tag}"):
            name = f"{number} {pin.get(number, '?')}" if number else "emulator"
            pins.append(f"{name}: {pin.get('cpuset', '?')}")
    return pins
