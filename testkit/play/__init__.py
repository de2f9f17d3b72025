"""A cluster's own controllers, played against a real API server."""

from testkit.play.behaviour import Behaviour, Pace
from testkit.play.controller import Play, save
from testkit.play.machines import Disk, Machines, NoMachines
from testkit.play.site import Class, Site
from testkit.play.world import Record

__all__ = ["Behaviour", "Class", "Disk", "Machines", "NoMachines", "Pace", "Play", "Record", "Site", "save"]
