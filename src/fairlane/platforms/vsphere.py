"""vSphere: virtual machines of ESXi hosts that a vCenter manages, their disks on its datastores.

What is here is the platform's part of the study; ``Described`` refuses to run it.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from fairlane.lanes._external import Secret
from fairlane.platforms._described import Described
from fairlane.platforms._machines import MachinesSpec
from fairlane.platforms._names import HostName, Inventory


class VsphereSpec(MachinesSpec):
    """Virtual machines of a vCenter that is there already. Described; not carried out yet."""

    kind: Literal["vsphere"]
    """VMware vSphere, VCF."""
    server: HostName
    """The vCenter."""
    user: str
    """Who logs in there."""
    secret: Secret
    """Where the password is found: {env: VCENTER_PASSWORD} or {file: ...}."""
    datacenter: Inventory
    """Datacenter in the inventory."""
    cluster: Inventory
    """Cluster of the hosts that run the machines."""
    resource_pool: Inventory | None = None
    """Resource pool in the cluster; not given: the cluster's own."""
    folder: Inventory | None = None
    """Folder of the machines; not given: that of the datacenter."""
    template: Inventory
    """Template that machines are cloned from: a Linux with VMware Tools. Only the volumes under test are added."""
    root_datastore: Inventory | None = None
    """Datastore of the machines' root disks, which are not under load; not given: that of the template."""
    networks: tuple[Inventory, ...] = ()
    """Port groups of the storage networks, for lanes whose initiator runs in the guest: a network card in each, beside
    the template's own."""
    per_host: int | None = Field(default=None, ge=1, le=500)
    """Machines of a lane on each host, in place of ``fleet``."""
    hosts: int = Field(default=1, ge=1, le=96)
    """Hosts that the machines are spread over. None is moved while the study runs."""

    @model_validator(mode="after")
    def _counted_once(self) -> Self:
        self.counted(self.hosts, self.per_host, ("hosts", "per_host"))
        return self

    @property
    def machines(self) -> int:
        return super().machines if self.per_host is None else self.per_host * self.hosts


class Vsphere(Described):
    """Lanes: ``datastore``; ``iscsi`` and ``nvme_tcp`` with an external array, whose initiator is the guest's."""

    Spec = VsphereSpec


PLUGIN = Vsphere
