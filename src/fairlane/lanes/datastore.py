"""Datastores of vSphere: disks (VMDK) of a machine, and how the ESXi hosts reach what they lie on."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.guard.values import NONE
from fairlane.lanes._ceph import Redundancy
from fairlane.lanes._named import Named, NamedVolume, Protocol

_SCSI = 4
"""Controllers of one kind that a virtual machine can have."""
_FABRICS = {1: "one network for all paths", 2: "A/B: two networks, a port of the host for each"}


class DatastoreSpec(NamedVolume):
    """A disk on a datastore of vSphere."""

    transport: Literal["datastore"]
    """A disk (VMDK) on a datastore."""
    protocol: Protocol
    """How the hosts reach the datastore's storage; read back from them."""
    datastores: tuple[str, ...] = Field(min_length=1)
    """Names of the datastores. Disks are dealt to them in turn."""
    sessions: int = Field(default=1, ge=1, le=16)
    """iSCSI sessions of a host to each portal (esxcli iscsi session add makes the further ones)."""
    policy: Literal["round-robin", "fixed", "most-recently-used"] | None = None
    """Which path an I/O takes (path selection policy); not given: what the hosts have for this array. It is read
    back."""
    fabrics: Literal[1, 2] | None = None
    """1: all paths in one VLAN. 2: an A/B split, each VLAN on a physical port of its own, so that a path cannot cross
    over. Not given: not known."""
    controller: Literal["pvscsi", "nvme", "lsilogic-sas"] = "pvscsi"
    """What the machine's disks are attached to: VMware Paravirtual SCSI, VMware's NVMe device, LSI Logic SAS."""
    controllers: int = Field(default=1, ge=1, le=_SCSI)
    """Controllers over which the disks are spread in turn."""
    provisioning: Literal["thin", "thick", "thick-lazy-zeroed", "thick-eager-zeroed"] | None = None
    """Of the disks. thick: space is reserved, as vSAN does it. thick-eager-zeroed: all of it is written when it is
    made. Not given: the storage policy's or, on NFS, the array's business."""
    shared: bool = False
    """One set of disks for all machines of the lane (multi-writer), as a clustered database needs it; otherwise each
    machine has its own."""
    storage_policy: str = ""
    """Storage policy (SPBM) of the disks: on vSAN it says how they are kept. Empty: the datastore's default."""
    redundancy: Redundancy | None = None
    """What that policy means: copies (2 for RAID-1 that tolerates one failure), or data+parity in quotes ('3+1'); not
    given: ``conditions.copies`` may tell."""
    platforms = ("vsphere",)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.sessions > 1 and self.protocol != "iscsi":
            raise ValueError(f"sessions: {self.protocol} has none; leave sessions away")
        if self.policy and self.protocol in ("nfs", "vsan", "local"):
            raise ValueError(f"policy: {self.protocol} has no paths to choose from; leave policy away")
        if len(set(self.datastores)) < len(self.datastores):
            raise ValueError("datastores: one is named twice")
        return self

    def known(self) -> Mapping[str, Any]:
        paths: list[str] = [self.policy] if self.policy else []
        paths += [_FABRICS[self.fabrics]] if self.fabrics else []
        under = f" with policy {self.storage_policy}" if self.storage_policy else ""
        several = "s" * (len(self.datastores) > 1)
        told = {
            "backend": f"datastore{several} {', '.join(self.datastores)}{under}",
            "multipath": ", ".join(paths) or None,
            "path_settings": f"{self.sessions} session{'s' * (self.sessions > 1)} to each portal"
            if self.protocol == "iscsi"
            else None,
            "provisioning": self.provisioning,
            "copies": self.redundancy,
        }
        return {
            **super().known(),
            "bus": self.controller,
            "controllers": self.controllers,
            "io_threads": NONE,
            "cache_mode": NONE,
            "image_format": "vmdk",
            "volume_mode": "VMDK",
            **{key: value for key, value in told.items() if value is not None},
        }


class Datastore(Named[DatastoreSpec]):
    Spec = DatastoreSpec

    def path(self) -> tuple[str, ...]:
        spec = self.spec
        return ("fio", f"{spec.controller} disk", "ESXi", spec.protocol, *spec.datastores)


PLUGIN = Datastore
