"""Pressure and context switches, disks and NICs of the array."""

from typing import ClassVar

from fairlane.probes._system import PRESSURE, System


class SystemTarget(System):
    place = "target"
    key = "system_target"
    capture: ClassVar[str] = f"grep -s . {PRESSURE} /proc/diskstats /proc/net/dev | grep -v :intr"


PLUGIN = SystemTarget()
