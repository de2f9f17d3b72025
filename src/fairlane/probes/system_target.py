"""Pressure and context switches, disks and NICs of the array."""

from fairlane.probes._system import EVERYTHING, System


class SystemTarget(System):
    place = "target"
    key = "system_target"
    capture = EVERYTHING


PLUGIN = SystemTarget()
