"""A storage class of Kubernetes: a claim (PVC) per volume, and a disk of a KubeVirt machine made of it."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.guard.values import NONE
from fairlane.lanes._named import Named, NamedVolume

_BUS = {"virtio": "virtio-blk", "scsi": "virtio-scsi", "sata": "sata"}
_LINK = {
    "iscsi": "TCP: iSCSI", "nvme_tcp": "TCP: NVMe/TCP", "nvme_rdma": "RDMA: NVMe/RDMA", "nvme_fc": "FC: NVMe/FC",
    "fc": "FC", "fcoe": "Ethernet: FCoE", "nfs": "TCP: NFS", "rbd": "TCP: Ceph RBD", "cephfs": "TCP: CephFS",
    "vsan": "link of vSAN", "local": "local to the node",
}  # fmt: skip
"""Protocol -> hops of the path, the link first: stated by the study, because no cluster API has it."""


class StorageClassSpec(NamedVolume):
    """A volume of a storage class, attached by KubeVirt. Names in brackets are KubeVirt's."""

    transport: Literal["storage_class"]
    """A claim (PVC) of a storage class."""
    storage_class: str = Field(min_length=1, max_length=253)
    """Name of the storage class (storageClassName)."""
    volume_mode: Literal["Block", "Filesystem"] = "Block"
    """Block: QEMU opens the block device. Filesystem: a file, disk.img, in a file system of the node (volumeMode)."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"] = "ReadWriteOnce"
    """Who may mount it; ReadWriteMany is what live migration needs (accessModes)."""
    clone: Literal["csi-clone", "snapshot", "copy"] | None = None
    """How a clone storm creates volumes; required for that workload. csi-clone: the driver clones the golden volume.
    snapshot: the driver restores a snapshot of it. copy: CDI copies it byte for byte. The cluster's storage profile
    does not decide, because it may differ between lanes. A clone made in another way stops the run."""
    golden: Literal["shared", "per-node"] = "shared"
    """Golden volumes of a clone storm: one, or one on each node. Volumes that are bound to a node (LVMS, local) can
    only be cloned on that node."""
    bus: Literal["virtio", "scsi", "sata"] = "virtio"
    """virtio: virtio-blk. scsi: virtio-scsi, one controller for all disks of the machine (bus of the disk)."""
    io_threads_policy: Literal["shared", "auto", "supplementalPool"] | None = None
    """shared: one IO thread for all disks. auto: a pool; each disk uses one of its threads. supplementalPool: the
    queues of each disk are spread over ``io_threads``. Default: QEMU's main loop, or the IO threads of
    ``dedicated_io_thread`` (ioThreadsPolicy). Virtio disks only."""
    io_threads: int | None = Field(default=None, ge=1, le=64)
    """Threads of the supplementalPool (supplementalPoolThreadCount)."""
    dedicated_io_thread: bool = False
    """An IO thread for each volume under test alone (dedicatedIOThread)."""
    block_multi_queue: bool = False
    """A queue per virtual CPU for every virtio disk; false: QEMU chooses the number
    (blockMultiQueue)."""
    cache: Literal["none", "writeback", "writethrough"] = "none"
    """none: O_DIRECT, which bypasses the node's page cache."""
    io: Literal["native", "threads", "default"] = "native"
    """How QEMU does the I/O. default: not set; KubeVirt then uses native for block devices and preallocated
    files without cache, and QEMU chooses for the rest. native needs cache none."""
    dedicated_cpus: bool = False
    """Virtual CPUs are pinned to cores of their own (dedicatedCpuPlacement): needs a node with the CPU manager."""
    isolate_emulator_thread: bool = False
    """With ``dedicated_cpus``: QEMU's own threads get one more core, in place of a share of the machine's
    (isolateEmulatorThread)."""
    platforms = ("kubevirt",)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.io_threads_policy == "supplementalPool") != (self.io_threads is not None):
            raise ValueError("io_threads: sets the size of a supplementalPool; set both or neither")
        if self.io_threads_policy == "supplementalPool" and self.dedicated_io_thread:
            raise ValueError("dedicated_io_thread: with a supplementalPool every disk uses the whole pool")
        if self.io == "native" and self.cache != "none":
            raise ValueError("io: native I/O needs cache: none")
        if self.bus != "virtio" and (self.io_threads_policy or self.dedicated_io_thread or self.block_multi_queue):
            raise ValueError(
                f"bus: KubeVirt supports IO threads and block_multi_queue only on virtio disks, not {self.bus}"
            )
        if self.isolate_emulator_thread and not self.dedicated_cpus:
            raise ValueError("isolate_emulator_thread: needs dedicated_cpus: true")
        return self

    @property
    def threads(self) -> str | int:
        """IO threads, for the guard and reports."""
        if self.io_threads_policy == "supplementalPool":
            parts: tuple[str | int, ...] = (f"pool of {self.io_threads}",)
        else:
            own = ("per-disk",) if self.dedicated_io_thread else ()
            parts = (*((self.io_threads_policy,) if self.io_threads_policy else ()), *own) or (0,)
        if self.isolate_emulator_thread:
            parts += ("QEMU's own apart",)
        return parts[0] if len(parts) == 1 else ", ".join(map(str, parts))

    @property
    def queues(self) -> str | int:
        """Queues of a disk, for the guard; QEMU's default differs between versions, so it is not assumed."""
        if self.bus == "sata":
            return 1
        return "one per CPU" if self.block_multi_queue else "QEMU's default"

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            "backend": f"storage class {self.storage_class}",
            "volume_mode": self.volume_mode,
            "bus": _BUS[self.bus],
            "io_threads": self.threads,
            "queues": self.queues,
            "controllers": 1 if self.bus == "scsi" else "one per disk",
            "cache_mode": self.cache,
            "aio": self.io,
            "cpu_pinning": self.dedicated_cpus or NONE,
            **({"provisioning": self.clone} if self.clone else {}),
            **({"image_format": "raw"} if self.volume_mode == "Filesystem" else {"image_format": NONE}),
        }


class StorageClass(Named[StorageClassSpec]):
    Spec = StorageClassSpec

    def path(self) -> tuple[str, ...]:
        spec = self.spec
        mode = "block device of the node" if spec.volume_mode == "Block" else "disk.img in a file system of the node"
        disk = f"{_BUS[spec.bus]} disk{', a queue per CPU' if spec.block_multi_queue else ''}"
        emulator = f"QEMU, IO threads: {spec.threads}" if spec.threads else "QEMU"
        via = (f"{_LINK[spec.protocol]}, says the study",) if spec.protocol else ()
        load = "clone" if spec.clone else "fio"
        return (load, disk, emulator, mode, *via, f"storage class {spec.storage_class}")


PLUGIN = StorageClass
