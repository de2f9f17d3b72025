"""Pressure and context switches in the guest."""

from typing import ClassVar

from fairlane.probes._system import PRESSURE, System


class Guest(System):
    place = "guest"
    key = "system"
    capture: ClassVar[str] = f"grep -s . {PRESSURE} | grep -v :intr"


PLUGIN = Guest()
