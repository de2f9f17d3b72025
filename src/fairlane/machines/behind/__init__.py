"""What lies behind a path on a machine: looked up, measured, and what forbids or qualifies its use.

``look`` reads it, ``probe`` measures it, ``problems`` and ``warnings`` judge it before a run. The checks read the same
as plain JSON (``as_json``), from ``description["lanes"][LANE]["behind"]`` and ``["probed"]``.
"""

from fairlane.machines.behind.look import look
from fairlane.machines.behind.probe import probe
from fairlane.machines.behind.problems import problems, warnings
from fairlane.machines.behind.records import Behind, Direct, Disk, Flush, Layer, Moved, Probed, Volume

__all__ = [
    "Behind",
    "Direct",
    "Disk",
    "Flush",
    "Layer",
    "Moved",
    "Probed",
    "Volume",
    "look",
    "probe",
    "problems",
    "warnings",
]
