"""Datastores of vSphere: disks (VMDK) of a machine. For studies that can be planned, but not run yet."""

from typing import Literal

from fairlane.lanes._named import Named, NamedVolume


class DatastoreSpec(NamedVolume):
    """A disk on a datastore of vSphere. State its properties in ``conditions``: bus, controllers, multipath, copies,
    provisioning, ..."""

    transport: Literal["datastore"]
    """A disk (VMDK) on a datastore."""
    platforms = ("vsphere",)


class Datastore(Named[DatastoreSpec]):
    Spec = DatastoreSpec


PLUGIN = Datastore
