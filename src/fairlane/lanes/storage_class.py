"""A storage class of Kubernetes: a claim (PVC) per volume, and a disk of a KubeVirt machine made of it."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.lanes._named import Named, NamedVolume
from fairlane.lanes.base import Site
from fairlane.study.values import NONE

_BUS = {"virtio": "virtio-blk", "scsi": "virtio-scsi", "sata": "sata"}


class StorageClassSpec(NamedVolume):
    """A volume of a storage class, as KubeVirt gives it to a machine. Names in brackets are KubeVirt's own."""

    transport: Literal["storage_class"]
    """A claim (PVC) of a storage class."""
    storage_class: str = Field(min_length=1, max_length=253)
    """Name of the storage class (storageClassName)."""
    volume_mode: Literal["Block", "Filesystem"] = "Block"
    """Block: QEMU opens the block device. Filesystem: a file, disk.img, in a file system of the node (volumeMode)."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"] = "ReadWriteOnce"
    """Who may mount it; ReadWriteMany is what live migration needs (accessModes)."""
    clone: Literal["csi-clone", "snapshot", "copy"] | None = None
    """How a clone storm makes volumes: by the driver, of a snapshot, or byte for byte (cloneStrategy of CDI); not
    given: what the cluster's storage profile says. It is read back."""
    bus: Literal["virtio", "scsi", "sata"] = "virtio"
    """virtio: virtio-blk. scsi: virtio-scsi, one controller for all disks of the machine (bus of the disk)."""
    io_threads_policy: Literal["shared", "auto", "supplementalPool"] | None = None
    """shared: one IO thread for all disks. auto: a pool that disks are dealt to. supplementalPool: the queues of each
    disk are spread over ``io_threads``. Not given: QEMU's main loop, or IO threads of ``dedicated_io_thread``
    (ioThreadsPolicy)."""
    io_threads: int | None = Field(default=None, ge=1, le=64)
    """Threads of the supplementalPool (supplementalPoolThreadCount)."""
    dedicated_io_thread: bool = False
    """An IO thread for each volume under test alone (dedicatedIOThread)."""
    block_multi_queue: bool = False
    """A queue per virtual CPU for every disk; false: one (blockMultiQueue)."""
    cache: Literal["none", "writeback", "writethrough"] = "none"
    """none: O_DIRECT, the node's page cache is passed by."""
    io: Literal["native", "threads", "default"] = "native"
    """How QEMU does the I/O; default: what QEMU chooses. native needs cache none."""
    dedicated_cpus: bool = False
    """Virtual CPUs are pinned to cores of their own (dedicatedCpuPlacement): needs a node with the CPU manager."""
    platforms = ("kubevirt",)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.io_threads_policy == "supplementalPool") != (self.io_threads is not None):
            raise ValueError("io_threads: is the size of a supplementalPool; give both or neither")
        if self.io_threads_policy == "supplementalPool" and self.dedicated_io_thread:
            raise ValueError("dedicated_io_thread: with a supplementalPool every disk uses the whole pool")
        if self.io == "native" and self.cache != "none":
            raise ValueError("io: native I/O needs cache: none")
        if self.bus == "sata" and (self.io_threads_policy or self.dedicated_io_thread or self.block_multi_queue):
            raise ValueError("bus: sata has one queue and no IO threads")
        return self

    @property
    def threads(self) -> str | int:
        """IO threads, for the guard and for readers."""
        if self.io_threads_policy == "supplementalPool":
            return f"pool of {self.io_threads}"
        own = "per-disk" if self.dedicated_io_thread else 0
        return f"{self.io_threads_policy}, {own}" if self.io_threads_policy and own else self.io_threads_policy or own

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            "backend": f"storage class {self.storage_class}",
            "volume_mode": self.volume_mode,
            "bus": _BUS[self.bus],
            "io_threads": self.threads,
            "queues": "one per CPU" if self.block_multi_queue else 1,
            "controllers": 1 if self.bus == "scsi" else "one per disk",
            "cache_mode": self.cache,
            "aio": self.io,
            "cpu_pinning": self.dedicated_cpus or NONE,
            **({"image_format": "raw"} if self.volume_mode == "Filesystem" else {"image_format": NONE}),
        }


class StorageClass(Named[StorageClassSpec]):
    Spec = StorageClassSpec

    def path(self, name: str, spec: StorageClassSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        mode = "block device of the node" if spec.volume_mode == "Block" else "disk.img in a file system of the node"
        via = (spec.protocol,) if spec.protocol else ()
        return ("fio", f"{_BUS[spec.bus]} disk", "QEMU", mode, *via, f"storage class {spec.storage_class}")


PLUGIN = StorageClass()
