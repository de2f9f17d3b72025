"""The device that a guest sees when the initiator runs in the hypervisor, or when there is no transport at all."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.study.strict import Strict

Bus = Literal["virtio-blk", "virtio-scsi", "nvme"]


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
    """How QEMU does I/O on files and block devices of the host. native needs cache none."""
    cache: Literal["none", "writeback"] = "none"
    """none: O_DIRECT, which bypasses the host's page cache. writeback: through the page cache."""
    format: Literal["raw", "qcow2"] = "raw"
    """Format of the image behind the disk."""
    controllers: int = Field(default=1, ge=1, le=16)
    """virtio-scsi controllers over which the disks are spread in turn. Other buses have one controller per disk."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.bus == "nvme" and (self.io_threads or self.vq_mapping):
            raise ValueError("io_threads: QEMU's NVMe device has no IO threads; remove io_threads")
        if self.bus != "virtio-scsi" and self.controllers > 1:
            raise ValueError(f"controllers: {self.bus} has one controller per disk; remove controllers")
        if self.aio == "native" and self.cache != "none":
            raise ValueError("aio: native I/O needs cache: none")
        if self.vq_mapping and (self.io_threads == "per-disk" or self.io_threads < 2 or self.queues < 2):
            raise ValueError("vq_mapping: needs at least two IO threads and two queues")
        return self

    def known(self) -> Mapping[str, Any]:
        """Parameters (see ``guard.parameters``) of the device."""
        spread = " each, over every IO thread" if self.vq_mapping else ""
        return {
            "bus": self.bus,
            "io_threads": self.io_threads,
            "queues": f"{self.queues}{spread}" if spread else self.queues,
            "controllers": self.controllers if self.bus == "virtio-scsi" else "one per disk",
            "cache_mode": self.cache,
            "aio": self.aio,
            "image_format": self.format,
        }
