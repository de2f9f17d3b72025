"""Datastores of vSphere: disks (VMDK) of a machine. For studies that are planned, and not run yet."""

from typing import Literal

from fairlane.lanes._named import Named, NamedVolume


class DatastoreSpec(NamedVolume):
    """A disk on a datastore of vSphere. ``conditions`` tell what is known of it: bus, controllers, multipath, copies,
    provisioning, ..."""

    transport: Literal["datastore"]
    """A disk (VMDK) on a datastore."""
    platforms = ("vsphere",)


class Datastore(Named[DatastoreSpec]):
    Spec = DatastoreSpec


PLUGIN = Datastore
