"""A cluster's own controllers, played against a real API server."""

from tests.cluster.play.behaviour import Behaviour, Pace
from tests.cluster.play.controller import Play, save
from tests.cluster.play.machines import Disk, Machines, NoMachines
from tests.cluster.play.site import Class, Site
from tests.cluster.play.world import Record

__all__ = ["Behaviour", "Class", "Disk", "Machines", "NoMachines", "Pace", "Play", "Record", "Site", "save"]
