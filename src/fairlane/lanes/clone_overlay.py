"""Clones that are qcow2 overlays: QEMU reads from the golden image what the overlay does not have."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes._clones import OF_FILES, Clone, CloneLane, CloningFiles
from fairlane.lanes.base import Site, Step


class CloneOverlaySpec(CloneLane):
    """An empty qcow2 image with the golden image as its backing file."""

    transport: Literal["clone_overlay"]
    """A qcow2 overlay."""

    def known(self) -> Mapping[str, Any]:
        return {
            **super().known(),
            **OF_FILES,
            "image_format": "qcow2 over raw",
            "provisioning": "overlay, copied on write by QEMU",
        }


class CloneOverlay(CloningFiles[CloneOverlaySpec]):
    Spec = CloneOverlaySpec

    def steps(self, name: str, spec: CloneOverlaySpec, site: Site) -> tuple[Step, ...]:  # noqa: ARG002
        return ()

    def clone(self, name: str, spec: CloneOverlaySpec, site: Site, number: int) -> Clone:  # noqa: ARG002
        file = f"{site.medium}/{name}-{number}"
        step = Step(
            name=f"make the overlay of clone {number} of {name}",
            place="hypervisor",
            apply=f"qemu-img create -q -f qcow2 -F raw -b {site.golden} {file}",
            remove=f"rm -f {file}",
        )
        backing = {"driver": "raw", "file": {"driver": "file", "filename": site.golden}, "read-only": True}
        return Clone(step, {"driver": "qcow2", "file": {"driver": "file", "filename": file}, "backing": backing})


PLUGIN = CloneOverlay()
