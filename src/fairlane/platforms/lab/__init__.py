"""The embedded lab: real Linux storage stacks in small VMs on this machine."""

from typing import TYPE_CHECKING

from fairlane.platforms.base import Platform
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.virtual.lab import VirtualLab

if TYPE_CHECKING:
    from fairlane.study.spec import Study


class Lab(VirtualLab):
    """The lab under the study's clock; the virtual clock is the default."""

    @classmethod
    def of(cls, study: "Study") -> Platform:
        if isinstance(study.platform, LabSpec) and study.platform.clock == "wall":
            from fairlane.platforms.lab.wall.lab import WallLab  # noqa: PLC0415 - needed for that clock alone

            return WallLab(study)
        return cls(study)


PLUGIN = Lab
