"""What the transports that clone a golden image have in common: one file ``clone_*.py`` per method.

Clones of file methods lie side by side in ``Site.medium``, a folder of the hypervisor, with the golden image; those of
others on the array or in the cluster. QEMU opens every clone itself, so that the guest sees the same device with each.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from pydantic import model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes.base import Site, Step, Transport
from fairlane.study.base import LaneSpec
from fairlane.study.guest_device import GuestDevice

_LEFT_ALONE = ("bus", "io_threads", "vq_mapping", "queues", "controllers", "format")


class CloneLane(LaneSpec):
    """A lane of clones. Derived classes add ``transport``."""

    initiators = ("hypervisor",)

    @model_validator(mode="after")
    def _bootable(self) -> Self:
        plain = GuestDevice()
        for key in _LEFT_ALONE:
            if self.device and getattr(self.device, key) != getattr(plain, key):
                raise ValueError(
                    f"device.{key}: a clone boots from a raw virtio-blk disk with one queue; leave {key} away"
                )
        return self

    def known(self) -> Mapping[str, Any]:
        return {**super().known(), "multipath": NONE, "flush": "honoured"}


SpecT = TypeVar("SpecT", bound=CloneLane)


@dataclass(frozen=True)
class Clone:
    """One clone: ``step`` makes it (``apply``) and deletes it (``remove``, which succeeds also where it was made in
    part or not at all). ``backend`` is QEMU's block node for it, without ``node-name``, ``cache`` and ``aio``."""

    step: Step
    backend: Mapping[str, Any]


class Cloning(Transport[SpecT]):
    """A transport that makes clones. Its ``steps`` put the golden image in place once, from ``Site.golden``."""

    clones = True
    reflinks: ClassVar[bool] = False
    """Needs files of the hypervisor that can share blocks (XFS, btrfs)."""

    @abstractmethod
    def clone(self, name: str, spec: SpecT, site: Site, number: int) -> Clone:
        """Clone ``number`` (from 0) of lane ``name``."""

    @abstractmethod
    def read_golden(self, name: str, spec: SpecT, site: Site) -> Step:
        """Reads the whole golden image where it lies (``apply``): every storm begins with caches in the same state."""

    def find(self, name: str, spec: SpecT, site: Site) -> str:  # noqa: ARG002
        raise FairlaneError(
            f"lane {name} makes clones and has no disk in a standing guest",
            hint="its workload is clone; fio needs another transport",
        )


class CloningFiles(Cloning[SpecT]):
    """Clones that are files of this machine."""

    target = False

    def read_golden(self, name: str, spec: SpecT, site: Site) -> Step:  # noqa: ARG002
        return Step("read the golden image", "hypervisor", f"cat {site.golden} > /dev/null")

    def path(self, name: str, spec: SpecT, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("clone", "virtio-blk", "file of this machine")


OF_FILES = {
    "backend": "files of this machine",
    "volume_mode": "file",
    **dict.fromkeys(("path_settings", "link_speed", "link_delay", "mtu"), NONE),
}
"""For ``known`` of lanes whose clones are files."""
