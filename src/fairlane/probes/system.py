"""Pressure and context switches in the guest."""

from fairlane.probes._system import PRESSURE, System


class Guest(System):
    place = "guest"
    key = "system"
    capture = PRESSURE


PLUGIN = Guest()
