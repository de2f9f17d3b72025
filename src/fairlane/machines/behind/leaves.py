"""Disks, from the facts of their block devices: identity, model, transport. Pure."""

import re
from collections.abc import Mapping

from fairlane.machines.behind.facts import Block, Machine
from fairlane.machines.behind.records import Disk, Layer

_NVME = re.compile(r"nvme(\d+)n(\d+)$")
_HIDDEN = re.compile(r"nvme(\d+)c(\d+)n(\d+)$")
_BY_NAME = (
    ("mmcblk", "mmc"), ("xvd", "xen"), ("nbd", "nbd"), ("rbd", "rbd"), ("drbd", "drbd"), ("pmem", "pmem"),
    ("nullb", "null"), ("zram", "memory"), ("ram", "memory"), ("brd", "memory"), ("zd", "zvol"),
)  # fmt: skip
_BY_FOLDER = (
    ("/session", "iscsi"), ("/rport-", "fc"), ("/usb", "usb"), ("/end_device-", "sas"), ("/ata", "sata"),
    ("/virtio", "virtio-scsi"), ("/vmbus", "hyper-v"), ("/VMBUS", "hyper-v"), ("/xen", "xen"),
    ("/pseudo_", "scsi-debug"), ("/tcm_loop", "tcm-loop"),
)  # fmt: skip
"""Part of the folder of a SCSI disk in /sys/devices -> transport; the first that fits."""


def disk(machine: Machine, block: Block, path: Block | None = None) -> tuple[Disk, Layer | None]:
    """The disk that ``block`` is, and a layer if several paths lead to it. ``path``: of multipath, one of them."""
    facts = path or block
    controllers = _controllers(machine, block)
    transport = _transport(facts, controllers)
    cache = block.get("queue/write_cache")
    node = facts.number("numa_node")
    vendor = facts.get("device/vendor")
    vendor = "" if vendor.startswith("0x") or vendor == "ATA" else vendor  # virtio and Xen give a number
    model = " ".join(filter(None, (vendor, facts.get("device/model"))))
    found = Disk(
        block.name,
        machine.identity(block.name),
        next((c["model"] for c in controllers.values() if c.get("model")), model),
        transport,
        block.bytes,
        block.flag("queue/rotational"),
        cache if cache in ("write back", "write through") else "",
        block.flag("queue/fua"),
        _scheduler(facts.get("queue/scheduler")),
        node if node is not None and node >= 0 else None,
        block.get("removable") == "1",
        block.number("queue/logical_block_size"),
        block.get("ro") == "1",
    )
    if len(controllers) < 2:
        return found, None
    paths = {
        name: f"{c.get('transport', '')} {c.get('address', '')} {c.get('state', '')}" for name, c in controllers.items()
    }
    return found, Layer("nvme-multipath", block.name, paths)


def _controllers(machine: Machine, block: Block) -> Mapping[str, Mapping[str, str]]:
    """NVMe controllers that lead to a namespace, by name."""
    match = _NVME.match(block.name)
    if not match:
        return {}
    names = []
    for other in machine.blocks:
        hidden = _HIDDEN.match(other)
        if hidden and (hidden[1], hidden[3]) == (match[1], match[2]):
            names.append(f"nvme{hidden[2]}")
    if not names:
        names = re.findall(r"/nvme/(nvme\d+)/", block.get("at") + "/")[:1]
    return {name: machine.controllers[name] for name in names if name in machine.controllers}


def _transport(block: Block, controllers: Mapping[str, Mapping[str, str]]) -> str:
    at = block.get("at")
    if block.name.startswith("nvme"):
        way = next((c["transport"] for c in controllers.values() if c.get("transport")), block.get("device/transport"))
        return "nvme" if way in ("", "pcie") else f"nvme-{way}"
    for prefix, transport in _BY_NAME:
        if re.match(rf"{prefix}\d|{prefix}[a-z]*$", block.name):
            return transport
    if block.name.startswith("vd"):
        return "virtio"
    if not block.name.startswith(("sd", "sr")):
        return ""
    if block.get("device/vendor") == "ATA" and "/usb" not in at:
        return "sata"
    return next((transport for part, transport in _BY_FOLDER if part in at), "scsi")


def _scheduler(text: str) -> str:
    match = re.search(r"\[([\w-]+)\]", text)
    return match[1] if match else text
