"""What QEMU has made of a disk, read from QEMU itself (QMP), and held against the study."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

from fairlane.errors import RunFailed
from fairlane.guard.values import NONE
from fairlane.machines.base import Guest
from fairlane.platforms.libvirt import definition
from fairlane.platforms.libvirt.disks import Plug
from fairlane.study.guest_device import CACHE_MODES

_TIMEOUT = 60.0


async def state(hypervisor: Guest, plug: Plug) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """QEMU's state of a disk, for the lane's description, and as parameters (``guard.parameters``). Raises RunFailed
    where it is not what the study says."""
    scsi = plug.device.bus == "virtio-scsi"
    path = f"/machine/peripheral/{plug.controller(0) if scsi else plug.alias}"
    properties = {
        "thread": "iothread",
        "queues": "num_queues" if scsi else "num-queues",
        "queue_size": "virtqueue_size" if scsi else "queue-size",
        "packed": "packed",
    }
    asked: dict[str, Any] = {
        "blocks": {"execute": "query-block"},
        "version": {"execute": "query-version"},
        **{name: {"execute": "qom-get", "arguments": {"path": path, "property": property_}}
           for name, property_ in properties.items()},
    }  # fmt: skip
    text = "".join(
        f"{plug.virsh} qemu-monitor-command '{plug.domain}' '{json.dumps(command)}' > {name}\n"
        for name, command in asked.items()
    )
    text += f"{plug.virsh} dumpxml '{plug.domain}' > xml\n{plug.virsh} version --daemon > version-of-libvirt\n"
    answers = await hypervisor.ask(text, _TIMEOUT)
    returned = {name: json.loads(answers[name]).get("return") for name in asked}
    xml, said = (answers[name].decode(errors="replace") for name in ("xml", "version-of-libvirt"))
    rows = definition.rows(xml) | of_disk(plug, returned) | of_xml(plug, xml)
    rows["libvirt.version"] = said.partition("daemon:")[2].strip() or "?"
    if wrong := differences(plug, rows):
        raise RunFailed("lane-state", f"disk {plug.serial} differs from the study:\n" + "\n".join(wrong))
    return rows, definition.conditions(rows)


def of_disk(plug: Plug, answers: Mapping[str, Any]) -> dict[str, str]:
    """Rows of a description from QEMU's answers, by name. Pure."""
    used: Mapping[str, Any] = next((b for b in answers["blocks"] or () if _is(b.get("qdev", ""), plug.alias)), {})
    medium = used.get("inserted", {})
    cache = medium.get("cache", {})
    version = (answers["version"] or {}).get("qemu", {})
    return {
        "qemu.version": ".".join(str(version.get(key, "?")) for key in ("major", "minor", "micro")),
        "qemu.format": str(medium.get("drv", "missing")),
        "qemu.cache": next(
            (name for name, flags in CACHE_MODES.items()
             if (cache.get("writeback"), cache.get("direct"), cache.get("no-flush")) == flags),
            ", ".join(f"{key} {str(value).lower()}" for key, value in sorted(cache.items())) or "missing",
        ),
        "qemu.cluster_size": str(medium.get("image", {}).get("cluster-size", NONE)),
        "qemu.read_only": str(medium.get("ro", "missing")).lower(),
        "qemu.detect_zeroes": str(medium.get("detect_zeroes", "missing")),
        **{f"qemu.{qemu}": str(medium.get(qemu, "missing")) for qemu in ("iops", "bps")},
        "qemu.queues": str(answers["queues"]),
        "qemu.queue_size": str(answers["queue_size"]),
        "qemu.packed": str(answers["packed"]).lower(),
        "qemu.io_thread": str(answers["thread"] or "").rpartition("/")[2] or NONE,
    }  # fmt: skip


def of_xml(plug: Plug, text: str) -> dict[str, str]:
    """What only libvirt says of the disk: QEMU reports neither ``aio`` nor the IO threads of several. Pure."""
    for disk in ElementTree.fromstring(text).iterfind("devices/disk"):  # noqa: S314 - of the hypervisor's own libvirt
        alias, driver = disk.find("alias"), disk.find("driver")
        if alias is not None and driver is not None and alias.get("name") == plug.alias:
            threads = [thread.get("id", "?") for thread in driver.iterfind("iothreads/iothread")]
            return {"libvirt.io": driver.get("io", "missing"), "libvirt.iothreads": ", ".join(threads) or NONE}
    return {"libvirt.io": "missing", "libvirt.iothreads": "missing"}


def without_flushes(behind: Mapping[str, Any]) -> dict[str, Any]:
    """``behind`` of a lane in whose disk QEMU drops the guest's flushes, which the guest cannot see; of several
    machines an object by machine. Pure."""
    if "flush" not in behind:
        return {name: without_flushes(tree) if isinstance(tree, Mapping) else tree for name, tree in behind.items()}
    words = "cache unsafe: QEMU drops the guest's flushes. A completed write may be only in the memory of its host."
    return {**behind, "flush": {"write": "memory", "sync": "nothing", "words": words}}


def _is(qdev: str, alias: str) -> bool:
    return alias in qdev.split("/")


def differences(plug: Plug, rows: Mapping[str, str]) -> Iterable[str]:
    """Where ``rows`` are not what the study says."""
    device, threads = plug.device, plug.threads
    expected = {
        "qemu.format": device.format,
        "qemu.cache": device.cache,
        "qemu.read_only": str(plug.read_only).lower(),
        "qemu.queues": str(device.queues),
        "qemu.packed": str(device.packed).lower(),
        **({"qemu.queue_size": str(device.queue_size)} if device.queue_size else {}),
        **({"qemu.cluster_size": str(device.cluster_size)} if device.cluster_size else {}),
        "libvirt.io": device.aio,
        "qemu.detect_zeroes": device.detect_zeroes,
        "qemu.iops": str(plug.limits.get("total_iops_sec", 0)),
        "qemu.bps": str(plug.limits.get("total_bytes_sec", 0)),
    }
    if device.vq_mapping:  # libvirt before 10.0 ignores it
        expected["libvirt.iothreads"] = ", ".join(map(str, threads))
    else:
        expected["qemu.io_thread"] = f"iothread{threads[0]}" if threads else NONE
    return [f"{key} is {rows[key]}, expected {value}" for key, value in expected.items() if rows[key] != value]
