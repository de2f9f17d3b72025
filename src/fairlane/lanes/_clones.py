"""Shared by transports that clone a golden image; each method has a file ``clone_*.py``.

File methods keep clones beside the golden image in ``Site.medium``, a folder of the hypervisor; the others on the array
or in the cluster. QEMU opens every clone itself, so that the guest sees the same device with each.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from pydantic import model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes.base import Step, Transport
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
                raise ValueError(f"device.{key}: a clone boots from a raw virtio-blk disk with one queue; remove {key}")
        return self

    def known(self) -> Mapping[str, Any]:
        return {"flush": "honoured", **super().known(), "multipath": NONE}


SpecT = TypeVar("SpecT", bound=CloneLane)


@dataclass(frozen=True)
class Clone:
    """One clone: ``step`` creates it (``apply``) and deletes it (``remove``, which succeeds also for a partial or
    missing clone). ``backend``: QEMU's block node, without ``node-name``, ``cache`` and ``aio``."""

    step: Step
    backend: Mapping[str, Any]


class Cloning(Transport[SpecT]):
    """A transport that clones a golden image while it is measured (workload ``clone``). Its ``steps`` install the
    golden image once, from ``Site.golden``."""

    reflinks: ClassVar[bool] = False
    """Needs a file system of the hypervisor that shares blocks (XFS, btrfs)."""

    @abstractmethod
    def clone(self, number: int) -> Clone:
        """Clone ``number`` (from 0) of the lane."""

    @abstractmethod
    def read_golden(self) -> Step:
        """Reads the whole golden image (``apply``), so that every storm begins with equal caches."""

    def find(self) -> str:
        raise FairlaneError(
            "clones-in-standing-guest",
            f"lane {self.name} only makes clones, so it has no disk in a running guest",
            hint="use workload kind clone; for fio, use another transport",
        )


class CloningFiles(Cloning[SpecT]):
    """Clones stored as files of this machine."""

    backing = "machine"

    @abstractmethod
    def copy(self, file: str) -> str:
        """Shell that creates ``file`` from the golden image."""

    def node(self, file: str) -> Mapping[str, Any]:
        """QEMU's block node for a clone in ``file``."""
        return {"driver": "file", "filename": file}

    def clone(self, number: int) -> Clone:
        file = f"{self.site.medium}/{self.name}-{number}"
        step = Step(f"make clone {number} of {self.name}", "hypervisor", self.copy(file), remove=f"rm -f {file}")
        return Clone(step, self.node(file))

    def read_golden(self) -> Step:
        return Step("read the golden image", "hypervisor", f"cat {self.site.golden} > /dev/null")

    def path(self) -> tuple[str, ...]:
        return ("clone", "virtio-blk", "file of this machine")


OF_FILES = {
    "backend": "files of this machine",
    "volume_mode": "file",
    **dict.fromkeys(("path_settings", "link_speed", "link_delay", "mtu"), NONE),
}
"""``known`` of lanes with file clones."""
