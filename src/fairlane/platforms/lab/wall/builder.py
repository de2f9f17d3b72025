"""The lab's way of building lanes: devices that the hypervisor provides, and clones, which no guest has."""

from collections.abc import Callable

from fairlane.fleet import guest_disk
from fairlane.fleet.build import Builder
from fairlane.lanes._clones import Cloning
from fairlane.lanes.base import Place, Step
from fairlane.machines import script
from fairlane.machines.base import Guest
from fairlane.platforms.lab.wall import disks
from fairlane.platforms.lab.wall.layout import Volume

Where = Callable[[Place, Volume], Guest]
"""The machine on which a step of a volume runs."""


def builder(where: Where) -> Builder[Volume]:
    """Builds the lab's volumes."""
    return Builder(where, _find, _described, lambda volume: not isinstance(volume.transport, Cloning))


def _find(volume: Volume) -> str:
    return guest_disk.find(disks.device(volume), volume.serial) if volume.emulated else volume.transport.find()


def _described(volume: Volume) -> tuple[Step, ...]:
    steps = volume.steps()
    if isinstance(volume.transport, Cloning) or not volume.emulated:
        return steps
    return (*steps, guest_disk.read_back(disks.device(volume), volume.serial, script.device(volume.name)))
