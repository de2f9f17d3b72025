"""Pressure and context switches, disks and NICs of the machine that runs the guests, of all that runs there."""

from typing import ClassVar

from fairlane.probes._system import PRESSURE, System


class SystemHypervisor(System):
    place = "hypervisor"
    key = "system_hypervisor"
    capture: ClassVar[str] = f"grep -s . {PRESSURE} /proc/diskstats /proc/net/dev | grep -v :intr"


PLUGIN = SystemHypervisor()
