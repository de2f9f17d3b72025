"""vSphere: virtual machines of ESXi hosts, their disks on datastores. Its studies can be planned, but not run yet."""

from collections.abc import AsyncGenerator
from typing import Literal

from fairlane.errors import FairlaneError
from fairlane.platforms._machines import MachinesSpec
from fairlane.platforms.base import Notify, Opened, Platform, RawTrial
from fairlane.records import Block


class VsphereSpec(MachinesSpec):
    """Machines of vSphere: what a plan needs. Studies are checked and planned; they cannot be run yet, so no key says
    where the vCenter is."""

    kind: Literal["vsphere"]
    """VMware vSphere, VCF."""


class Vsphere(Platform):
    """Has no machines: ``problems`` prevents ``open`` and ``run_block``."""

    Spec = VsphereSpec
    described = "its studies can be checked and planned, but not run yet"

    def problems(self) -> list[FairlaneError]:
        return [
            *self.unfit(),
            FairlaneError(
                "platform-unsupported",
                f"studies of platform {self.study.platform.kind!r} can be checked and planned, but not run yet",
                hint="try --quick: the quick form of some studies runs in the lab (docs/presets.md)",
            ),
        ]

    async def open(self, notify: Notify) -> Opened:  # noqa: ARG002
        raise self.problems()[0]

    def run_block(self, block: Block) -> AsyncGenerator[RawTrial]:  # noqa: ARG002
        raise self.problems()[0]


PLUGIN = Vsphere
