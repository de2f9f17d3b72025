"""Disks of a guest as QEMU's ``-object``, ``-blockdev`` and ``-device``: pure, from lanes and their volumes.

Lanes take turns in one guest, so each has its own IO threads and controllers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlane.fleet.volumes import by_lane
from fairlane.guard.values import NONE
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.study.guest_device import Bus, GuestDevice

Json = Mapping[str, Any]

MODULES: Mapping[Bus, tuple[str, ...]] = {
    "virtio-blk": ("virtio_blk",), "virtio-scsi": ("virtio_scsi", "sd_mod"), "nvme": ("nvme",)
}  # fmt: skip
"""Drivers of the guest's kernel."""
_ON_HOST = ("file", "host_device")
"""QEMU's drivers that have ``aio``: files and block devices of this machine."""

_USER_MTU = 1500
"""MTU of QEMU's user network, through which the hypervisor reaches the array."""


@dataclass(frozen=True)
class Parts:
    """Options of one guest's disks for its command line."""

    objects: tuple[Json, ...] = ()
    blockdevs: tuple[Json, ...] = ()
    devices: tuple[Json, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Files beside the machine's folder that must exist, for their owner alone: name -> content."""


def device(volume: Volume) -> GuestDevice:
    """The guest's device of ``volume``."""
    return volume.spec.device or GuestDevice()


def io_threads(lane: str, spec: GuestDevice, disks: int) -> tuple[str, ...]:
    """QEMU's ids of the IO threads of ``lane`` with ``disks`` disks in a guest."""
    dealt = spec.controllers if spec.bus == "virtio-scsi" else disks
    count = dealt if spec.io_threads == "per-disk" else spec.io_threads
    return tuple(f"io.{lane}.{n}" for n in range(count))


def parts(volumes: Iterable[Volume]) -> Parts:
    """The disks of ``volumes`` (of one guest, each ``emulated``)."""
    objects: list[Json] = []
    blockdevs: list[Json] = []
    devices: list[Json] = []
    secrets: dict[str, str] = {}
    for lane, disks in by_lane(volumes).items():
        spec = device(disks[0])
        threads = io_threads(lane, spec, len(disks))
        objects += [{"qom-type": "iothread", "id": thread} for thread in threads]
        if spec.throttle:
            objects += [{"qom-type": "throttle-group", "id": limit(v), "limits": limits(v)} for v in disks]
        for volume in disks:
            nodes = _nodes(volume, spec)
            blockdevs += nodes
            if name := nodes[0].get("password-secret"):
                objects.append({"qom-type": "secret", "id": name, "file": f"../{name}"})
                secrets[name] = volume.site.secret
        devices += _devices(lane, disks, spec, threads)
    return Parts(tuple(objects), tuple(blockdevs), tuple(devices), secrets)


def _nodes(volume: Volume, spec: GuestDevice) -> list[Json]:
    """Block nodes of a volume, the one that the device uses last."""
    if volume.hosted:
        backend: dict[str, Any] = {"driver": "host_device", "filename": volume.host_device}
    else:
        backend = dict(volume.transport.backend())
    common = {"cache": {"direct": spec.flags.direct, "no-flush": spec.flags.no_flush}, "discard": spec.discard}
    if backend["driver"] in _ON_HOST:
        backend["aio"] = spec.aio
    names = node_names(volume)
    nodes: list[dict[str, Any]] = [backend]
    if spec.format != "raw":
        nodes.append({"driver": spec.format, "file": names[0]})
    if spec.throttle:
        nodes.append({"driver": "throttle", "throttle-group": limit(volume), "file": names[-2]})
    if spec.detect_zeroes != "off":
        nodes[-1]["detect-zeroes"] = spec.detect_zeroes
    return [{**own, **common, "node-name": name} for own, name in zip(nodes, names, strict=True)]


def node_names(volume: Volume) -> tuple[str, ...]:
    """QEMU's names of the block nodes of a volume, one above the other: file, format, limit. The last is ``node``."""
    spec, number = device(volume), volume.site.index
    below = ["f", *(["i"] if spec.format != "raw" else []), *(["t"] if spec.throttle else [])]
    return (*(f"{kind}{number}" for kind in below[:-1]), node(volume))


def limit(volume: Volume) -> str:
    """QEMU's id of the group that throttles ``volume`` alone."""
    return f"limit{volume.site.index}"


def limits(volume: Volume) -> Mapping[str, int]:
    """What the group holds the volume to, by the names of QEMU's ``ThrottleLimits``."""
    spec = volume.spec
    return {
        **({"iops-total": round(spec.cap_iops)} if spec.cap_iops else {}),
        **({"bps-total": round(spec.cap_mibs * 2**20)} if spec.cap_mibs else {}),
    }


def node(volume: Volume) -> str:
    """QEMU's name of the block node that the device of ``volume`` uses."""
    return f"v{volume.site.index}"


def qdev(volume: Volume) -> str:
    """QEMU's id of the device that has the volume's IO thread: the disk's, with virtio-scsi its controller's."""
    spec = device(volume)
    if spec.bus == "virtio-scsi":
        return f"c-{volume.lane}-{volume.disk % spec.controllers}"
    return f"d{volume.site.index}"


def _devices(lane: str, volumes: Sequence[Volume], spec: GuestDevice, threads: Sequence[str]) -> Iterator[Json]:
    if spec.bus == "virtio-scsi":
        for n in range(spec.controllers):
            yield {"driver": "virtio-scsi-pci", "id": f"c-{lane}-{n}", "num_queues": spec.queues,
                   **_virtio(spec, "virtqueue_size"), **_threads(spec, threads, n)}  # fmt: skip
    for n, volume in enumerate(volumes):
        disk: dict[str, Any] = {"id": f"d{volume.site.index}", "drive": node(volume)}
        if spec.block_size != 512:
            disk |= {"logical_block_size": spec.block_size, "physical_block_size": spec.block_size}
        serial = {"serial": volume.serial}
        if not spec.flags.writeback:
            disk["write-cache"] = "off"
        if spec.bus == "virtio-blk":
            yield {"driver": "virtio-blk-pci", **disk, **serial, "num-queues": spec.queues,
                   **_virtio(spec, "queue-size"), **_threads(spec, threads, n)}  # fmt: skip
        elif spec.bus == "virtio-scsi":
            yield {"driver": "scsi-hd", **disk, **serial, "bus": f"{qdev(volume)}.0", "channel": 0,
                   "scsi-id": n // spec.controllers, "lun": 0}  # fmt: skip
        else:
            controller = f"n{volume.site.index}"
            yield {"driver": "nvme", "id": controller, **serial, "max_ioqpairs": spec.queues,
                   "msix_qsize": spec.queues + 1}  # fmt: skip
            yield {"driver": "nvme-ns", **disk, "bus": controller}


def _virtio(spec: GuestDevice, size: str) -> Json:
    """Keys of virtio's queues; ``size``: the name that the device has for their entries."""
    return {**({size: spec.queue_size} if spec.queue_size else {}), **({"packed": True} if spec.packed else {})}


def _threads(spec: GuestDevice, threads: Sequence[str], number: int) -> Json:
    """IO threads of disk or controller ``number``."""
    if not threads:
        return {}
    if spec.vq_mapping:
        return {"iothread-vq-mapping": [{"iothread": thread} for thread in threads]}
    return {"iothread": threads[number % len(threads)]}


def functions(volumes: Iterable[Volume]) -> int:
    """PCI functions that the disks of ``volumes`` (of one guest) take."""
    lanes = by_lane(volumes).values()
    return sum(device(v[0]).controllers if device(v[0]).bus == "virtio-scsi" else len(v) for v in lanes)


def files(volumes: Iterable[Volume]) -> Parts:
    """The array's disks for volumes whose media are files ``mediumN`` in the folder of the run, beside its own."""
    blockdevs: list[Json] = []
    devices: list[Json] = []
    for volume in volumes:
        name = f"m{volume.site.index}"
        file = f"../medium{volume.site.index}"
        blockdevs.append({"driver": "file", "filename": file, "node-name": name, "aio": "threads"})
        devices.append({"driver": "virtio-blk-pci", "drive": name, "serial": volume.medium_serial})
    return Parts((), tuple(blockdevs), tuple(devices))


@dataclass(frozen=True)
class DiskState:
    """QEMU's state of one disk, and its differences from the study."""

    rows: Mapping[str, str]
    conditions: Mapping[str, Any]
    """Actual values of parameters (``guard.parameters``)."""
    wrong: tuple[str, ...]


def disk_state(volume: Volume, nodes: Iterable[Json], threads: Iterable[str], thread: str) -> DiskState:
    """The state of ``volume`` from QEMU's answers: ``query-named-block-nodes``, ids of ``query-iothreads``, and the
    path of the IO thread of the device ``qdev`` (empty: none).

    ``aio`` cannot be read back: QEMU does not report it, but refuses to start with one that it does not support.
    """
    spec = device(volume)
    by_name = {item["node-name"]: item for item in nodes}
    used = by_name.get(node(volume), {})
    names = (f"f{volume.site.index}", f"i{volume.site.index}", node(volume))  # whatever the study says is there
    found = [by_name[name] for name in names if name in by_name]
    below, *formats = [item for item in found if item["drv"] != "throttle"] or [{}]
    lane = io_threads(volume.lane, spec, 1 + volume.disk)
    number = volume.disk % spec.controllers if spec.bus == "virtio-scsi" else volume.disk
    expected = lane[number % len(lane)] if lane else ""
    cache = used.get("cache", {})
    clusters = formats[0].get("image", {}).get("cluster-size") if formats else None
    rows = {
        "qemu.backend": str(below.get("drv", "missing")),
        "qemu.format": str(formats[0].get("drv")) if formats else "raw",
        "qemu.cluster_size": str(clusters or NONE),
        "qemu.detect_zeroes": str(used.get("detect_zeroes", "missing")),
        "qemu.cache": ", ".join(key for key in ("direct", "no-flush", "writeback") if cache.get(key)) or "through",
        "qemu.io_thread": thread.rpartition("/")[2] or NONE,
        "qemu.io_threads": " ".join(t for t in sorted(threads) if t.startswith(f"io.{volume.lane}.")) or NONE,
    }
    wrong = []
    if rows["qemu.format"] != spec.format:
        wrong.append(f"qemu.format is {rows['qemu.format']}, expected {spec.format}")
    if spec.cluster_size and clusters != spec.cluster_size:
        wrong.append(f"qemu.cluster_size is {rows['qemu.cluster_size']}, expected {spec.cluster_size}")
    if rows["qemu.detect_zeroes"] != spec.detect_zeroes:
        wrong.append(f"qemu.detect_zeroes is {rows['qemu.detect_zeroes']}, expected {spec.detect_zeroes}")
    if (cache.get("direct"), cache.get("no-flush")) != (spec.flags.direct, spec.flags.no_flush):
        wrong.append(f"qemu.cache is {rows['qemu.cache']}, expected cache {spec.cache}")
    if not spec.vq_mapping and rows["qemu.io_thread"] != (expected or NONE):
        wrong.append(f"qemu.io_thread is {rows['qemu.io_thread']}, expected {expected or NONE}")
    if missing := set(lane if spec.io_threads != "per-disk" else (expected,)) - {*rows["qemu.io_threads"].split(), ""}:
        wrong.append(f"qemu.io_threads lacks {', '.join(sorted(missing))}")
    conditions: dict[str, Any] = {} if below.get("drv") in _ON_HOST else {"aio": NONE}
    if volume.site.reach:
        conditions["mtu"] = _USER_MTU
    return DiskState(rows, conditions, tuple(wrong))


def properties(volume: Volume) -> Iterator[tuple[str, str, Any]]:
    """Path, name and expected value of QEMU's properties that the study sets beside the usual ones."""
    spec, there = device(volume), f"/machine/peripheral/{qdev(volume)}"
    if spec.queue_size:
        yield there, "virtqueue_size" if spec.bus == "virtio-scsi" else "queue-size", spec.queue_size
    if spec.packed:
        yield there, "packed", True
    if spec.throttle:
        yield f"/objects/{limit(volume)}", "limits", limits(volume)


def with_property(state: DiskState, name: str, value: Any, wanted: Any) -> DiskState:
    """``state`` with a property; of several values in one only those that are ``wanted`` count."""
    if isinstance(value, Mapping) and isinstance(wanted, Mapping):
        value = {key: value.get(key) for key in wanted}
    wrong = () if value == wanted else (f"qemu.{name} is {value}, expected {wanted}",)
    shown = ", ".join(f"{key} {limit}" for key, limit in value.items()) if isinstance(value, Mapping) else str(value)
    row = {f"qemu.{name.replace('-', '_')}": shown.lower()}
    return DiskState({**state.rows, **row}, state.conditions, (*state.wrong, *wrong))
