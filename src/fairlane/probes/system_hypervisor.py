"""Pressure and context switches, disks and NICs of the machine that runs the guests, of all that runs there."""

from fairlane.probes._system import EVERYTHING, System


class SystemHypervisor(System):
    place = "hypervisor"
    key = "system_hypervisor"
    capture = EVERYTHING


PLUGIN = SystemHypervisor()
