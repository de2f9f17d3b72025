"""The device that a guest sees when the initiator runs in the hypervisor, or when there is no transport at all."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from fairlane.study.strict import Strict
from fairlane.units import Size, format_size

Bus = Literal["virtio-blk", "virtio-scsi", "nvme"]
CacheMode = Literal["none", "writeback", "writethrough", "directsync", "unsafe"]


class CacheFlags(NamedTuple):
    """QEMU's three flags of a cache mode, by the names of its ``BlockdevCacheInfo``."""

    writeback: bool
    """The guest sees a volatile cache, and flushes it; otherwise each write is stable when it completes."""
    direct: bool
    """O_DIRECT: past the host's page cache."""
    no_flush: bool
    """The guest's flushes do nothing."""


CACHE_MODES: Mapping[CacheMode, CacheFlags] = {
    "none": CacheFlags(writeback=True, direct=True, no_flush=False),
    "writeback": CacheFlags(writeback=True, direct=False, no_flush=False),
    "writethrough": CacheFlags(writeback=False, direct=False, no_flush=False),
    "directsync": CacheFlags(writeback=False, direct=True, no_flush=False),
    "unsafe": CacheFlags(writeback=True, direct=False, no_flush=True),
}
"""Mode -> flags (QEMU: ``docs/system/qemu-block-drivers``, option ``cache`` of ``-drive``)."""

_CLUSTERS = tuple(2**n for n in range(12, 22))
"""Bytes of a qcow2 cluster (QEMU: ``docs/interop/qcow2.txt``)."""


class GuestDevice(Strict):
    """A disk of a virtual machine, as the hypervisor emulates it."""

    bus: Bus = "virtio-blk"
    """virtio-blk: one PCI device per disk. virtio-scsi: disks on a SCSI controller. nvme: QEMU's NVMe controller."""
    io_threads: Annotated[int, Field(ge=0, le=64)] | Literal["per-disk"] = 0
    """IO threads: 0 is QEMU's main loop, 1 is shared by all disks, more are assigned in turn to disks (virtio-blk) or
    controllers (virtio-scsi); per-disk: one for each. QEMU's NVMe device has none."""
    vq_mapping: bool = False
    """Spread each disk's queues over all IO threads (iothread-vq-mapping; virtio-blk from QEMU 9.0, virtio-scsi from
    10.0). Fairlane checks whether QEMU supports it."""
    queues: int = Field(default=1, ge=1, le=64)
    """Queues of a disk (virtio-blk, nvme) or of a controller (virtio-scsi)."""
    aio: Literal["io_uring", "native", "threads"] = "threads"
    """How QEMU does I/O on files and block devices of the host. native needs cache none or directsync."""
    cache: CacheMode = "none"
    """none: O_DIRECT, past the host's page cache. writeback: through the page cache. writethrough, directsync: the same
    two, with each write stable when it completes. unsafe: through the page cache, and the guest's flushes do nothing,
    so that a crash of the host loses data which the guest believes safe."""
    format: Literal["raw", "qcow2"] = "raw"
    """Format of the image behind the disk."""
    controllers: int = Field(default=1, ge=1, le=16)
    """virtio-scsi controllers over which the disks are spread in turn. Other buses have one controller per disk."""
    discard: Literal["unmap", "ignore"] = "unmap"
    """What the guest's discards do: free space on the host, or nothing."""
    detect_zeroes: Literal["off", "on", "unmap"] = "off"
    """What becomes of zeroes that the guest writes: data (off), a write of zeroes without data (on), a discard
    (unmap)."""
    queue_size: int | None = Field(default=None, ge=16, le=1024)
    """Entries of each virtio queue, a power of 2. Default: QEMU's."""
    packed: bool = False
    """Packed virtio queues (virtio 1.1) instead of split ones."""
    block_size: Literal[512, 4096] = 512
    """Logical and physical block size that the guest sees."""
    cluster_size: Size | None = None
    """Of a qcow2 image, a power of 2 from 4k to 2m. Default: QEMU's, 64k."""
    preallocation: Literal["off", "metadata", "falloc", "full"] | None = None
    """Of the image that Fairlane makes: nothing, the tables of qcow2, space without writing it, zeroes written.
    Default: the platform's, see :doc:`guest-devices`."""
    throttle: bool = False
    """QEMU holds each disk to the lane's ``cap_iops`` and ``cap_mibs``: a tier as arrays and clouds sell it."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.bus == "nvme" and (self.io_threads or self.vq_mapping):
            raise ValueError("io_threads: QEMU's NVMe device has no IO threads; remove io_threads")
        if self.bus != "virtio-scsi" and self.controllers > 1:
            raise ValueError(f"controllers: {self.bus} has one controller per disk; remove controllers")
        if self.aio == "native" and not self.flags.direct:
            raise ValueError("aio: native I/O needs cache: none or directsync")
        if self.bus == "nvme" and not self.flags.writeback:
            raise ValueError("cache: QEMU's NVMe device always has a volatile cache; use none, writeback or unsafe")
        if self.bus == "nvme" and (self.queue_size or self.packed):
            raise ValueError("queue_size, packed: NVMe queues are not virtio's; remove them")
        if self.queue_size and self.queue_size & (self.queue_size - 1):
            raise ValueError("queue_size: expected a power of 2")
        if self.detect_zeroes == "unmap" and self.discard != "unmap":
            raise ValueError("detect_zeroes: unmap needs discard: unmap")
        if self.cluster_size and self.format != "qcow2":
            raise ValueError("cluster_size: only qcow2 images have clusters; set format: qcow2")
        if self.cluster_size and self.cluster_size not in _CLUSTERS:
            raise ValueError("cluster_size: expected a power of 2 from 4k to 2m")
        if self.preallocation == "metadata" and self.format == "raw":
            raise ValueError("preallocation: raw images have no metadata; use off, falloc or full")
        if self.vq_mapping and (self.io_threads == "per-disk" or self.io_threads < 2 or self.queues < 2):
            raise ValueError("vq_mapping: needs at least two IO threads and two queues")
        return self

    @property
    def flags(self) -> CacheFlags:
        """QEMU's flags of its cache mode."""
        return CACHE_MODES[self.cache]

    @property
    def durability(self) -> Mapping[str, str]:
        """Parameters of durability that the cache mode decides, whatever is behind the device."""
        flags = self.flags
        kept = {} if flags.direct or not flags.writeback else {"write_ack": "when the hypervisor's memory has it"}
        return {**kept, **({"flush": "ignored"} if flags.no_flush else {})}

    @property
    def options(self) -> str:
        """Keys beside the usual ones that are not at their defaults, in words; ``none``: as a lane without device."""
        words = (
            f"discard {self.discard}" if self.discard != "unmap" else "",
            f"detect_zeroes {self.detect_zeroes}" if self.detect_zeroes != "off" else "",
            f"queue_size {self.queue_size}" if self.queue_size else "",
            "packed" if self.packed else "",
            f"block_size {self.block_size}" if self.block_size != 512 else "",
            f"cluster_size {format_size(self.cluster_size)}" if self.cluster_size else "",
            f"preallocation {self.preallocation}" if self.preallocation else "",
            "throttle" if self.throttle else "",
        )
        return ", ".join(filter(None, words)) or "none"

    def known(self) -> Mapping[str, Any]:
        """Parameters (see ``guard.parameters``) of the device."""
        spread = " each, over every IO thread" if self.vq_mapping else ""
        return {
            "bus": self.bus,
            "io_threads": self.io_threads,
            "queues": f"{self.queues}{spread}" if spread else self.queues,
            "controllers": self.controllers if self.bus == "virtio-scsi" else "one per disk",
            "cache_mode": self.cache,
            **self.durability,
            "aio": self.aio,
            "image_format": self.format,
            "device_options": self.options,
        }
